"""What a run has found and fetched: whole, by number and by address, to the end of the run."""

from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

MAX_PAGE_IN_MEMORY = 1 << 18
MAX_IN_MEMORY = 1 << 20
"""How many characters of all pages are held in memory; the rest is kept on the disk."""


class _KeptText:
    """A page's text, wherever it is kept."""

    def __get__(self, page: "StoredPage | None", _: object) -> str:
        if page is None:
            return ""
        if isinstance(page.held, Path):
            return page.held.read_bytes().decode(errors="surrogatepass")
        return page.held

    def __set__(self, page: "StoredPage", text: str) -> None:
        page.held = text


@dataclass(eq=False)
class StoredPage:
    """One page or result, with all of its text."""

    url: str
    title: str
    text: _KeptText = _KeptText()  # a descriptor
    about: dict[str, Any] = field(default_factory=dict[str, Any])
    """What else is known: a date, a snippet, the fault that kept it from being fetched."""
    held: str | Path = field(init=False, repr=False)
    """The text, or the file that it was moved to."""

    def spill(self, folder: Path) -> None:
        """Move the text to the disk; where that is full it stays in memory."""
        file = folder / f"page-{uuid4().hex}.txt"
        with suppress(OSError):
            file.touch(0o600, exist_ok=False)
            file.write_bytes(self.text.encode(errors="surrogatepass"))
            self.held = file


@dataclass(slots=True)
class StoredResponse:
    """What one call brought, under the name that the model is told."""

    id: str
    pages: list[StoredPage]


class PageStore:
    """Keeps responses for the length of a run."""

    def __init__(self) -> None:
        self._responses: dict[str, StoredResponse] = {}
        self._in_memory = 0

    def keep(self, pages: list[StoredPage], folder: Path | None = None) -> StoredResponse:
        """Return the pages as a response that can be asked for again.

        `folder` is where long texts go once the memory for them is used up.
        """
        for page in pages:
            size = len(page.held) if isinstance(page.held, str) else 0
            if size and folder is not None and self._in_memory + size > MAX_IN_MEMORY:
                page.spill(folder)
            self._in_memory += size if isinstance(page.held, str) else 0
        response = StoredResponse(uuid4().hex[:8], pages)
        self._responses[response.id] = response
        return response

    def find(self, response_id: str) -> StoredResponse | None:
        """Return a response by its id."""
        return self._responses.get(response_id)

    def ids(self) -> list[str]:
        """Return the ids of all responses, in the order they came."""
        return list(self._responses)
