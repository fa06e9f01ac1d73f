"""All detectors over one text: which parts are secret, and what else is replaced."""

import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from outrider.texts.paths import find_long_traces, find_paths
from outrider.texts.spans import Findings, Places, Span, compiled, merged, replaced, replaced_lines

from .assignments import find_assignments
from .decoding import decodings, without_sequences
from .phrases import find_phrases
from .shapes import find_shapes
from .tokens import find_tokens

MAX_CACHED = 48  # the longest text that a cache keeps: names and states, which come often
_MIN_SECRET = 8

# Ids and names: no token is so short, a JWT apart, and what leads to any other secret, or makes
# a path, takes a sign that isn't in here.
_SHORT_WORD = r"(?!.*eyJ)[A-Za-z0-9_-]{0,15}"

# After a mask its neighbours may look like secrets: they are looked at again, so that masking
# a masked text changes nothing. Ordinary text needs one look, hostile text a few.
_MAX_LOOKS = 6
_AROUND = 600
_MAX_DECODED = 3  # how often what was encoded may be encoded in turn
Parts = list[tuple[int, int]]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Search:
    """What to look for: secrets always, paths and traces where wanted.

    `known` are the known secrets in every form, as `spellings` returns them.
    """

    known: tuple[str, ...] = ()
    project: str | None = None
    home: str | None = None
    paths: bool = True
    traces: bool = True

    def masked(self, text: str) -> str:
        return _masked_short(self, text) if len(text) <= MAX_CACHED else self.searched(text)[1]

    def masked_lines(self, lines: Sequence[str]) -> list[str]:
        """Return the lines of one text, each with what is found in it replaced."""
        if len(lines) == 1:
            return [self.masked(lines[0])]
        spans = self.searched("\n".join(lines))[0].spans
        return replaced_lines(lines, spans) if spans else list(lines)

    def searched(self, text: str, *, is_start: bool = True) -> tuple[Findings, str]:
        """Return what is found in `text`, with merged spans, and the text with those replaced."""
        found = self._look(text, is_start)
        found.spans = spans = merged(found.view, found.spans)
        if not spans:
            return found, text
        masked = replaced(text, spans)
        for _ in range(_MAX_LOOKS):
            places = Places(spans)
            masks = places.masks()
            if not masks:
                break
            again, open_from = self._look_around(masked, masks, is_start)
            before = places.before((open_from, len(masked), ""))[0]
            found.undecided = min(found.undecided, before)
            if not again:
                break
            found.spans = spans = merged(found.view, [*spans, *map(places.before, again)])
            masked = replaced(text, spans)
        return found, masked

    def _look_around(self, text: str, masks: Parts, is_start: bool) -> tuple[list[Span], int]:
        """Look again near the masks; return what is found, and from where it is undecided."""
        spans: list[Span] = []
        undecided = len(text)
        for first, last in _windows(masks, len(text)):
            found = self._look(text[first:last], is_start and not first)
            whole = merged(found.view, _whole(found.spans, first, last, len(text)))
            spans += [(first + start, first + end, words) for start, end, words in whole]
            if last == len(text):
                undecided = first + found.undecided
        return spans, undecided

    def _look(self, text: str, is_start: bool, depth: int = 0) -> Findings:
        found = Findings(text, is_start)
        for secret in self.known:
            for match in re.finditer(re.escape(secret), text) if secret in text else ():
                found.mask(*match.span(), "secret")
        if compiled(_SHORT_WORD).fullmatch(text):
            return found
        find_tokens(found)
        find_shapes(found)
        find_assignments(found)
        find_phrases(found)
        if depth < _MAX_DECODED:
            self._look_behind(found, depth)
        if self.paths and not depth:
            find_paths(found, self.project, self.home)
        if self.traces and not depth:
            find_long_traces(found)
        return found

    def _look_behind(self, found: Findings, depth: int) -> None:
        """Decode what is encoded, look again around it, and note what that shows to be secret."""
        found.encodings = encodings = decodings(found)
        length, marked = len(found.text), [span[:2] for span in encodings]
        for first, last in _windows(marked, length, _AROUND // 2):
            inside = encodings[bisect_left(marked, (first,)) : bisect_left(marked, (last,))]
            inside = [(start - first, end - first, words) for start, end, words in inside]
            places, text = Places(inside), found.text[first:last]
            behind = self._look(replaced(text, inside), found.is_start and not first, depth + 1)
            whole = _whole(map(places.before, behind.spans), first, last, length)
            found.spans += [(first + start, first + end, words) for start, end, words in whole]
            if last == length:
                undecided = places.before((behind.undecided, behind.undecided, ""))[0]
                found.undecided = min(found.undecided, first + undecided)
        if encodings:
            spans = (without_sequences(found.text, encodings, span) for span in found.spans)
            found.spans = [span for span in spans if span[0] < span[1]]


@lru_cache(maxsize=1024)
def _masked_short(search: Search, text: str) -> str:
    return search.searched(text)[1]


def _windows(masks: Parts, length: int, around: int = _AROUND) -> Parts:
    """Return the parts around the masks, or all of the text where they are many."""
    windows = Parts()
    for start, end in masks:
        first, last = max(0, start - around), min(length, end + around)
        if windows and first <= windows[-1][1]:
            windows[-1] = (windows[-1][0], last)
        else:
            windows.append((first, last))
    return windows if len(windows) * 8 * around < length else [(0, length)]


def _whole(spans: Iterable[Span], first: int, last: int, length: int) -> list[Span]:
    """Return the spans of a window without those at its edges: there it may have cut a thing."""
    return [
        span
        for span in spans
        if (span[0] or not first) and (first + span[1] < last or last == length)
    ]


def spellings(secrets: tuple[str, ...]) -> tuple[str, ...]:
    """Return every form of the known secrets: plain, escaped once or twice, in a URL."""
    from json import dumps
    from urllib.parse import quote

    forms: dict[str, None] = {}
    for secret in secrets:
        if len(secret) < _MIN_SECRET:
            continue
        escaped = [dumps(secret)[1:-1], dumps(secret, ensure_ascii=False)[1:-1]]
        twice = [dumps(form)[1:-1] for form in escaped]
        scrubbed = secret.encode("utf-8", "replace")
        for form in (secret, *escaped, *twice, quote(scrubbed, safe=""), quote(scrubbed)):
            forms[form] = None
    return tuple(sorted(forms, key=len, reverse=True))
