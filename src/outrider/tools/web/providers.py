"""The search providers: how each is asked, and where in its answer the results are.

A provider is data and two functions. Keys travel in headers only, and what comes back has them
taken out before it is read.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from html import unescape
from importlib import import_module
from typing import Any, cast
from urllib.parse import parse_qs, urlencode, urlsplit

import orjson

from outrider.protocol.envelope import ToolCode, ToolFault
from outrider.records.activity import host_and_path
from outrider.settings.keys import WebConfig
from outrider.tools.web.addresses import MAX_URL_CHARACTERS, web_address
from outrider.tools.web.client import Request, Response

MAX_RESULTS = 20
"""The most that all providers give at once."""
MAX_TITLE_CHARACTERS = 300
MAX_SNIPPET_CHARACTERS = 1_000
MAX_DUCKDUCKGO_CHARACTERS = 499
_TAG = re.compile(r"<[^<>]{0,200}>")
_LIMIT = ToolCode.RATE_LIMITED
_STATUSES = {
    **dict.fromkeys((401, 403), ToolCode.NOT_AUTHORISED),
    **dict.fromkeys((402, 429), _LIMIT),
    **dict.fromkeys((408, 504), ToolCode.TIMEOUT),
}
_MEANINGS = {
    ToolCode.NOT_AUTHORISED: "refuses the key",
    ToolCode.RATE_LIMITED: "has had too many requests, or its quota is used up",
    ToolCode.TIMEOUT: "was too slow",
}


@dataclass(frozen=True, slots=True)
class Found:
    """One result, as plain text of bounded length."""

    url: str
    title: str
    snippet: str
    date: str | None = None


@dataclass(frozen=True, slots=True)
class Query:
    """What is asked, and of whom."""

    text: str
    count: int
    base: str
    key: str

    def get(self, path: str, parameters: Mapping[str, object], **headers: str) -> Request:
        """Return a GET request to the provider."""
        address = web_address(f"{self.base}{path}?{urlencode(parameters)}")
        return Request(address, headers={"Accept": "application/json", **headers}, one_origin=True)

    def post(self, path: str, body: Mapping[str, object], **headers: str) -> Request:
        """Return a POST request with JSON to the provider."""
        headers = {"Accept": "application/json", "Content-Type": "application/json", **headers}
        address = web_address(self.base + path)
        return Request(address, "POST", headers, orjson.dumps(body), one_origin=True)


@dataclass(frozen=True, slots=True)
class Provider:
    """A search service."""

    name: str
    base: str | None
    """Its own address; None where only the user knows it."""
    variable: str | None
    """The variable with its key; for SearXNG, with its address."""
    request: Callable[[Query], Request]
    results: Callable[[Response], list[Found]]
    statuses: Mapping[int, ToolCode] = field(default_factory=dict[int, ToolCode])
    """What its statuses mean, where that isn't what they mean elsewhere."""
    words: Mapping[bytes, ToolCode] = field(default_factory=dict[bytes, ToolCode])
    """What a word in the body of any other failure means."""

    def missing(self, keys: Mapping[str, str], endpoints: Mapping[str, str]) -> str | None:
        """Return why it can't be asked; None where it can."""
        if self.variable is None or keys.get(self.variable, "").strip():
            return None
        if self.base is None:
            return None if endpoints.get(self.name) else f"no {self.variable} or web.endpoints"
        return f"no {self.variable}"

    def state(self, keys: Mapping[str, str], web: WebConfig) -> tuple[bool, str]:
        """Return whether it is asked under these settings, and why."""
        unlisted = web.provider == "auto" and self.name not in web.provider_priority
        obstacles = {
            f"{self.variable} is not set": self.missing(keys, web.endpoints),
            "web.enabled is off": not web.enabled,
            f"web.provider is {web.provider}": web.provider not in ("auto", self.name),
            "web.providerPriority doesn't name it": unlisted,
        }
        for words, holds in obstacles.items():
            if holds:
                return False, f"not used: {words}"
        if address := web.endpoints.get(self.name):
            return True, f"it is at {host_and_path(address)}"
        return True, f"{self.variable} is set" if self.variable else "needs no key"

    def query(
        self, text: str, count: int, keys: Mapping[str, str], endpoints: Mapping[str, str]
    ) -> Query:
        """Return what to ask it; raises `ToolFault` for a key or an address that can't be right."""
        key = keys.get(self.variable or "", "").strip()
        base = endpoints.get(self.name) or self.base or key
        if "?" in base or "#" in base:
            message = f"The address of {self.name} must be one without a query"
            raise ToolFault(ToolCode.BAD_PARAMETER, message)
        if not (key.isascii() and key.isprintable()):
            message = f"{self.variable} has characters in it that no key has"
            raise ToolFault(ToolCode.NOT_AUTHORISED, message)
        return Query(text, count, base.rstrip("/"), key)

    def found(self, response: Response) -> list[Found]:
        """Return the results in an answer; raises `ToolFault` where it is none."""
        if response.status == 200 or (response.status in self.statuses and not self.variable):
            return self.results(response)
        code = {**_STATUSES, **self.statuses}.get(response.status)
        if code is None:
            said = (code for word, code in self.words.items() if word in response.body)
            code = next(said, ToolCode.UPSTREAM_FAILED)
        meaning = _MEANINGS.get(code, "failed")
        raise ToolFault(code, f"{self.name} {meaning} (status {response.status})")


