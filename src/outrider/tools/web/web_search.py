"""The tool `web_search`: several questions at once, each with its own outcome.

Providers are asked in the user's order until one answers; the result says which one did, and why
those before it didn't. Everything found stays readable with `get_search_content`.
"""

import asyncio
import re
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

from outrider.protocol.quoting import untrusted
from outrider.tools import Arguments, Formatter, ToolCode, ToolContext, ToolFault, tool
from outrider.tools.web.fetch_content import fetch_page
from outrider.tools.web.session import StoredPage, WebSession, web_of

if TYPE_CHECKING:
    from outrider.tools.web.search_providers import SearchProvider

MAX_QUERIES = 10
MAX_QUERY_CHARACTERS = 2_000
DEFAULT_RESULTS = 8
MAX_RESULTS = 20  # the most that all providers give at once
MAX_FETCHED = 20
MAX_SHOWN = 2_000  # characters of a page that was fetched; `get_search_content` has the rest
Pages = dict[str, StoredPage]


def _format_long(data: Any, arguments: Arguments) -> str:
    if not data["responseId"]:
        return shown_searches(data)
    more = f'get_search_content {{"responseId": "{data["responseId"]}", "index": N}}'
    return f"{shown_searches(data)}\n\n[each result is kept whole: {more}]"


def shown_searches(data: Any) -> str:
    """Return what was found as text, without what an agent can do with it."""
    return "\n\n".join(_shown(outcome) for outcome in data["searches"])


def _shown(outcome: Any) -> str:
    others = "; ".join(f"{one['provider']}: {one['reason']}" for one in outcome["others"])
    aside = f" [not answered by {others}]" if others else ""
    if outcome.get("error"):
        return f"{outcome['query']!r}: {outcome['error']}"
    head = f"{len(outcome['results'])} results for {outcome['query']!r} from {outcome['provider']}"
    entries = "\n\n".join(_entry(one) for one in outcome["results"])
    marked = [untrusted(f"{outcome['provider']} search", entries)] if entries else []
    return "\n".join([head + aside, *marked])


def _entry(result: Any) -> str:
    date = f" ({result['date']})" if result["date"] else ""
    lines = [f"[{result['index']}] {result['title']}{date}", result["url"], result["snippet"]]
    if "text" in result:
        lines.append(result["text"])
        if rest := result["characters"] - len(result["text"]):
            lines.append(f"[{rest:,} more characters]")
    if "contentError" in result:
        lines.append(f"[could not be fetched: {result['contentError']}]")
    return "\n".join(filter(None, lines))


@tool("web:search", name="web_search", format=Formatter(_format_long))
async def web_search(
    context: ToolContext,
    query: Annotated[str | None, {"minLength": 1}] = None,
    queries: Annotated[list[str] | None, {"minItems": 1, "maxItems": MAX_QUERIES}] = None,
    num_results: Annotated[int, {"minimum": 1, "maximum": MAX_RESULTS}] = DEFAULT_RESULTS,
    include_content: bool = False,
) -> dict[str, Any]:
    """Search the web and return titles, addresses and snippets.

    Args:
        query: What to search for.
        queries: Several searches, made at the same time.
        num_results: How many results for each.
        include_content: Fetch the pages found as well.
    """
    wanted = [*([query] if query else []), *(queries or [])]
    wanted = list(dict.fromkeys(filter(None, (one.strip() for one in wanted))))
    if not wanted:
        raise ToolFault(ToolCode.BAD_PARAMETER, "Give query or queries.")
    session = web_of(context)
    outcomes = await asyncio.gather(*(_search(session, one, num_results) for one in wanted))
    pages = Pages()
    for _, found in outcomes:
        pages |= {identity: found[identity] for identity in found if identity not in pages}
    if include_content:
        await _fetch(context, list(pages.values())[:MAX_FETCHED])
    places = {identity: index for index, identity in enumerate(pages)}
    for told, found in (one for one in outcomes if "error" not in one[0]):
        told["results"] = [_result(places[key], pages[key]) for key in found]
    kept = session.keep(list(pages.values())) if pages else None
    data: dict[str, Any] = {"responseId": kept, "searches": [told for told, _ in outcomes]}
    if all("error" in told for told in data["searches"]):
        first = data["searches"][0]
        raise ToolFault(first["code"], first["error"], data if len(outcomes) > 1 else None)
    return data


