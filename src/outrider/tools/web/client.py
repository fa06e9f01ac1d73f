"""The client of all web tools: every request is guarded, bounded in time and size, and polite.

A body that grows beyond its limit, compressed or not, is given up; so is a server that is too
slow. One host gets a few requests at once.
"""

import asyncio
import gzip
import io
import re
import ssl
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import field, replace
from importlib import import_module
from typing import Any
from urllib.parse import unquote, urljoin, urlsplit

import httpcore2

from outrider.protocol.data import frozen
from outrider.protocol.envelope import ToolCode, ToolFault
from outrider.settings.keys import WebConfig
from outrider.tools.web.network_guard import GuardedBackend, WebAddress, web_address

MAX_REDIRECTS = 10
MAX_RULES_BYTES = 512 << 10
ROBOT = "Outrider"
AGENT = f"Mozilla/5.0 (compatible; {ROBOT})"
ACCEPT = "text/html, application/xhtml+xml, text/plain;q=0.9, */*;q=0.8"
_VALIDATORS = {"etag": "If-None-Match", "last-modified": "If-Modified-Since"}
_REDIRECTS = {301, 302, 303, 307, 308}
_MEANINGS = {
    **dict.fromkeys((401, 403), ToolCode.NOT_AUTHORISED),
    **dict.fromkeys((404, 410), ToolCode.NOT_FOUND),
    **dict.fromkeys((408, 504), ToolCode.TIMEOUT),
    429: ToolCode.RATE_LIMITED,
}
_UNASKED = {206, 300, 304, 305, 306, *_REDIRECTS}
"""Statuses that answer no request of ours, or lead nowhere without a Location."""
_FAULTS = (httpcore2.NetworkError, httpcore2.ProtocolError, httpcore2.ProxyError, ssl.SSLError)


@frozen
class WebRequest:
    """One request; a search provider's has a body."""

    address: WebAddress
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: bytes | None = None
    max_bytes: int | None = None


