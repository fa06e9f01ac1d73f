"""The tool `get_search_content`: all that was found or fetched, in pages, to the last character."""

from typing import Annotated, Any

from outrider.protocol.envelope import ToolCode, ToolFault
from outrider.tools.context import ToolContext
from outrider.tools.formatting import Arguments, Formatter
from outrider.tools.registry import tool
from outrider.tools.web.fetch import untrusted
from outrider.tools.web.session import web_of
from outrider.tools.web.store import StoredPage, StoredResponse

DEFAULT_CHARACTERS = 20_000
MAX_CHARACTERS = 40_000
MAX_FOUND = 20
_AROUND = 200


def _format_long(data: Any, arguments: Arguments) -> str:
    if "matches" in data:
        places = [f"at {one['offset']:,}: {one['text']}" for one in data["matches"]]
        head = f"{data['total']:,} places have {arguments.get('find')!r}"
        return "\n".join([head, *([untrusted(data["url"], "\n".join(places))] if places else [])])
    end = data["offset"] + len(data["text"])
    note = f"[characters {data['offset']:,} to {end:,} of {data['characters']:,}]"
    return f"{untrusted(data['url'], data['text'])}\n{note}"


@tool("web:stored", name="get_search_content", format=Formatter(_format_long))
def get_search_content(
    context: ToolContext,
    response_id: Annotated[str, {"minLength": 1}],
    url: str | None = None,
    index: Annotated[int | None, {"minimum": 0}] = None,
    offset: Annotated[int, {"minimum": 0}] = 0,
    limit: Annotated[int, {"minimum": 1, "maximum": MAX_CHARACTERS}] = DEFAULT_CHARACTERS,
    find: Annotated[str | None, {"minLength": 1}] = None,
) -> dict[str, Any]:
    """Read on in what web_search or fetch_content brought, or search in it.

    Args:
        response_id: The responseId of that call.
        url: Which page of it, by its address.
        index: Which page of it, by its number.
        offset: The first character to show.
        limit: How many characters to show.
        find: Show the places with this text instead.
    """
    store = web_of(context).store
    response = store.find(response_id)
    if response is None:
        known = ", ".join(store.ids()) or "none yet"
        raise ToolFault(ToolCode.NOT_FOUND, f"No response {response_id!r}. There are: {known}.")
    page = _page(response, url, index)
    data = {"url": page.url, "title": page.title, "characters": len(page.text)}
    if find is not None:
        return data | _found(page.text, find)
    return data | {"offset": offset, "text": page.text[offset : offset + limit]}


def _page(response: StoredResponse, url: str | None, index: int | None) -> StoredPage:
    if index is None and url is None and len(response.pages) == 1:
        index = 0
    if index is not None and index < len(response.pages):
        return response.pages[index]
    for page in response.pages:
        if index is None and page.url == url:
            return page
    listed = "; ".join(f"{number}: {page.url}" for number, page in enumerate(response.pages))
    raise ToolFault(ToolCode.NOT_FOUND, f"Name one of its pages by index or url. {listed}")


def _found(text: str, wanted: str) -> dict[str, Any]:
    folded, wanted = text.casefold(), wanted.casefold()
    places: list[int] = []
    at = folded.find(wanted)
    while at >= 0:
        places.append(at)
        at = folded.find(wanted, at + len(wanted))
    shown = [
        {"offset": place, "text": text[max(0, place - _AROUND) : place + len(wanted) + _AROUND]}
        for place in places[:MAX_FOUND]
    ]
    return {"total": len(places), "matches": shown}
