"""A connection to a model's server: HTTP/1.1, one request after another, on asyncio alone."""

import asyncio
import os
from collections.abc import AsyncIterator
from ssl import SSLContext, SSLError
from urllib.parse import urlsplit

import h11

from outrider.models.wires import CONNECT_SECONDS, SILENCE_SECONDS

MAX_HEAD_BYTES = 100 << 10
MAX_UNREAD_BYTES = 1 << 20


class Connection:
    """Opens a connection when there is something to send, and anew where the last one ended."""

    def __init__(self, base_url: str, trusted: SSLContext | None) -> None:
        parts = urlsplit(base_url)
        self._host, self._path = parts.hostname or "", parts.path
        self._port = parts.port or (443 if trusted else 80)
        self._trusted = trusted
        self._link: _Link | None = None

    async def post(self, path: str, headers: dict[str, str], content: bytes) -> h11.Response:
        """Send a request, and return its answer's head; raises `OSError` or `h11.ProtocolError`."""
        if self._link is None or not self._link.is_idle:
            self.close()
            loop = asyncio.get_running_loop()
            async with asyncio.timeout(CONNECT_SECONDS):
                link = loop.create_connection(_Link, self._host, self._port, ssl=self._trusted)
                _, self._link = await link
        link, sent = self._link, [*headers.items(), ("Content-Length", str(len(content)))]
        link.send(h11.Request(method="POST", target=f"{self._path}{path}", headers=sent))
        link.send(h11.Data(content))
        link.send(h11.EndOfMessage())
        while type(event := await link.event()) is h11.InformationalResponse:
            pass
        if isinstance(event, h11.Response):
            return event
        raise h11.RemoteProtocolError("the server closed the connection without an answer")

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield the body of the answer as it comes; raises what `post` does."""
        while self._link and isinstance(event := await self._link.event(), h11.Data):
            yield bytes(event.data)

    def settle(self) -> None:
        """Keep the connection if its answer was read to the end, and let go of it if not."""
        if self._link and not self._link.has_settled():
            self.close()

    def close(self) -> None:
        if self._link is not None:
            self._link.transport.abort()
            self._link = None


class _Link(asyncio.Protocol):
    """Takes what comes from the network, for whoever waits for the next event."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD_BYTES)
        self._news = asyncio.Event()
        self._unread = 0
        self._error: Exception | None = None
        self._has_ended = False

    @property
    def is_idle(self) -> bool:
        """Whether another request can be sent: nothing has come that nobody asked for."""
        return self._http.our_state is h11.IDLE and not (self._has_ended or self._unread)

    def send(self, event: "h11.Request | h11.Data | h11.EndOfMessage") -> None:
        self.transport.write(self._http.send(event) or b"")

    async def event(self) -> "h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]":
        while (event := self._http.next_event()) is h11.NEED_DATA:
            if self._error is not None:
                raise self._error
            self._unread = 0
            self.transport.resume_reading()
            self._news.clear()
            async with asyncio.timeout(SILENCE_SECONDS):
                await self._news.wait()
        return event

    def has_settled(self) -> bool:
        """Make ready for the next request; return whether there can be one."""
        self._unread = len(self._http.trailing_data[0])
        if self._http.our_state is self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
        return self.is_idle

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self._http.receive_data(data)
        self._unread += len(data)
        if self._unread > MAX_UNREAD_BYTES:
            self.transport.pause_reading()
        self._news.set()

    def eof_received(self) -> None:
        self._end(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(exc)

    def _end(self, error: Exception | None) -> None:
        if not self._has_ended:
            self._has_ended, self._error = True, error
            if error is None:
                self._http.receive_data(b"")
        self._news.set()


def words_of(error: Exception) -> str:
    """Return what went wrong on the network: in the system's words, where it has some."""
    if isinstance(error, OSError) and error.errno and not isinstance(error, SSLError):
        return os.strerror(error.errno) if error.errno > 0 else error.strerror or str(error)
    return str(error) or type(error).__name__