@frozen
class Response:
    address: WebAddress  # where it came from, after all redirects
    status: int
    headers: Mapping[str, str]  # by their names in lower case
    body: bytes

    @property
    def content_type(self) -> str:
        """The media type, without its parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def fault_code(self) -> ToolCode:
        """What a status that is no success means."""
        return _MEANINGS.get(self.status, ToolCode.UPSTREAM_FAILED)


class WebClient:
    def __init__(
        self,
        config: WebConfig,
        *,
        guarded: Callable[..., GuardedBackend] = GuardedBackend,
        trusted: ssl.SSLContext | None = None,
        proxies: Mapping[str, str] | None = None,
    ) -> None:
        """`proxies` are addresses by scheme, as the environment names them."""
        self._config = config
        self._kept: dict[str, Response] = {}  # what a server can be asked whether it has changed
        self._rules: dict[str, Any] = {}
        self._asking: dict[str, asyncio.Lock] = {}
        self._all = asyncio.Semaphore(config.max_concurrent)
        self._hosts: dict[str, asyncio.Semaphore] = {}
        self._proxies = dict(proxies or {})
        self._trusted = trusted
        self._making = asyncio.Lock()
        self._guarded = guarded
        self._guard = guarded(config.allow_private_network, config.allowed_hosts)
        self._pools: dict[str, httpcore2.AsyncConnectionPool] = {}

    async def aclose(self) -> None:
        for pool in self._pools.values():
            await pool.aclose()

    async def get(self, url: str, max_bytes: int | None = None) -> Response:
        """Return what an address gives, if `robots.txt` lets us ask; raises `ToolFault`."""
        request = WebRequest(web_address(url), max_bytes=max_bytes)
        return await self.send(request, robots=self._config.respect_robots)

    async def send(self, request: WebRequest, *, robots: bool = False) -> Response:
        """Return the response to a request after its redirects; raises `ToolFault`."""
        seconds = self._config.timeout_ms / 1000
        try:
            async with asyncio.timeout(seconds) as deadline:
                for _ in range(MAX_REDIRECTS + 1):
                    if robots:
                        await self._check_robots(request.address)
                    response = await self._ask_or_recall(request, deadline)
                    location = response.headers.get("location")
                    if response.status in _REDIRECTS and location is not None:
                        request = _redirected(request, response, location)
                    elif response.status in _UNASKED or response.status < 200:
                        raise _failed(request, f"sent an unexpected status, {response.status}")
                    else:
                        return response
        except (TimeoutError, httpcore2.TimeoutException):
            message = f"{request.address.origin} took longer than {seconds:g} s (web.timeoutMs)"
            raise ToolFault(ToolCode.TIMEOUT, message) from None
        raise _failed(request, f"redirects more than {MAX_REDIRECTS} times")

    async def _check_robots(self, address: WebAddress) -> None:
        """Raise `ToolFault` where the site's rules forbid an address, or can't be known."""
        origin = address.origin
        async with self._asking.setdefault(origin, asyncio.Lock()):  # they are asked for once
            if origin not in self._rules:
                from urllib.robotparser import RobotFileParser  # a heavy import, seldom needed

                response = await self.send(WebRequest(replace(address, target="/robots.txt")))
                text = response.body[:MAX_RULES_BYTES].decode(errors="replace")
                if response.status >= 400:  # RFC 9309: what isn't there allows all
                    text = "User-agent: *\nDisallow: /" if response.status >= 500 else ""
                rules = RobotFileParser()
                await asyncio.to_thread(rules.parse, text.splitlines())
                self._rules[origin] = rules
        if not self._rules[origin].can_fetch(ROBOT, address.url):
            raise ToolFault(ToolCode.DENIED, f"{origin}/robots.txt forbids it (web.respectRobots)")

    async def _ask_or_recall(self, request: WebRequest, deadline: asyncio.Timeout) -> Response:
        """Return a response, or the kept one where its server says that it is still good."""
        named = {name.lower() for name in request.headers}  # what is asked with a key isn't kept
        if request.method != "GET" or not named <= {"accept"}:
            return await self._exchange(request, deadline)
        key = f"{request.address.url} {request.headers.get('Accept', ACCEPT)}"
        kept = self._kept.get(key)
        if kept is None or len(kept.body) > (request.max_bytes or self._config.max_bytes):
            response = await self._exchange(request, deadline)
        else:
            headers = {**request.headers, **_validators(kept.headers)}
            response = await self._exchange(replace(request, headers=headers), deadline)
            response = kept if response.status == 304 else response
        if response.status == 200:
            self._keep(key, response)
        return response

    def _keep(self, key: str, response: Response) -> None:
        """Keep a response while there is room, if it may be kept."""
        self._kept.pop(key, None)
        used = sum(len(one.body) for one in self._kept.values())
        if _validators(response.headers) and used + len(response.body) <= self._config.cache_bytes:
            self._kept[key] = response

    async def _exchange(self, request: WebRequest, deadline: asyncio.Timeout) -> Response:
        address = request.address
        places = self._config.max_concurrent_per_host
        host = self._hosts.setdefault(address.host, asyncio.Semaphore(places))
        now = asyncio.get_running_loop().time
        left = (deadline.when() or 0.0) - now()
        deadline.reschedule(None)  # waiting for a place is not the server's time
        async with host, self._all:
            deadline.reschedule(now() + left)
            try:
                return await self._send(request, await self._pool_for(address))
            except httpcore2.LocalProtocolError:  # its text may repeat a header, and so a key
                raise _failed(request, "can't be sent this request") from None
            except _FAULTS as error:
                words = str(error) or type(error).__name__
                if "CERTIFICATE_VERIFY_FAILED" in words:
                    words = f"its certificate can't be trusted: {words.rpartition(': ')[2]}"
                raise _failed(request, f"failed: {words[:300]}") from None

    async def _pool_for(self, address: WebAddress) -> httpcore2.AsyncConnectionPool:
        """Return the pool for an address; behind a proxy the guard checks what it can resolve."""
        named = self._proxies.get(address.scheme) or self._proxies.get("all")
        if named is not None:
            requests: Any = import_module("urllib.request")  # its stub lacks the function
            host = f"{address.host}:{address.port}"
            named = None if requests.proxy_bypass_environment(host, self._proxies) else named
        if named is not None:
            try:
                await self._guard.resolve_checked(address.host, address.port)
            except ToolFault as fault:
                if fault.code != int(ToolCode.NOT_FOUND):  # some names only the proxy can resolve
                    raise
        key = f"{address.scheme} {named}"
        async with self._making:
            if key not in self._pools:
                trusted = self._trusted
                if trusted is None and address.scheme == "https":  # a tenth of a second to load
                    trusted = await asyncio.to_thread(httpcore2.default_ssl_context)
                proxy = _proxy(named) if named is not None else None
                # Through a proxy, only the proxy itself is reached.
                guard = self._guarded(False, (proxy.url.host.decode(),)) if proxy else self._guard
                self._pools[key] = httpcore2.AsyncConnectionPool(
                    trusted,
                    proxy,
                    max_connections=self._config.max_concurrent,
                    keepalive_expiry=10.0,
                    network_backend=guard,
                )
        return self._pools[key]

    async def _send(self, request: WebRequest, pool: httpcore2.AsyncConnectionPool) -> Response:
        address, body = request.address, request.body
        host = address.origin.partition("://")[2]
        headers = {"Host": host, "User-Agent": AGENT, "Accept": ACCEPT, "Accept-Encoding": "gzip"}
        headers |= request.headers
        if body is not None:
            headers["Content-Length"] = str(len(body))
        sent = list(headers.items())
        async with pool.stream(request.method, address.url, headers=sent, content=body) as response:
            given = _readable(response.headers)
            answer = await _body(response, given, request.max_bytes or self._config.max_bytes)
        return Response(address, response.status, given, answer)


def _validators(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers that ask whether a response has changed; none if it may not be kept."""
    forbidden = re.search("no-store|private", headers.get("cache-control", "").lower())
    if forbidden or headers.get("vary") == "*":
        return {}
    return {sent: headers[name] for name, sent in _VALIDATORS.items() if name in headers}