def _plain(value: object, most: int) -> str:
    """Return a title or snippet without tags, entities and line breaks."""
    text = unescape(_TAG.sub("", value)) if isinstance(value, str) else ""
    return " ".join(text.split())[:most]


def _unexpected(name: str) -> ToolFault:
    return ToolFault(ToolCode.UPSTREAM_FAILED, f"{name} answered in a form that isn't known")


def _json(name: str, response: Response) -> dict[str, Any]:
    try:
        answer: object = orjson.loads(response.body)
    except ValueError:
        raise ToolFault(ToolCode.UPSTREAM_FAILED, f"{name} didn't answer in JSON") from None
    if not isinstance(answer, dict):
        raise _unexpected(name)
    return cast("dict[str, Any]", answer)


def _listed(name: str, entries: object, url: str, snippet: str, *dates: str) -> list[Found]:
    """Return results from a list of objects, by the names of their fields."""
    if not isinstance(entries, list):
        raise _unexpected(name)
    found: list[Found] = []
    for entry in cast("list[Any]", entries):
        if isinstance(entry, dict):
            fields = cast("dict[str, Any]", entry)
            date = next((fields[one] for one in dates if isinstance(fields.get(one), str)), None)
            found += _found(fields.get(url), fields.get("title"), fields.get(snippet), date)
    if entries and not found:
        raise _unexpected(name)
    return found


def _found(url: object, title: object, snippet: object, date: str | None = None) -> list[Found]:
    """Return a result as a list of one; an empty one for what has no address to fetch."""
    if not isinstance(url, str) or not re.match("https?://", url, re.I):
        return []
    if len(url) > MAX_URL_CHARACTERS or re.search(r"[\s<>\"]", url):
        return []
    if isinstance(snippet, list):
        snippet = " … ".join(str(part) for part in cast("list[Any]", snippet))
    shown = _plain(title, MAX_TITLE_CHARACTERS), _plain(snippet, MAX_SNIPPET_CHARACTERS)
    return [Found(url, *shown, date and _plain(date, 40))]


def _ask_tavily(query: Query) -> Request:
    body = {"query": query.text, "max_results": query.count}
    return query.post("/search", body, Authorization=f"Bearer {query.key}")


def _tavily(response: Response) -> list[Found]:
    entries = _json("tavily", response).get("results")
    return _listed("tavily", entries, "url", "content", "published_date")


def _ask_brave(query: Query) -> Request:
    parameters = {"q": query.text, "count": query.count, "text_decorations": "false"}
    return query.get("/res/v1/web/search", parameters, **{"X-Subscription-Token": query.key})


def _brave(response: Response) -> list[Found]:
    answer = _json("brave", response)
    if answer.get("type") != "search":
        raise _unexpected("brave")
    if "web" not in answer:  # nothing was found
        return []
    web = answer["web"]
    entries: object = cast("dict[str, Any]", web).get("results") if isinstance(web, dict) else None
    return _listed("brave", entries, "url", "description", "page_age", "age")


def _ask_serper(query: Query) -> Request:
    body = {"q": query.text, "num": query.count}
    return query.post("/search", body, **{"X-API-KEY": query.key})


def _serper(response: Response) -> list[Found]:
    return _listed("serper", _json("serper", response).get("organic"), "link", "snippet", "date")


def _ask_exa(query: Query) -> Request:
    highlights = {"highlights": {"maxCharacters": MAX_SNIPPET_CHARACTERS}}
    body = {"query": query.text, "numResults": query.count, "contents": highlights}
    return query.post("/search", body, **{"x-api-key": query.key})


