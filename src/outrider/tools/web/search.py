"""The tool `web_search`: several questions at once, each with its own outcome.

Providers are asked in the user's order until one answers; the result says which one did, and why
those before it didn't. Everything found stays readable with `get_search_content`.
"""

import asyncio
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from outrider.protocol.envelope import ToolCode, ToolFault
from outrider.tools.context import ToolContext
from outrider.tools.formatting import Arguments, Formatter
from outrider.tools.registry import tool
from outrider.tools.web.fetch import fetch_page
from outrider.tools.web.marking import untrusted
from outrider.tools.web.session import StoredPage, WebSession, web_of

if TYPE_CHECKING:
    from outrider.tools.web.providers import Found, Provider

MAX_QUERIES = 10
MAX_QUERY_CHARACTERS = 2_000
DEFAULT_RESULTS = 8
MAX_RESULTS = 20
"""The most that all providers give at once."""
MAX_FETCHED = 20
"""How many of the pages found are fetched too, where that is asked for."""
MAX_SHOWN = 2_000
"""How many characters of each of these are shown; `get_search_content` has the rest."""
_TRACKING = ("utm_", "fbclid", "gclid", "mc_cid", "mc_eid")


@dataclass(slots=True)
class _Outcome:
    """What came of one query."""

    query: str
    provider: str | None = None
    found: "dict[str, Found]" = field(default_factory=dict[str, "Found"])
    """By the identity of the page."""
    others: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """Who didn't answer, and why."""
    fault: ToolFault | None = None


def _format_long(data: Any, arguments: Arguments) -> str:
    parts = [_shown(outcome) for outcome in data["searches"]]
    if data["responseId"]:
        more = f'get_search_content {{"responseId": "{data["responseId"]}", "index": N}}'
        parts.append(f"[each result is kept whole: {more}]")
    return "\n\n".join(parts)


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


def _format_short(data: Any, arguments: Arguments) -> str:
    found = sum(len(outcome.get("results", ())) for outcome in data["searches"])
    failed = sum(1 for outcome in data["searches"] if outcome.get("error"))
    return f"found {found} results" + (f", {failed} searches failed" if failed else "")