async def _body(response: httpcore2.Response, headers: Mapping[str, str], most: int) -> bytes:
    encoding = headers.get("content-encoding", "").strip().lower().removeprefix("x-")
    if encoding not in ("", "identity", "gzip"):
        message = f"The server sent encoding {encoding[:60]!r}, which wasn't requested"
        raise ToolFault(ToolCode.UPSTREAM_FAILED, message)
    length = headers.get("content-length", "")
    size = int(length[:20]) if length.isdecimal() else 0
    body = bytearray()
    if size <= most:
        async for chunk in response.aiter_stream():
            body += chunk
            if (size := len(body)) > most:
                break
    if body and size <= most and encoding == "gzip":
        try:
            packed = gzip.GzipFile(fileobj=io.BytesIO(body))
            body = await asyncio.to_thread(packed.read, most + 1)
            size = len(body)
        except (zlib.error, OSError, EOFError) as error:
            message = f"The compressed body is damaged or incomplete: {error}"
            raise ToolFault(ToolCode.UPSTREAM_FAILED, message) from None
    if size > most:
        message = f"The body is larger than {most:,} bytes (web.maxBytes; convert.maxBytes)"
        raise ToolFault(ToolCode.TOO_LARGE, message)
    return bytes(body)


def _failed(request: WebRequest, words: str) -> ToolFault:
    return ToolFault(ToolCode.UPSTREAM_FAILED, f"{request.address.origin} {words}")


def _readable(raw: list[tuple[bytes, bytes]]) -> dict[str, str]:
    """Return headers by name; what is given twice is one list, as the standard says."""
    headers: dict[str, str] = {}
    for name_bytes, value_bytes in raw:
        name = name_bytes.decode("latin-1").lower()
        try:
            value = value_bytes.decode()
        except UnicodeDecodeError:
            value = value_bytes.decode("latin-1")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


def _redirected(request: WebRequest, response: Response, location: str) -> WebRequest:
    """Return the next request; nothing that was meant for one origin goes to another."""
    try:
        address = web_address(urljoin(request.address.url, location.strip()))
    except (ToolFault, ValueError) as fault:
        denied = isinstance(fault, ToolFault) and fault.code == int(ToolCode.DENIED)
        message = f"{request.address.origin} redirects to a URL that can't be fetched: {fault}"
        code = ToolCode.DENIED if denied else ToolCode.UPSTREAM_FAILED
        raise ToolFault(code, message) from None
    # Headers and bodies are keys and queries, meant for one service.
    if (request.headers or request.body) and address.origin != request.address.origin:
        raise _failed(request, f"redirects to {address.origin}, where this request may not go")
    if response.status in (301, 302, 303) and request.method != "GET":
        return WebRequest(address, max_bytes=request.max_bytes)
    return replace(request, address=address)


def _proxy(url: str) -> httpcore2.Proxy:
    """Return a proxy that the environment names; raises `ToolFault` where it can't be used."""
    with suppress(ValueError):
        parts = urlsplit(url if "://" in url else f"http://{url}")
        if parts.scheme in ("http", "https") and parts.hostname and parts.port != 0:
            auth = (unquote(parts.username or ""), unquote(parts.password or ""))
            address = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
            return httpcore2.Proxy(address, auth=auth if parts.username else None)
    raise ToolFault(ToolCode.NOT_AVAILABLE, "The proxy's URL isn't http or https (web.useProxy)")
