"""No secret passes: text and JSON that went through a `Masker` hold none that it knows of.

Secrets become `[masked:kind]`, paths in the working tree relative, home folders `~`, and long
stack traces lose their middle. All of it takes linear time on any input.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .names import is_secret_name, secret_environment_values, without_secrets
from .stream import StreamMasker

if TYPE_CHECKING:
    from .search import Search

__all__ = [
    "Masker",
    "StreamMasker",
    "is_secret_name",
    "secret_environment_values",
    "without_secrets",
]


@dataclass(frozen=True, slots=True)
class Masker:
    """Masks secrets in what leaves a run.

    `project` is the absolute path of the working tree, `home` the user's home folder; `secrets`
    are exact values known to be secret, of eight characters or more. With `only_secrets` paths
    and stack traces stay as they are.
    """

    project: str | None = None
    home: str | None = None
    secrets: tuple[str, ...] = ()
    only_secrets: bool = False

    def text(self, text: str) -> str:
        """Return `text` fit to leave: no secrets, no home paths, no endless stack traces."""
        return self._search().masked(text)

    def lines(self, lines: Sequence[str]) -> list[str]:
        """Return the lines of one text, as many as before: a secret that spans lines goes too."""
        return self._search().masked_lines(lines)

    def value(self, value: Any) -> tuple[Any, list[str]]:
        """Return a masked deep copy of a JSON value, and the JSON paths at which it differs."""
        from .tree import masked_copy

        search = self._search()
        return masked_copy(value, search.masked, search.masked_lines)

    def stream(self) -> StreamMasker:
        """Return a masker for text that comes in pieces."""
        return StreamMasker(self.project, self.home, self.secrets)

    def _search(self) -> "Search":
        from .search import Search

        if self.only_secrets:
            return Search(self.secrets, paths=False, traces=False)
        return Search(self.secrets, self.project, self.home)
