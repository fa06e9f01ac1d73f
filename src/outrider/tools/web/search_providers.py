"""The search providers: a table of how each is asked, and where in its answer the results are.

Keys travel in headers only, and what comes back has them taken out before it is read.
"""

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import field
from functools import partial
from html import unescape
from importlib import import_module
from typing import Any, cast
from urllib.parse import parse_qs, urlencode, urlsplit

import orjson

from outrider.protocol.data import frozen
from outrider.protocol.envelope import ToolCode, ToolFault
from outrider.records.activity import host_and_path
from outrider.settings.keys import WebConfig
from outrider.tools.web.client import Response, WebRequest
from outrider.tools.web.network_guard import MAX_URL_CHARACTERS, web_address
from outrider.tools.web.session import StoredPage

MAX_TITLE_CHARACTERS = 300
MAX_SNIPPET_CHARACTERS = 1_000
_TAG = re.compile(r"<[^<>]{0,200}>")
_KEY, _LIMIT = ToolCode.NOT_AUTHORISED, ToolCode.RATE_LIMITED
_JSON = "application/json"
_HEADERS = {
    "json": {"Accept": _JSON, "Content-Type": _JSON},
    "query": {"Accept": _JSON},
    "form": {"Content-Type": "application/x-www-form-urlencoded"},
}
_MEANINGS = {
    _KEY: "refuses the key",
    _LIMIT: "refuses more requests: a rate limit, a used-up quota or a captcha",
    ToolCode.TIMEOUT: "was too slow",
}


