"""One client's HTTP/1.1 connection: requests in, responses out, as malformed as the script wants.

A thousand connections are cheap, and a client that disconnects cancels its answer at once.
"""

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias, cast

_MAX_HEAD_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A complete HTTP request; header names are in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


Headers: TypeAlias = Iterable[tuple[str, str]]
Handler: TypeAlias = Callable[["HttpConnection", HttpRequest], Awaitable[None]]


class HttpConnection(asyncio.StreamReaderProtocol):
    """Answers one client's requests in order; it is in `connections` while its socket is open."""

    def __init__(self, handler: Handler, connections: "set[HttpConnection]") -> None:
        super().__init__(asyncio.StreamReader(_MAX_HEAD_BYTES), self._begin)
        self._handler = handler
        self._connections = connections
        self._outgoing = bytearray()

    def _begin(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # With a limit of 0 `flush` means that the kernel has every byte, so that a reset or a
        # pause comes after the text and not instead of it.
        writer.transport.set_write_buffer_limits(0)
        self._writer = writer
        self._connections.add(self)
        self._answering = asyncio.get_running_loop().create_task(self._serve(reader))

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the answer that is being sent."""
        super().connection_lost(exc)
        self._answering.cancel()
        self._connections.discard(self)

    def eof_received(self) -> bool:
        """Close the connection: a client that will send no more has left."""
        super().eof_received()
        return False

    async def _serve(self, reader: asyncio.StreamReader) -> None:
        closing = False
        while not closing:
            try:
                request = await _read_request(reader)
            except asyncio.IncompleteReadError:
                return
            except ValueError as fault:
                self.respond(400, str(fault).encode(), "text/plain")
                closing = True
            else:
                await self._handler(self, request)
                closing = request.headers.get("connection", "").lower() == "close"
            await self.flush()
        self.hang_up()

    # What a handler may do

    def respond(
        self, status: int, body: bytes, media: str = "application/json", headers: Headers = ()
    ) -> None:
        self._write_head(status, media, [*headers, ("Content-Length", str(len(body)))])
        self._outgoing += body

    def begin_chunks(self, content_type: str) -> None:
        self._write_head(200, content_type, [("Transfer-Encoding", "chunked")])

    def chunk(self, data: bytes) -> None:
        if data:
            self._outgoing += b"%x\r\n%b\r\n" % (len(data), data)

    def end_chunks(self) -> None:
        self._outgoing += b"0\r\n\r\n"

    async def flush(self) -> None:
        """Return when the kernel has everything that was written."""
        self._writer.write(bytes(self._outgoing))
        self._outgoing.clear()
        await self._writer.drain()

    def hang_up(self) -> None:
        self._writer.close()

    def reset(self) -> None:
        """Abort the connection so that the client gets a reset."""
        sock = cast(socket.socket, self._writer.get_extra_info("socket"))
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.abort()

    def abort(self) -> None:
        """Drop the connection and everything that is still to be sent."""
        self._writer.transport.abort()

    def _write_head(self, status: int, content_type: str, headers: Headers) -> None:
        lines = [f"HTTP/1.1 {status} Scripted", f"Content-Type: {content_type}"]
        lines += [f"{name}: {value}" for name, value in headers]
        self._outgoing += "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"


async def _read_request(reader: asyncio.StreamReader) -> HttpRequest:
    """Return the next request. Raises ValueError, and IncompleteReadError after the last one."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        raise ValueError(f"The headers are longer than {_MAX_HEAD_BYTES} bytes.") from None
    first, *rest = head[:-4].decode("latin-1").split("\r\n")
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
    body = await reader.readexactly(int(length))
    return HttpRequest(words[0], words[1].partition("?")[0], headers, body)
