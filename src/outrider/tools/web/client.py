"""The client of all web tools: every request is guarded, bounded in time and size, and polite.

A body that grows beyond its limit, compressed or not, is given up; so is a server that is too
slow. One host gets a few requests at once, and is asked again when it says so.
"""

import asyncio
import random
import ssl
import time
import zlib
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime

import httpcore2

from outrider.protocol.envelope import ToolCode, ToolFault
from outrider.settings.keys import WebConfig
from outrider.tools.web.addresses import WebAddress, web_address
from outrider.tools.web.guard import GuardedBackend, Resolve, resolved

MAX_REDIRECTS = 10
MAX_ATTEMPTS = 3
MAX_RETRY_SECONDS = 10.0
"""How long a server may ask us to wait; a longer wait is told instead."""
AGENT = "Mozilla/5.0 (compatible; Outrider)"
_REDIRECTS = {301, 302, 303, 307, 308}
_BUSY = {429, 503}
_INFLATING = {"gzip": 31, "x-gzip": 31, "deflate": 47}
"""How zlib is told what it is to expect; 47 takes raw streams with a header of either kind."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request; a search provider's has a body."""

    address: WebAddress
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: bytes | None = None
    max_bytes: int | None = None
    """How large the answer may be, where web.maxBytes doesn't say."""