def _exa(response: Response) -> list[Found]:
    entries = _json("exa", response).get("results")
    return _listed("exa", entries, "url", "highlights", "publishedDate")


def _ask_searxng(query: Query) -> Request:
    return query.get("/search", {"q": query.text, "format": "json"})


def _searxng(response: Response) -> list[Found]:
    answer = _json("searxng", response)
    found = _listed("searxng", answer.get("results"), "url", "content", "publishedDate")
    if not found and answer.get("unresponsive_engines"):
        message = "searxng found nothing because its engines didn't answer"
        raise ToolFault(ToolCode.UPSTREAM_FAILED, message)
    return found


def _ask_duckduckgo(query: Query) -> Request:
    if len(query.text) > MAX_DUCKDUCKGO_CHARACTERS:
        message = f"duckduckgo takes queries of up to {MAX_DUCKDUCKGO_CHARACTERS} characters"
        raise ToolFault(ToolCode.BAD_PARAMETER, message)
    address = web_address(f"{query.base}/html/")
    form = {"Content-Type": "application/x-www-form-urlencoded", "Referer": f"{address.origin}/"}
    body = urlencode({"q": query.text, "b": "", "kl": "wt-wt"}).encode()
    return Request(address, "POST", form, body, one_origin=True)


def _duckduckgo(response: Response) -> list[Found]:
    """Return what its page for browsers without scripts shows: there is no documented interface."""
    page = _parsed(response.body)
    if page is None:
        raise _unexpected("duckduckgo")
    challenge = "//form[@id='challenge-form'] | //*[contains(@class, 'anomaly-modal')]"
    if response.status != 200 or page.xpath(challenge):
        message = "duckduckgo asks to prove that a person is searching (a captcha)"
        raise ToolFault(ToolCode.RATE_LIMITED, message)
    found: list[Found] = []
    for block in page.xpath(f"//div[{_has('result')}][not({_has('result--ad')})]"):
        snippets = block.xpath(f".//*[{_has('result__snippet')}]")
        for link in block.xpath(f".//a[{_has('result__a')}]")[:1]:
            snippet = "".join(one.text_content() for one in snippets[:1])
            found += _found(_target(link.get("href") or ""), link.text_content(), snippet)
    if not found and not page.xpath(f"//*[{_has('no-results')} or {_has('result--no-result')}]"):
        raise _unexpected("duckduckgo")
    return found


def _has(name: str) -> str:
    return f"contains(concat(' ', normalize-space(@class), ' '), ' {name} ')"


def _parsed(html: bytes) -> Any:
    """Return the root of a page; None for what is none."""
    pages: Any = import_module("lxml.html")
    try:
        return pages.fromstring(html, parser=pages.HTMLParser(encoding="utf-8"))
    except (import_module("lxml.etree").LxmlError, ValueError):
        return None


def _target(href: str) -> str | None:
    """Return where a link of DuckDuckGo's leads; None for an advertisement."""
    parts = urlsplit(href)
    if parts.path == "/l/" and (led := parse_qs(parts.query).get("uddg")):
        href, parts = led[0], urlsplit(led[0])
    return None if parts.path.endswith("/y.js") else href


_ALL = (
    Provider(
        "tavily", "https://api.tavily.com", "TAVILY_API_KEY", _ask_tavily, _tavily,
        {432: _LIMIT, 433: _LIMIT},
    ),
    Provider(
        "brave", "https://api.search.brave.com", "BRAVE_SEARCH_API_KEY", _ask_brave, _brave,
        words={b"SUBSCRIPTION_TOKEN_INVALID": ToolCode.NOT_AUTHORISED},
    ),
    Provider(
        "serper", "https://google.serper.dev", "SERPER_API_KEY", _ask_serper, _serper,
        words={b"credits": _LIMIT},
    ),
    Provider("exa", "https://api.exa.ai", "EXA_API_KEY", _ask_exa, _exa),
    Provider("searxng", None, "SEARXNG_URL", _ask_searxng, _searxng),
    Provider(
        "duckduckgo", "https://html.duckduckgo.com", None, _ask_duckduckgo, _duckduckgo,
        {202: _LIMIT, 403: _LIMIT, 418: _LIMIT},
    ),
)  # fmt: skip
PROVIDERS = {provider.name: provider for provider in _ALL}