@tool("web:search", name="web_search", format=Formatter(_format_long, _format_short))
async def web_search(
    context: ToolContext,
    query: Annotated[str | None, {"minLength": 1, "maxLength": MAX_QUERY_CHARACTERS}] = None,
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
    outcomes = await asyncio.gather(*(_searched(session, one, num_results) for one in wanted))
    pages = _pages(outcomes)
    if include_content:
        await _fetch(context, list(pages.values())[:MAX_FETCHED])
    kept = session.store.keep(list(pages.values())) if pages else None
    data = {"responseId": kept, "searches": [_data(one, pages) for one in outcomes]}
    first = outcomes[0].fault
    if first is not None and all(outcome.fault for outcome in outcomes):
        raise ToolFault(first.code, str(first), data if len(outcomes) > 1 else None)
    return data


async def _searched(session: WebSession, query: str, count: int) -> _Outcome:
    outcome = _Outcome(query)
    try:
        if len(query) > MAX_QUERY_CHARACTERS:
            message = f"A query has at most {MAX_QUERY_CHARACTERS:,} characters"
            raise ToolFault(ToolCode.BAD_PARAMETER, message)
        session.outgoing.check(query)
        await _ask(session, outcome, count)
    except ToolFault as fault:
        outcome.query, outcome.fault = session.outgoing.shown(query), fault
    return outcome


async def _ask(session: WebSession, outcome: _Outcome, count: int) -> None:
    """Ask one provider after the other until one answers; raises `ToolFault` if none does."""
    from outrider.tools.web.providers import PROVIDERS

    config, faults = session.config, list[ToolFault]()
    chosen = config.provider_priority if config.provider == "auto" else (config.provider,)
    for provider in (PROVIDERS[name] for name in dict.fromkeys(chosen)):
        try:
            found = merged(await _answer(session, provider, outcome.query, count))
            outcome.found = dict(islice(found.items(), count))
        except ToolFault as fault:
            missing = provider.missing(session.keys, config.endpoints) is not None
            faults += [] if missing and config.provider == "auto" else [fault]
            reason = {"provider": provider.name, "code": int(fault.code), "reason": str(fault)}
            outcome.others.append(reason)
        else:
            outcome.provider = provider.name
            return
    reasons = "; ".join(one["reason"] for one in outcome.others) or "web.providerPriority is empty"
    code = faults[0].code if faults else ToolCode.NOT_AVAILABLE
    raise ToolFault(code, f"No search provider answered: {reasons}")


async def _answer(
    session: WebSession, provider: "Provider", text: str, count: int
) -> "list[Found]":
    keys, endpoints = session.keys, session.config.endpoints
    if missing := provider.missing(keys, endpoints):
        code = ToolCode.NOT_AUTHORISED if provider.base else ToolCode.NOT_AVAILABLE
        raise ToolFault(code, f"{provider.name}: {missing}")
    query = provider.query(text, count, keys, endpoints)
    try:
        response = await session.client.send(provider.ask(query))
    except ToolFault as fault:
        # A provider that isn't found is no search without results.
        lost = fault.code == int(ToolCode.NOT_FOUND)
        raise ToolFault(ToolCode.UPSTREAM_FAILED if lost else fault.code, str(fault)) from None
    body = response.body
    for name, key in keys.items():
        if name.endswith("_KEY"):
            body = body.replace(key.strip().encode(), b"[masked]")
    return await asyncio.to_thread(provider.found, replace(response, body=body))


def merged(found: "list[Found]") -> "dict[str, Found]":
    """Return each page once by its identity, in the first place, with all that is known of it."""
    pages: dict[str, Found] = {}
    for one in found:
        known = pages.get(page_identity(one.url), one)
        pages[page_identity(one.url)] = replace(
            known,
            url=max((known.url, one.url), key=lambda url: url.lower().startswith("https:")),
            title=known.title or one.title,
            snippet=known.snippet or one.snippet,
            date=known.date or one.date,
        )
    return pages


def page_identity(url: str) -> str:
    """Return what all addresses of a page share: scheme, `www` and tracking don't count."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return url
    host = (parts.hostname or "").rstrip(".").removeprefix("www.")
    host += f":{port}" if port not in (None, 80, 443) else ""
    pairs = parse_qsl(parts.query, keep_blank_values=True)
    query = urlencode([pair for pair in pairs if not pair[0].lower().startswith(_TRACKING)])
    return f"{host}{parts.path.rstrip('/')}?{query}"


def _pages(outcomes: list[_Outcome]) -> dict[str, StoredPage]:
    """Return the pages of all outcomes by their identity, each once."""
    pages: dict[str, StoredPage] = {}
    for identity, one in (pair for outcome in outcomes for pair in outcome.found.items()):
        pages.setdefault(identity, StoredPage(one.url, one.title, one.snippet))
    return pages


async def _fetch(context: ToolContext, pages: list[StoredPage]) -> None:
    """Put the text of pages in the place of their snippets."""
    contents = await asyncio.gather(*(fetch_page(context, page.url) for page in pages))
    for page, content in zip(pages, contents, strict=True):
        if "error" in content.about:
            page.about = {"contentError": content.about["error"]}
        else:
            page.url, page.title, page.held = content.url, content.title or page.title, content.held
            page.about = {**content.about, "fetched": True}


def _data(outcome: _Outcome, pages: dict[str, StoredPage]) -> dict[str, Any]:
    data = {"query": outcome.query, "provider": outcome.provider, "others": outcome.others}
    if outcome.fault is not None:
        return data | {"error": str(outcome.fault), "code": int(outcome.fault.code)}
    places = {identity: index for index, identity in enumerate(pages)}
    results = outcome.found.items()
    return data | {"results": [_result(places[key], one, pages[key]) for key, one in results]}


def _result(index: int, one: "Found", page: StoredPage) -> dict[str, Any]:
    shown = {"title": one.title, "snippet": one.snippet, "date": one.date}
    data: dict[str, Any] = {"index": index, "url": page.url, **shown}
    if "fetched" in page.about:
        data |= {"text": page.text[:MAX_SHOWN], "characters": len(page.text)}
    if "contentError" in page.about:
        data["contentError"] = page.about["contentError"]
    return data
