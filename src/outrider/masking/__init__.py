"""No secret passes: text and JSON that went through a `Masker` have none that it can recognise.

Secrets become `[masked:kind]`, paths in the working tree relative, home folders `~`, and long
stack traces lose their middle. All of it takes linear time on any input.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from .names import is_secret_name, secret_environment_values, without_secrets
from .stream import StreamMasker

if TYPE_CHECKING:
    from .search import Search

__all__ = ["Masker", "StreamMasker"]
__all__ += ["is_secret_name", "secret_environment_values", "without_secrets"]


@dataclass(frozen=True, eq=False, repr=False)
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
        """Return `text` without secrets, home paths and long stack traces."""
        return self._search.masked(text)

    def lines(self, lines: Sequence[str]) -> list[str]:
        """Return the masked lines of one text, as many as before; a secret may span lines."""
        return self._search.masked_lines(lines)

    def value(self, value: Any) -> tuple[Any, list[str]]:
        """Return a masked deep copy of a JSON value, and the JSON paths at which it differs."""
        from .tree import masked_copy

        return masked_copy(value, self._search.masked, self._search.masked_lines)

    def stream(self) -> StreamMasker:
        return StreamMasker(replace(self._search, traces=False))

    @cached_property
    def _search(self) -> "Search":
        from .search import Search, spellings

        if self.only_secrets:
            return Search(spellings(self.secrets), paths=False, traces=False)
        return Search(spellings(self.secrets), self.project, self.home)