@frozen
class SearchProvider:
    name: str
    variable: str | None  # the variable with its key; for SearXNG, with its address
    base: str | None  # its own address; None where only the user knows it
    path: str
    asks: tuple[str, ...]  # what it calls the query, and the number of results
    entries: Callable[[bytes], Any]  # the results in an answer; if it raises, it is none
    fields: tuple[str, ...]  # what a result's address, snippet and dates, best first, are called
    key_header: str = ""
    sends: str = "json"  # how it is asked: with `json`, a `form`, or a `query` in the address
    constants: Mapping[str, object] = field(default_factory=dict[str, object])
    signs: Mapping[int | bytes, ToolCode] = field(default_factory=dict[int | bytes, ToolCode])
    """What a status, or a word in a failure, means here if it isn't what it means elsewhere."""

    def missing(self, keys: Mapping[str, str], web: WebConfig) -> str | None:
        """Return why it can't be asked; None where it can."""
        if self.variable is None or keys.get(self.variable, "").strip():
            return None
        if self.base is None:
            return None if web.endpoints.get(self.name) else f"no {self.variable} or web.endpoints"
        return f"no {self.variable}"

    def state(self, keys: Mapping[str, str], web: WebConfig) -> tuple[bool, str]:
        """Return whether it is asked under these settings, and why."""
        unlisted = web.provider == "auto" and self.name not in web.provider_priority
        obstacles = {
            f"{self.variable} is not set": self.missing(keys, web),
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

    def request(self, text: str, count: int, keys: Mapping[str, str], web: WebConfig) -> WebRequest:
        """Return how to ask it; raises `ToolFault` for what can't be right."""
        key = keys.get(self.variable or "", "").strip()
        base = (web.endpoints.get(self.name) or self.base or key).rstrip("/")
        if "?" in base or "#" in base:
            raise ToolFault(ToolCode.BAD_PARAMETER, f"The URL of {self.name} can't have a query")
        if not (key.isascii() and key.isprintable()):
            raise ToolFault(_KEY, f"{self.variable} has characters that no key has")
        values = {**dict(zip(self.asks, (text, count), strict=False)), **self.constants}
        headers = dict(_HEADERS[self.sends])
        if self.key_header:
            name, _, form = self.key_header.partition(": ")
            headers[name] = form.format(key)
        if self.sends == "query":
            address = web_address(f"{base}{self.path}?{urlencode(values)}")
            return WebRequest(address, headers=headers)
        body = orjson.dumps(values) if self.sends == "json" else urlencode(values).encode()
        return WebRequest(web_address(base + self.path), "POST", headers, body)

    def found(self, response: Response) -> list[StoredPage]:
        """Return the results in an answer; raises `ToolFault` where it is none."""
        if response.status != 200:
            raise self._failure(response)
        found, entries = list[StoredPage](), None
        with suppress(Exception):  # an answer of any other form
            entries = self.entries(response.body)
            found = [page for one in entries if (page := self._page(one))]
        if not found and entries != []:
            code = entries if isinstance(entries, ToolCode) else ToolCode.UPSTREAM_FAILED
            meaning = _MEANINGS.get(code, "sent an answer that can't be read")
            raise ToolFault(code, f"{self.name} {meaning}")
        return found

    def _failure(self, response: Response) -> ToolFault:
        signs = {402: _LIMIT, **self.signs}
        code = signs.get(response.status, response.fault_code)
        if code is ToolCode.UPSTREAM_FAILED:  # its words count where its status says nothing
            words = (sign for sign in signs if isinstance(sign, bytes) and sign in response.body)
            code = signs.get(next(words, b""), code)
        meaning = _MEANINGS.get(code, "failed")
        return ToolFault(code, f"{self.name} {meaning} (status {response.status})")

    def _page(self, entry: dict[str, Any]) -> StoredPage | None:
        """Return a result as plain text of bounded length; None if it has no address to fetch."""
        url, snippet, *dates = (entry.get(name) for name in self.fields)
        if not isinstance(url, str) or not re.fullmatch(r"https?://[^\s<>\"]+", url, re.I):
            return None
        if isinstance(snippet, list):
            snippet = " … ".join(map(str, cast("list[Any]", snippet)))
        date = next((one for one in dates if isinstance(one, str)), None)
        title = _plain(entry.get("title"), MAX_TITLE_CHARACTERS)
        words = _plain(snippet, MAX_SNIPPET_CHARACTERS)
        about = {"snippet": words, "date": date and _plain(date, 40)}
        return StoredPage(url, title, words, about) if len(url) <= MAX_URL_CHARACTERS else None


def _plain(value: object, most: int) -> str:
    """Return a title or snippet without tags, entities and line breaks."""
    text = unescape(_TAG.sub("", value)) if isinstance(value, str) else ""
    return " ".join(text.split())[:most]


def _listed(name: str, body: bytes) -> Any:
    return orjson.loads(body)[name]


def _brave(body: bytes) -> Any:
    answer = orjson.loads(body)
    nothing_found = answer["type"] == "search" and "web" not in answer
    return [] if nothing_found else answer["web"]["results"]


def _searxng(body: bytes) -> Any:
    answer = orjson.loads(body)
    # Where its own engines didn't answer, having found nothing says nothing.
    return answer["results"] or (None if answer.get("unresponsive_engines") else [])


def _duckduckgo(body: bytes) -> Any:
    """Return what its page for browsers without scripts shows: there is no documented interface."""
    pages: Any = import_module("lxml.html")
    page = pages.fromstring(body, parser=pages.HTMLParser(encoding="utf-8"))
    if page.xpath("//form[@id='challenge-form'] | //*[contains(@class, 'anomaly-modal')]"):
        return _LIMIT
    found: list[dict[str, Any]] = []
    for block in page.find_class("result"):
        links, snippets = block.find_class("result__a"), block.find_class("result__snippet")
        if links and "result--ad" not in block.classes:
            snippet = "".join(one.text_content() for one in snippets[:1])
            url = _target(links[0].get("href") or "")
            found.append({"url": url, "title": links[0].text_content(), "snippet": snippet})
    nothing_found = page.find_class("no-results") or page.find_class("result--no-result")
    return found if found or nothing_found else None


def _target(href: str) -> str | None:
    """Return where a link of DuckDuckGo's leads; None for an advertisement, or nowhere."""
    with suppress(ValueError):
        parts = urlsplit(href)
        if parts.path == "/l/" and (led := parse_qs(parts.query).get("uddg")):
            href, parts = led[0], urlsplit(led[0])
        return None if parts.path.endswith("/y.js") else href
    return None


_ALL = (
    SearchProvider(
        "tavily", "TAVILY_API_KEY", "https://api.tavily.com", "/search",
        ("query", "max_results"), partial(_listed, "results"), ("url", "content", "published_date"),
        key_header="Authorization: Bearer {}", signs={432: _LIMIT, 433: _LIMIT},
    ),
    SearchProvider(
        "brave", "BRAVE_SEARCH_API_KEY", "https://api.search.brave.com", "/res/v1/web/search",
        ("q", "count"), _brave, ("url", "description", "page_age", "age"),
        key_header="X-Subscription-Token: {}", sends="query",
        constants={"text_decorations": "false"}, signs={b"SUBSCRIPTION_TOKEN_INVALID": _KEY},
    ),
    SearchProvider(
        "serper", "SERPER_API_KEY", "https://google.serper.dev", "/search",
        ("q", "num"), partial(_listed, "organic"), ("link", "snippet", "date"),
        key_header="X-API-KEY: {}", signs={b"credits": _LIMIT},
    ),
    SearchProvider(
        "exa", "EXA_API_KEY", "https://api.exa.ai", "/search",
        ("query", "numResults"), partial(_listed, "results"),
        ("url", "highlights", "publishedDate"), key_header="x-api-key: {}",
        constants={"contents": {"highlights": {"maxCharacters": MAX_SNIPPET_CHARACTERS}}},
    ),
    SearchProvider(
        "searxng", "SEARXNG_URL", None, "/search",
        ("q",), _searxng, ("url", "content", "publishedDate"),
        sends="query", constants={"format": "json"},
    ),
    SearchProvider(
        "duckduckgo", None, "https://html.duckduckgo.com", "/html/",
        ("q",), _duckduckgo, ("url", "snippet"),
        sends="form", constants={"b": "", "kl": "wt-wt"},
        signs={202: _LIMIT, 403: _LIMIT, 418: _LIMIT},
    ),
)  # fmt: skip
PROVIDERS = {provider.name: provider for provider in _ALL}
