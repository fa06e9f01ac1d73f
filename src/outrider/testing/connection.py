"""One client's HTTP/1.1 connection: requests in, responses out, as well-formed as the script wants.

Written on `asyncio.Protocol` so that a thousand connections are cheap, and so that a client that
leaves cancels the answer it was getting at that very moment.
"""

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from http import HTTPStatus
from typing import TypeAlias, cast

MAX_HEAD_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A complete HTTP request; header names are in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


Exchange: TypeAlias = Callable[["Connection", HttpRequest], Awaitable[None]]


class Connection(asyncio.Protocol):
    """Answers the requests of one client in order, one `exchange` at a time."""

    def __init__(self, exchange: Exchange, connections: "Connections") -> None:
        self._exchange = exchange
        self._connections = connections
        self._incoming = bytearray()
        self._outgoing = bytearray()
        self._head: tuple[HttpRequest, int] | None = None
        self._task: asyncio.Task[None] | None = None
        self._writable = asyncio.Event()
        self._writable.set()

    # What the event loop reports

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start with a client."""
        self._transport = cast(asyncio.Transport, transport)
        # With a mark of 0 `flush` means that the kernel has every byte, so that a reset or a
        # pause comes after the text and not instead of it.
        self._transport.set_write_buffer_limits(0)
        self._connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop at once what was being answered."""
        if self._task is not None:
            self._task.cancel()
        self._connections.discard(self)

    def data_received(self, data: bytes) -> None:
        """Take what came, and answer as soon as a request is complete."""
        self._incoming += data
        if self._task is None:
            self._begin_next()

    def pause_writing(self) -> None:
        """Hold `flush` until the client has read."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """Let `flush` go on."""
        self._writable.set()

    # What an exchange may do

    def respond(
        self,
        status: int,
        body: bytes,
        *,
        content_type: str = "application/json",
        headers: Iterable[tuple[str, str]] = (),
        promised: int | None = None,
    ) -> None:
        """Write a whole response; `promised` is a length to claim instead of the true one."""
        length = len(body) if promised is None else promised
        self._write_head(status, content_type, [*headers, ("Content-Length", str(length))])
        self._outgoing += body

    def begin_chunks(self, content_type: str) -> None:
        """Write the head of a response whose length is not known yet."""
        self._write_head(200, content_type, [("Transfer-Encoding", "chunked")])

    def chunk(self, data: bytes) -> None:
        """Write one chunk."""
        if data:
            self._outgoing += b"%x\r\n%b\r\n" % (len(data), data)

    def end_chunks(self) -> None:
        """Write the mark that the response is complete."""
        self._outgoing += b"0\r\n\r\n"

    async def flush(self) -> None:
        """Return when the kernel has all that was written."""
        if self._outgoing:
            self._transport.write(bytes(self._outgoing))
            self._outgoing.clear()
        await self._writable.wait()

    def hang_up(self) -> None:
        """Close the connection in the ordinary way."""
        self._transport.close()

    def reset(self) -> None:
        """Break the connection so that the client gets a reset."""
        sock = cast(socket.socket, self._transport.get_extra_info("socket"))
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._transport.abort()

    def abort(self) -> None:
        """Drop the connection and whatever was still to be sent."""
        self._transport.abort()

    # Requests, one after the other

    def _begin_next(self) -> None:
        try:
            request = self._take_request()
        except ValueError as fault:
            self.respond(400, str(fault).encode(), content_type="text/plain")
            self._transport.write(bytes(self._outgoing))
            self._transport.close()
            return
        if request is not None:
            self._task = asyncio.get_running_loop().create_task(self._serve(request))

    async def _serve(self, request: HttpRequest) -> None:
        await self._exchange(self, request)
        await self.flush()
        if request.headers.get("connection", "").lower() == "close":
            self._transport.close()
        self._task = None
        if not self._transport.is_closing():
            self._begin_next()

    def _take_request(self) -> HttpRequest | None:
        if self._head is None:
            end = self._incoming.find(b"\r\n\r\n")
            if end < 0:
                if len(self._incoming) > MAX_HEAD_BYTES:
                    raise ValueError(
                        f"The request's headers are longer than {MAX_HEAD_BYTES} bytes."
                    )
                return None
            self._head = parse_head(bytes(self._incoming[:end]))
            del self._incoming[: end + 4]
        request, length = self._head
        if len(self._incoming) < length:
            return None
        body = bytes(self._incoming[:length])
        del self._incoming[:length]
        self._head = None
        return HttpRequest(request.method, request.path, request.headers, body)

    def _write_head(
        self, status: int, content_type: str, headers: Iterable[tuple[str, str]]
    ) -> None:
        lines = [f"HTTP/1.1 {status} {_reason(status)}", f"Content-Type: {content_type}"]
        lines += [f"{name}: {value}" for name, value in headers]
        self._outgoing += "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"


class Connections:
    """The open connections of a server; once closed, it drops them and every later one."""

    def __init__(self) -> None:
        self._open: set[Connection] = set()
        self._closed = False

    def __len__(self) -> int:
        """How many are open."""
        return len(self._open)

    def add(self, connection: Connection) -> None:
        """Keep a connection that was just made."""
        self._open.add(connection)
        if self._closed:
            connection.abort()

    def discard(self, connection: Connection) -> None:
        """Forget a connection whose socket is gone."""
        self._open.discard(connection)

    def close(self) -> None:
        """Drop them all; they are gone some rounds of the event loop later."""
        self._closed = True
        for connection in list(self._open):
            connection.abort()


def parse_head(head: bytes) -> tuple[HttpRequest, int]:
    """The request without its body, and the body's length; raises ValueError with the fault."""
    first, *rest = head.decode("latin-1").split("\r\n")
    words = first.split(" ")
    if len(words) != 3:
        raise ValueError(f"Not an HTTP request line: {first[:100]!r}.")
    fields = (line.partition(":") for line in rest)
    headers = {name.strip().lower(): value.strip() for name, _, value in fields}
    if "transfer-encoding" in headers:
        raise ValueError("Chunked requests are not understood here; send a Content-Length.")
    length = headers.get("content-length", "0")
    if not (length.isascii() and length.isdigit()):
        raise ValueError(f"Content-Length is {length!r}; it must be a number.")
    path = words[1].partition("?")[0]
    return HttpRequest(words[0], path, headers, b""), int(length)


def _reason(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Scripted"