async def _search(session: WebSession, query: str, count: int) -> tuple[dict[str, Any], Pages]:
    """Return what came of a query, and the pages found, each by its identity."""
    from outrider.tools.web.search_providers import PROVIDERS

    config = session.config
    auto = config.provider == "auto"
    told: dict[str, Any] = {"query": query, "provider": None, "others": []}
    codes: list[int] = []
    try:
        if len(query) > MAX_QUERY_CHARACTERS:
            longest = f"A query can have at most {MAX_QUERY_CHARACTERS:,} characters"
            raise ToolFault(ToolCode.BAD_PARAMETER, longest)
        session.outgoing.check(query)
        for name in dict.fromkeys(config.provider_priority if auto else (config.provider,)):
            provider = PROVIDERS[name]
            try:
                found = pages_by_identity(await _answer(session, provider, query, count))
                return told | {"provider": name}, dict(islice(found.items(), count))
            except ToolFault as fault:
                code = int(fault.code)
                told["others"].append({"provider": name, "code": code, "reason": str(fault)})
                if not (auto and provider.missing(session.keys, config)):
                    codes.append(code)
        reasons = "; ".join(one["reason"] for one in told["others"])
        words = f"No search provider answered: {reasons or 'web.providerPriority is empty'}"
        raise ToolFault(codes[0] if codes else ToolCode.NOT_AVAILABLE, words)
    except ToolFault as fault:
        shown = session.outgoing.mask.text(query)
        return told | {"query": shown, "error": str(fault), "code": int(fault.code)}, {}


async def _answer(
    session: WebSession, provider: "SearchProvider", text: str, count: int
) -> list[StoredPage]:
    keys, config = session.keys, session.config
    if missing := provider.missing(keys, config):
        code = ToolCode.NOT_AUTHORISED if provider.base else ToolCode.NOT_AVAILABLE
        raise ToolFault(code, f"{provider.name}: {missing}")
    request = provider.request(text, count, keys, config)
    try:
        response = await session.client.send(request)
        body = response.body
        for name, key in keys.items():
            if name.endswith("_KEY"):
                body = body.replace(key.strip().encode(), b"[masked]")
        return await asyncio.to_thread(provider.found, replace(response, body=body))
    except ToolFault as fault:
        # A provider that isn't found is no search without results.
        lost = fault.code == int(ToolCode.NOT_FOUND)
        raise ToolFault(ToolCode.UPSTREAM_FAILED if lost else fault.code, str(fault)) from None


def pages_by_identity(found: list[StoredPage]) -> Pages:
    """Return each page once, by what its addresses share: not the scheme, `www` or a last slash."""
    pages = Pages()
    for one in found:
        pages.setdefault(re.sub(r"(?i)^https?://(www\.)?|/?(#.*)?$", "", one.url), one)
    return pages


async def _fetch(context: ToolContext, pages: list[StoredPage]) -> None:
    """Put the text of pages in the place of their snippets."""
    contents = await asyncio.gather(*(fetch_page(context, page.url) for page in pages))
    for page, content in zip(pages, contents, strict=True):
        if "error" in content.about:
            page.about["contentError"] = content.about["error"]
        else:
            page.url, page.title, page.text = content.url, content.title or page.title, content.text
            page.about |= {**content.about, "fetched": True}


def _result(index: int, page: StoredPage) -> dict[str, Any]:
    data: dict[str, Any] = {"index": index, "url": page.url, "title": page.title}
    names = ("snippet", "date", "contentError")
    data |= {name: page.about[name] for name in names if name in page.about}
    if "fetched" in page.about:
        data |= {"text": page.text[:MAX_SHOWN], "characters": len(page.text)}
    return data
