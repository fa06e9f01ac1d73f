"""All detectors over one text: what is secret in it, and what else reads differently outside."""

from dataclasses import dataclass
from functools import lru_cache

from .assignments import find_assignments
from .paths import find_long_traces, find_paths
from .shapes import find_shapes
from .spans import Findings, Places, Span, merged, replaced
from .tokens import find_tokens

SHORTEST_SECRET = 8


# A mask may make its neighbours readable as secrets: they are looked at again, so that masking
# a masked text changes nothing. Only hostile text needs more than two looks.
_LOOKS = 6


@dataclass(frozen=True, slots=True)
class Search:
    """What to look for: the secrets always, the paths and the traces where asked."""

    secrets: tuple[str, ...] = ()
    project: str | None = None
    home: str | None = None
    paths: bool = True
    traces: bool = True

    def spans(self, text: str) -> tuple[list[Span], int]:
        """Return what is to be replaced in `text`, and from where on more text may change that."""
        found = self._look(text)
        spans, undecided = merged(text, found.spans), found.undecided
        for _ in range(_LOOKS):
            if not any(words.startswith("[masked:") for _, _, words in spans):
                break
            places = Places(spans)
            masked = replaced(text, spans)
            again = self._look(masked)
            undecided = min(undecided, places.before((again.undecided, len(masked), ""))[0])
            more = [places.before(span) for span in merged(masked, again.spans)]
            if not more:
                break
            spans = merged(text, spans + more)
        return spans, undecided

    def _look(self, text: str) -> Findings:
        found = Findings(text)
        for secret in spellings(self.secrets):
            _find_known(found, secret)
        find_tokens(found)
        find_shapes(found)
        find_assignments(found)
        if self.paths:
            find_paths(found, self.project, self.home)
        if self.traces:
            find_long_traces(found)
        return found


def _find_known(found: Findings, secret: str) -> None:
    text, width = found.text, len(secret)
    at = text.find(secret)
    while at >= 0:
        found.mask(at, at + width, "secret")
        at = text.find(secret, at + width)


@lru_cache(maxsize=8)
def spellings(secrets: tuple[str, ...]) -> tuple[str, ...]:
    """Return every form of the known secrets: plain, escaped once or twice, in a URL."""
    from json import dumps
    from urllib.parse import quote

    forms: dict[str, None] = {}
    for secret in secrets:
        if len(secret) < SHORTEST_SECRET:
            continue
        escaped = [dumps(secret)[1:-1], dumps(secret, ensure_ascii=False)[1:-1]]
        twice = [dumps(form)[1:-1] for form in escaped]
        scrubbed = secret.encode("utf-8", "replace")
        for form in (secret, *escaped, *twice, quote(scrubbed, safe=""), quote(scrubbed)):
            forms[form] = None
    return tuple(sorted(forms, key=len, reverse=True))
