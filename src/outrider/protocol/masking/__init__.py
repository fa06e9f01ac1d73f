"""No secret passes: text and JSON that went through a `Masker` hold none that it knows of.

Secrets become `[masked:kind]`, paths in the working tree relative, home folders `~`, and long
stack traces lose their middle. All of it takes linear time on any input.
"""

from dataclasses import dataclass
from typing import Any

from .names import is_secret_name, secret_environment_values
from .stream import StreamMasker

__all__ = ["Masker", "StreamMasker", "is_secret_name", "secret_environment_values"]


@dataclass(frozen=True, slots=True)
class Masker:
    """Masks secrets in what leaves a run.

    `project` is the absolute path of the working tree, `home` the user's home folder; `secrets`
    are exact values known to be secret, of eight characters or more.
    """

    project: str | None = None
    home: str | None = None
    secrets: tuple[str, ...] = ()

    def text(self, text: str) -> str:
        """Return `text` fit to leave: no secrets, no home paths, no endless stack traces."""
        from .search import Search
        from .spans import replaced

        spans, _ = Search(self.secrets, self.project, self.home).spans(text)
        return replaced(text, spans) if spans else text

    def secrets_only(self, text: str) -> str:
        """Return `text` without secrets; paths and stack traces stay as they are."""
        from .search import Search
        from .spans import replaced

        spans, _ = Search(self.secrets, paths=False, traces=False).spans(text)
        return replaced(text, spans) if spans else text

    def value(self, value: Any) -> tuple[Any, list[str]]:
        """Return a masked deep copy of a JSON value, and the JSON paths at which it differs."""
        from .tree import masked_copy

        return masked_copy(value, self.text)

    def stream(self) -> StreamMasker:
        """Return a masker for text that comes in pieces."""
        return StreamMasker(self.project, self.home, self.secrets)
