"""What a run has found and fetched: whole, by number and by address, to the end of the run."""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

MAX_IN_MEMORY = 1 << 20
"""How many characters of all pages are held in memory; the rest is kept on the disk."""


class StoredPage:
    """One page or result, with all of its text."""

    __slots__ = ("_file", "_text", "about", "characters", "title", "url")

    def __init__(
        self, url: str, title: str, text: str = "", about: dict[str, Any] | None = None
    ) -> None:
        """`about` has what else is known: a date, a snippet, the fault that kept it away."""
        self.url = url
        self.title = title
        self.about = about or {}
        self.characters = len(text)
        self._text = text
        self._file: Path | None = None

    @property
    def text(self) -> str:
        """The whole text."""
        if self._file is None:
            return self._text
        return self._file.read_bytes().decode(errors="surrogatepass")

    @property
    def in_memory(self) -> int:
        """How many characters of it are in memory."""
        return len(self._text)

    def spill(self, folder: Path) -> None:
        """Move the text to the disk; where that is full it stays."""
        file = folder / f"page-{uuid4().hex}.txt"
        with suppress(OSError):
            file.touch(0o600, exist_ok=False)
            file.write_bytes(self._text.encode(errors="surrogatepass"))
            self._file, self._text = file, ""


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
            if folder is not None and self._in_memory + page.in_memory > MAX_IN_MEMORY:
                page.spill(folder)
            self._in_memory += page.in_memory
        response = StoredResponse(uuid4().hex[:8], pages)
        self._responses[response.id] = response
        return response

    def find(self, response_id: str) -> StoredResponse | None:
        """Return a response by its id."""
        return self._responses.get(response_id)

    def ids(self) -> list[str]:
        """Return the ids of all responses, in the order they came."""
        return list(self._responses)
