"""The tool `get_search_content`: all that was found or fetched, in pages, to the last character."""

import re
from itertools import islice
from typing import Annotated, Any

from outrider.protocol.quoting import harmless_line, untrusted
from outrider.tools import Arguments, Formatter, ToolCode, ToolContext, ToolFault, tool
from outrider.tools.web.fetch_content import cut_at
from outrider.tools.web.session import StoredPage, web_of

DEFAULT_CHARACTERS = 20_000
MAX_CHARACTERS = 40_000
MAX_SHOWN_BYTES = 40_000
MAX_FOUND = 20
MAX_PLACES = 10_000
_BEFORE, _AFTER = 200, 600


def _format_long(data: Any, arguments: Arguments) -> str:
    if "matches" not in data:
        return page_shown(data["url"], data, data["title"])
    places = "\n---\n".join(f"at offset {one['offset']}: {one['text']}" for one in data["matches"])
    more = f"; for more, give offset={data['next']}" if data["next"] is not None else ""
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
        find: Show the places with this text instead.
    """
    responses = web_of(context).responses
    if response_id not in responses:
        known = ", ".join([*responses][-20:]) or "none yet"
        raise ToolFault(ToolCode.NOT_FOUND, f"No response {response_id[:40]!r}. Known: {known}.")
    page = _page(responses[response_id], url, index)
    if "error" in page.about:
        raise ToolFault(page.about["code"], page.about["error"])
    data = {"url": page.url, "title": page.title}
    if find is None:
        return data | paged(page.text, offset, limit)
    return data | {"characters": len(page.text)} | found(page.text, find, offset)


def paged(text: str, offset: int, limit: int) -> dict[str, Any]:
    """Return a page of a text, and where the next one begins; raises `ToolFault`."""
    if offset and offset >= len(text):
        message = f"The text has {len(text):,} characters; offset {offset:,} is past its end"
        raise ToolFault(ToolCode.BAD_PARAMETER, message)
    end = min(offset + limit, cut_at(text, offset, MAX_SHOWN_BYTES))
    on = end if end < len(text) else None
    return {"characters": len(text), "offset": offset, "text": text[offset:end], "next": on}


def page_shown(source: str, data: Any, title: str = "") -> str:
    """Return a page of a text as a model sees it, with where it is in the whole."""
    end = data["characters"] if data["next"] is None else data["next"]
    on = "" if data["next"] is None else f"; read on with offset={data['next']}"
    note = f"[characters {data['offset']:,} to {end:,} of {data['characters']:,}{on}]"
    return f"{untrusted(source, data['text'], title)}\n{note}"


def _page(pages: list[StoredPage], url: str | None, index: int | None) -> StoredPage:
    for at, page in enumerate(pages):
        named = url in (page.url, page.about.get("asked")) if url else len(pages) == 1
        if at == index or (index is None and named):
            return page
    listed = "; ".join(f"{at}: {harmless_line(page.url, 200)}" for at, page in enumerate(pages))
    raise ToolFault(ToolCode.NOT_FOUND, f"Name one of its pages by index or url. {listed[:5000]}")


def found(text: str, wanted: str, start: int = 0) -> dict[str, Any]:
    """Return the places of a text, whatever its case and its white space."""
    words = [re.escape(word) for word in wanted.split()] or [re.escape(wanted)]
    hits = re.compile(r"\s+".join(words), re.I).finditer(text, start)
    places = [hit.start() for hit in islice(hits, MAX_PLACES)]
    shown = [
        {"offset": place, "text": text[max(0, place - _BEFORE) : place + _AFTER]}
        for place in places[:MAX_FOUND]
    ]
    rest = places[MAX_FOUND] if len(places) > MAX_FOUND else None
    matched = f"{harmless_line(wanted, 100)!r}"
    return {"total": len(places), "matched": matched, "matches": shown, "next": rest}
