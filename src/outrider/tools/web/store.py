"""What a run has found and fetched: whole, by number and by address, to the end of the run."""

from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4


@dataclass(frozen=True, slots=True)
class StoredPage:
    """One page or result, with all of its text."""

    url: str
    title: str
    text: str = ""
    about: dict[str, Any] = field(default_factory=dict[str, Any])
    """What else is known: a date, a snippet, the fault that kept it from being fetched."""


@dataclass(slots=True)
class StoredResponse:
    """What one call brought, under the name that the model is told."""

    id: str
    pages: list[StoredPage]


class PageStore:
    """Keeps responses for the length of a run."""

    def __init__(self) -> None:
        self._responses: dict[str, StoredResponse] = {}

    def keep(self, pages: list[StoredPage]) -> StoredResponse:
        """Return the pages as a response that can be asked for again."""
        response = StoredResponse(uuid4().hex[:8], pages)
        self._responses[response.id] = response
        return response

    def find(self, response_id: str) -> StoredResponse | None:
        """Return a response by its id."""
        return self._responses.get(response_id)

    def ids(self) -> list[str]:
        """Return the ids of all responses, in the order they came."""
        return list(self._responses)
