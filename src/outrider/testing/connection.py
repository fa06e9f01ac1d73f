"""One client's HTTP/1.1 connection: requests in, responses out, as malformed as the script wants.

Written on `asyncio.Protocol` so that a thousand connections are cheap, and so that a client that
disconnects cancels its answer at once.
"""

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from typing import TypeAlias, cast

_MAX_HEAD_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A complete HTTP request; header names are in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


Handler: TypeAlias = Callable[["Connection", HttpRequest], Awaitable[None]]


class Connection(asyncio.Protocol):
    """Answers the requests of one client in order, one at a time, by its `handler`.

    While its socket is open it is in `connections`.
    """

    def __init__(self, handler: Handler, connections: "set[Connection]") -> None:
        self._handler = handler
        self._connections = connections
        self._incoming = bytearray()
        self._outgoing = bytearray()
        self._head: tuple[HttpRequest, int] | None = None
        self._task: asyncio.Task[None] | None = None
        self._writable = asyncio.Event()
        self._writable.set()

    # What the event loop reports

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport of a new client."""
        self._transport = cast(asyncio.Transport, transport)
        # With a limit of 0 `flush` means that the kernel has every byte, so that a reset or a
        # pause comes after the text and not instead of it.
        self._transport.set_write_buffer_limits(0)
        self._connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the answer that is being sent."""
        if self._task is not None:
            self._task.cancel()
        self._connections.discard(self)

    def data_received(self, data: bytes) -> None:
        """Buffer the data, and answer as soon as a request is complete."""
        self._incoming += data
        if self._task is None:
            self._begin_next()

    def pause_writing(self) -> None:
        """Make `flush` wait until the client has read."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """Let `flush` go on."""
        self._writable.set()

    # What a handler may do

    def respond(
        self,
        status: int,
        body: bytes,
        content_type: str = "application/json",
        headers: Iterable[tuple[str, str]] = (),
        promised: int | None = None,
    ) -> None:
        """Write a whole response; `promised` is sent as its length instead of the real one."""
        length = len(body) if promised is None else promised
        self._write_head(status, content_type, [*headers, ("Content-Length", str(length))])
        self._outgoing += body

    def begin_chunks(self, content_type: str) -> None:
        """Write the head of a response of unknown length."""
        self._write_head(200, content_type, [("Transfer-Encoding", "chunked")])

    def chunk(self, data: bytes) -> None:
        """Write one chunk."""
        if data:
            self._outgoing += b"%x\r\n%b\r\n" % (len(data), data)

    def end_chunks(self) -> None:
        """Write the chunk that ends the response."""
        self._outgoing += b"0\r\n\r\n"

    async def flush(self) -> None:
        """Return when the kernel has everything that was written."""
        if self._outgoing:
            self._transport.write(bytes(self._outgoing))
            self._outgoing.clear()
        await self._writable.wait()

    def hang_up(self) -> None:
        """Close the connection in the ordinary way."""
        self._transport.close()

    def reset(self) -> None:
        """Abort the connection so that the client gets a reset."""
        sock = cast(socket.socket, self._transport.get_extra_info("socket"))
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._transport.abort()

    def abort(self) -> None:
        """Drop the connection and everything that is still to be sent."""
        self._transport.abort()

    # Requests, one after the other

    def _begin_next(self) -> None:
        try:
            request = self._take_request()
        except ValueError as fault:
            self.respond(400, str(fault).encode(), "text/plain")
            self._transport.write(bytes(self._outgoing))
            self._transport.close()
            return
        if request is not None:
            self._task = asyncio.get_running_loop().create_task(self._serve(request))

    async def _serve(self, request: HttpRequest) -> None:
        await self._handler(self, request)
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
                if len(self._incoming) > _MAX_HEAD_BYTES:
                    raise ValueError(f"The headers are longer than {_MAX_HEAD_BYTES} bytes.")
                return None
            self._head = _parsed_head(bytes(self._incoming[:end]))
            del self._incoming[: end + 4]
        request, length = self._head
        if len(self._incoming) < length:
            return None
        body = bytes(self._incoming[:length])
        del self._incoming[:length]
        self._head = None
        return replace(request, body=body)

    def _write_head(
        self, status: int, content_type: str, headers: Iterable[tuple[str, str]]
    ) -> None:
        lines = [f"HTTP/1.1 {status} Scripted", f"Content-Type: {content_type}"]
        lines += [f"{name}: {value}" for name, value in headers]
        self._outgoing += "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"


def _parsed_head(head: bytes) -> tuple[HttpRequest, int]:
    """Return the request without its body, and the body's length. Raises ValueError."""
    first, *rest = head.decode("latin-1").split("\r\n")
    words = first.split(" ")
    if len(words) != 3:
        raise ValueError(f"Not an HTTP request line: {first[:100]!r}.")
    fields = (line.partition(":") for line in rest)
    headers = {name.strip().lower(): value.strip() for name, _, value in fields}
    if "transfer-encoding" in headers:
        raise ValueError("Chunked requests are not supported; send a Content-Length.")
    length = headers.get("content-length", "0")
    if not (length.isascii() and length.isdigit()):
        raise ValueError(f"Content-Length is {length!r}; it must be a number.")
    path = words[1].partition("?")[0]
    return HttpRequest(words[0], path, headers, b""), int(length)