@dataclass(frozen=True, slots=True)
class Response:
    """What came back, whole."""

    address: WebAddress
    """Where it came from, after all redirects."""
    status: int
    headers: Mapping[str, str]
    """By their names in lower case."""
    body: bytes

    @property
    def content_type(self) -> str:
        """The media type, without its parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


class WebClient:
    """Sends requests for the length of a run."""

    def __init__(
        self,
        config: WebConfig,
        *,
        resolve: Resolve = resolved,
        trusted: ssl.SSLContext | None = None,
    ) -> None:
        self._config = config
        self._all = asyncio.Semaphore(config.max_concurrent)
        self._hosts: dict[str, asyncio.Semaphore] = {}
        backend = GuardedBackend(
            allow_private=config.allow_private_network,
            allowed_hosts=config.allowed_hosts,
            resolve=resolve,
        )
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=trusted, network_backend=backend, keepalive_expiry=10.0
        )

    async def aclose(self) -> None:
        """Close all connections."""
        await self._pool.aclose()

    async def get(self, url: str) -> Response:
        """Return what an address gives; raises `ToolFault`."""
        return await self.send(Request(web_address(url)))

    async def send(self, request: Request) -> Response:
        """Return the response to a request after its redirects; raises `ToolFault`."""
        seconds = self._config.timeout_ms / 1000
        try:
            async with asyncio.timeout(seconds):
                return await self._followed(request)
        except TimeoutError:
            message = f"{request.address.origin} took longer than {seconds:g} s (web.timeoutMs)"
            raise ToolFault(ToolCode.TIMEOUT, message) from None

    async def _followed(self, request: Request) -> Response:
        for _ in range(MAX_REDIRECTS + 1):
            response = await self._answered(request)
            location = response.headers.get("location")
            if response.status not in _REDIRECTS or location is None:
                return response
            request = _redirected(request, response, location)
        raise ToolFault(
            ToolCode.UPSTREAM_FAILED,
            f"More than {MAX_REDIRECTS} redirects from {request.address.origin}",
        )

    async def _answered(self, request: Request) -> Response:
        """Return a response; one that asks for patience is asked for again."""
        for attempt in range(MAX_ATTEMPTS):
            response = await self._exchanged(request)
            wait = _seconds_to_wait(response, attempt)
            if response.status not in _BUSY or wait is None or attempt == MAX_ATTEMPTS - 1:
                break
            await asyncio.sleep(wait)
        return response  # pyright: ignore[reportPossiblyUnboundVariable]  # there is an attempt

    async def _exchanged(self, request: Request) -> Response:
        host = self._hosts.setdefault(
            request.address.origin, asyncio.Semaphore(self._config.max_concurrent_per_host)
        )
        try:
            async with self._all, host, self._opened(request) as (response, headers):
                body = await self._body(request, response, headers)
        except httpcore2.TimeoutException:
            raise TimeoutError from None
        except (httpcore2.NetworkError, httpcore2.ProtocolError, ssl.SSLError) as error:
            words = f"{request.address.origin} failed: {error or type(error).__name__}"
            raise ToolFault(ToolCode.UPSTREAM_FAILED, words) from None
        return Response(request.address, response.status, headers, body)

    @asynccontextmanager
    async def _opened(
        self, request: Request
    ) -> AsyncGenerator[tuple[httpcore2.Response, dict[str, str]]]:
        headers = {
            "Host": request.address.origin.partition("://")[2],
            "User-Agent": AGENT,
            "Accept-Encoding": "gzip, deflate",
            **request.headers,
        }
        if request.body is not None:
            headers["Content-Length"] = str(len(request.body))
        async with self._pool.stream(
            request.method, request.address.url, headers=list(headers.items()), content=request.body
        ) as response:
            yield response, _readable(response.headers)

    async def _body(
        self, request: Request, response: httpcore2.Response, headers: Mapping[str, str]
    ) -> bytes:
        most = request.max_bytes or self._config.max_bytes
        if headers.get("content-length", "").isdigit() and int(headers["content-length"]) > most:
            raise _too_large(most)
        inflate = _Inflating(headers.get("content-encoding", ""), most)
        async for chunk in response.aiter_stream():
            inflate.feed(chunk)
        return inflate.finished()


class _Inflating:
    """A body that comes in pieces, perhaps compressed, and may not grow beyond its limit."""

    def __init__(self, encoding: str, most: int) -> None:
        self._most = most
        self._body = bytearray()
        encoding = encoding.strip().lower()
        self._inflate = None
        if encoding in _INFLATING:
            self._inflate = zlib.decompressobj(_INFLATING[encoding])
        elif encoding not in ("", "identity"):
            message = f"The server sends {encoding!r}, which wasn't asked for"
            raise ToolFault(ToolCode.UPSTREAM_FAILED, message)

    def feed(self, chunk: bytes) -> None:
        if self._inflate is not None:
            try:
                chunk = self._inflate.decompress(chunk, self._most - len(self._body) + 1)
            except zlib.error as error:
                message = f"The compressed body is damaged: {error}"
                raise ToolFault(ToolCode.UPSTREAM_FAILED, message) from None
        self._body += chunk
        if len(self._body) > self._most:
            raise _too_large(self._most)

    def finished(self) -> bytes:
        if self._inflate is not None and self._body and not self._inflate.eof:
            raise ToolFault(ToolCode.UPSTREAM_FAILED, "The compressed body ended too early")
        return bytes(self._body)


def _too_large(most: int) -> ToolFault:
    return ToolFault(
        ToolCode.TOO_LARGE,
        f"The body is larger than {most:,} bytes (web.maxBytes; for documents convert.maxBytes)",
    )


def _readable(headers: list[tuple[bytes, bytes]]) -> dict[str, str]:
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in headers}


def _redirected(request: Request, response: Response, location: str) -> Request:
    """Return the next request; nothing that was meant for one origin goes to another."""
    address = request.address.joined(location)
    kept: Mapping[str, str] = {}
    if address.origin == request.address.origin:
        kept = request.headers
    if response.status in (301, 302, 303) and request.method != "GET":
        return Request(address, headers=kept)
    if request.body is not None and address.origin != request.address.origin:
        message = f"{request.address.origin} sends a request with a body on to {address.origin}"
        raise ToolFault(ToolCode.UPSTREAM_FAILED, message)
    return replace(request, address=address, headers=kept)


def _seconds_to_wait(response: Response, attempt: int) -> float | None:
    """Return how long to wait before asking again; None where that is too long."""
    asked = response.headers.get("retry-after", "").strip()
    if not asked:
        return min(MAX_RETRY_SECONDS, 0.5 * 2**attempt * random.uniform(0.5, 1.5))  # noqa: S311
    if asked.isdigit():
        seconds = float(asked)
    else:
        try:
            seconds = parsedate_to_datetime(asked).timestamp() - time.time()
        except ValueError:
            return None
    return max(0.0, seconds) if seconds <= MAX_RETRY_SECONDS else None
