"""The tool `get_search_content`: all that was found or fetched, in pages, to the last character."""

import re
from array import array
from bisect import bisect_right
from itertools import accumulate, islice
from typing import Annotated, Any

from outrider.protocol.envelope import ToolCode, ToolFault
from outrider.tools.context import ToolContext
from outrider.tools.formatting import Arguments, Formatter
from outrider.tools.registry import tool
from outrider.tools.web.fetch import cut_at
from outrider.tools.web.marking import one_line, untrusted
from outrider.tools.web.session import StoredPage, web_of

DEFAULT_CHARACTERS = 20_000
MAX_CHARACTERS = 40_000
MAX_SHOWN_BYTES = 40_000
MAX_FOUND = 20
MAX_PLACES = 10_000
_AROUND = 200


def _format_long(data: Any, arguments: Arguments) -> str:
    if "matches" not in data:
        end = data["next"] if data["next"] is not None else data["characters"]
        on = "" if data["next"] is None else f"; read on with offset {data['next']}"
        note = f"[characters {data['offset']:,} to {end:,} of {data['characters']:,}{on}]"
        return f"{untrusted(data['url'], data['text'], data['title'])}\n{note}"
    places = "\n---\n".join(f"at offset {one['offset']}: {one['text']}" for one in data["matches"])
    more = f"; for more, give offset {data['next']}" if data["next"] is not None else ""
    note = f"[{data['total']:,} places have {data['matched']}{more}]"
    return f"{untrusted(data['url'], places, data['title'])}\n{note}" if places else note


@tool("web:stored", name="get_search_content", format=Formatter(_format_long))
def get_search_content(
    context: ToolContext,
    response_id: Annotated[str, {"minLength": 1}],
    url: str | None = None,
    index: Annotated[int | None, {"minimum": 0}] = None,
    offset: Annotated[int, {"minimum": 0}] = 0,
    limit: Annotated[int, {"minimum": 1, "maximum": MAX_CHARACTERS}] = DEFAULT_CHARACTERS,
    find: Annotated[str | None, {"minLength": 1, "maxLength": 1000}] = None,
) -> dict[str, Any]:
    """Read on in what web_search or fetch_content brought, or search in it.

    Args:
        response_id: The responseId of that call.
        url: Which page of it, by its address.
        index: Which page of it, by its number.
        offset: The first character to show, or to search from.
        limit: How many characters to show.
        find: Show the places with this text, or with these words, instead.
    """
    responses = web_of(context).store.responses
    if response_id not in responses:
        known = ", ".join([*responses][-20:]) or "none yet"
        message = f"No response {response_id[:40]!r}. There are: {known}."
        raise ToolFault(ToolCode.NOT_FOUND, message)
    page = _page(responses[response_id], url, index)
    if "error" in page.about:
        raise ToolFault(page.about["code"], page.about["error"])
    text = page.text
    data = {"url": page.url, "title": page.title, "characters": len(text)}
    if offset and offset >= len(text):
        message = f"The text has {len(text):,} characters; offset {offset:,} is past its end"
        raise ToolFault(ToolCode.BAD_PARAMETER, message)
    if find is not None:
        return data | found(text, find, offset)
    end = min(offset + limit, cut_at(text, offset, MAX_SHOWN_BYTES))
    rest = end if end < len(text) else None
    return data | {"offset": offset, "text": text[offset:end], "next": rest}


def _page(pages: list[StoredPage], url: str | None, index: int | None) -> StoredPage:
    for at, page in enumerate(pages):
        named = url in (page.url, page.about.get("asked")) if url else len(pages) == 1
        if at == index or (index is None and named):
            return page
    listed = "; ".join(f"{at}: {one_line(page.url, 200)}" for at, page in enumerate(pages))
    raise ToolFault(ToolCode.NOT_FOUND, f"Name one of its pages by index or url. {listed[:5000]}")


def found(text: str, wanted: str, start: int = 0) -> dict[str, Any]:
    """Return the places of a phrase, or else those that have the most of its words together."""
    folded = _Folded(text)
    words = [word.casefold() for word in wanted.split()] or [wanted]
    phrase = r"\s+".join(map(re.escape, words))
    matched = f"{one_line(wanted, 100)!r}"
    places = folded.places(phrase, start)
    if not places and len(words) > 1:
        hits = folded.places("|".join(map(re.escape, sorted(words, key=len, reverse=True))), start)
        places, most = _together(folded, hits)
        matched = f"{most} of the words {one_line(wanted, 100)!r} within {_AROUND * 2} characters"
    shown = [_match(text, place) for place in places[:MAX_FOUND]]
    rest = places[MAX_FOUND][0] if len(places) > MAX_FOUND else None
    return {"total": len(places), "matched": matched, "matches": shown, "next": rest}


def _match(text: str, place: tuple[int, int]) -> dict[str, Any]:
    begin, end = place
    around = text[max(0, begin - _AROUND) : min(end, begin + 4 * _AROUND) + _AROUND]
    return {"offset": begin, "text": around}


def _together(folded: "_Folded", hits: list[tuple[int, int]]) -> tuple[list[tuple[int, int]], int]:
    """Return the places where the most different words stand near each other, and how many."""
    groups: list[tuple[int, tuple[int, int]]] = []
    at = 0
    while at < len(hits):
        near = [hit for hit in hits[at : at + 50] if hit[1] - hits[at][0] <= 2 * _AROUND]
        near = near or [hits[at]]
        different = {folded.word(hit) for hit in near}
        groups.append((len(different), (near[0][0], near[-1][1])))
        at += len(near)
    most = max((count for count, _ in groups), default=0)
    return [place for count, place in groups if count == most], most


class _Folded:
    """A text as it is compared, case-folded, whose places lead back to the text itself."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._folded = text.casefold()
        # Where a letter becomes several ("ß" is "ss"), each letter's end leads back to it.
        shifted = len(self._folded) != len(text)
        self._ends = array("L", accumulate(len(one.casefold()) for one in text) if shifted else ())

    def places(self, pattern: str, start: int) -> list[tuple[int, int]]:
        """Return where a pattern occurs from `start` on, as places in the text itself."""
        matches = re.finditer(pattern, self._folded)
        found = ((self._back(one.start()), self._back(one.end() - 1) + 1) for one in matches)
        return list(islice((place for place in found if place[0] >= start), MAX_PLACES))

    def word(self, place: tuple[int, int]) -> str:
        return self._text[place[0] : place[1]].casefold()

    def _back(self, at: int) -> int:
        return bisect_right(self._ends, at) if self._ends else at
