"""The tool `fetch_content`: pages as text, several at once, each with its own outcome."""

import asyncio
from typing import Annotated, Any

from outrider.protocol.envelope import ToolCode, ToolFault
from outrider.tools.context import ToolContext
from outrider.tools.formatting import Arguments, Formatter
from outrider.tools.registry import tool
from outrider.tools.web.session import web_of
from outrider.tools.web.store import StoredPage

MAX_URLS = 20
MAX_SHOWN = 12_000
"""How many characters of each page are shown at once; `get_search_content` has the rest."""


def untrusted(url: str, text: str) -> str:
    """Return fetched text marked as data, with its origin."""
    return f'<untrusted-content source="{url}">\n{text}\n</untrusted-content>'


def _format_long(data: Any, arguments: Arguments) -> str:
    return "\n\n".join(_shown(page, data["responseId"]) for page in data["pages"])


def _shown(page: Any, response_id: str) -> str:
    if page.get("error"):
        return f"{page['url']}: {page['error']}"
    head = f"# {page['title'] or page['url']}\n{page['url']}"
    rest = page["characters"] - len(page["text"])
    more = f'get_search_content {{"responseId": "{response_id}", "index": {page["index"]}'
    note = f'\n[{rest:,} more characters: {more}, "offset": {len(page["text"])}}}]' if rest else ""
    return f"{head}\n{untrusted(page['url'], page['text'])}{note}"


def _format_short(data: Any, arguments: Arguments) -> str:
    failed = sum(1 for page in data["pages"] if page.get("error"))
    return f"fetched {len(data['pages']) - failed} pages" + (f", {failed} failed" if failed else "")


@tool("web:fetch", name="fetch_content", format=Formatter(_format_long, _format_short))
async def fetch_content(
    context: ToolContext,
    url: Annotated[str | None, {"minLength": 1}] = None,
    urls: Annotated[list[str] | None, {"minItems": 1, "maxItems": MAX_URLS}] = None,
) -> dict[str, Any]:
    """Fetch web pages and return their main text as Markdown; other text as it is.

    Args:
        url: The address, with http or https.
        urls: Several addresses, fetched at the same time.
    """
    wanted = [*([url] if url else []), *(urls or [])]
    if not wanted:
        raise ToolFault(ToolCode.BAD_PARAMETER, "Give url or urls.")
    pages = await asyncio.gather(*(fetch_page(context, one) for one in dict.fromkeys(wanted)))
    kept = web_of(context).store.keep(list(pages))
    shown = [_data(index, page) for index, page in enumerate(kept.pages)]
    if all(page.get("error") for page in shown) and len(shown) == 1:
        raise ToolFault(kept.pages[0].about["code"], shown[0]["error"])
    return {"responseId": kept.id, "pages": shown}


async def fetch_page(context: ToolContext, url: str) -> StoredPage:
    """Return what an address gives, or the fault that kept it away; never raises `ToolFault`."""
    from outrider.tools.web.extract import extracted

    session = web_of(context)
    try:
        session.outgoing.check(url)
        response = await session.client.get(url)
        if response.status >= 400:
            code = ToolCode.NOT_FOUND if response.status in (404, 410) else ToolCode.UPSTREAM_FAILED
            raise ToolFault(code, f"The server answered {response.status}.")
        found = await asyncio.to_thread(extracted, response)
    except ToolFault as fault:
        return StoredPage(url, "", about={"error": str(fault), "code": fault.code})
    return StoredPage(response.address.url, found.title, found.text)


def _data(index: int, page: StoredPage) -> dict[str, Any]:
    data = {"index": index, "url": page.url, "title": page.title}
    if "error" in page.about:
        return data | {"error": page.about["error"], "code": page.about["code"]}
    return data | {"text": page.text[:MAX_SHOWN], "characters": len(page.text)}
