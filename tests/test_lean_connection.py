"""The lean wire's connection: encrypted, kept between requests, and read no faster than needed."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import h11
import pytest
import trustme

from outrider.models.lean.connection import MAX_UNREAD_BYTES, Connection, words_of
from outrider.models.wires import trusted_certificates

HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n"


class Server:
    """Answers each request with the same body, and counts connections and what it could send."""

    def __init__(self, body: bytes, context: ssl.SSLContext | None = None) -> None:
        self._body, self._context = body, context
        self.connections = self.sent = self._open = 0
        self.told: list[bytes] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._open += 1
        try:
            while True:
                self.told.append(await reader.readuntil(b"\r\n\r\n"))
                await reader.readexactly(4)
                writer.write(HEAD % len(self._body))
                for at in range(0, len(self._body), 1 << 16):
                    writer.write(self._body[at : at + (1 << 16)])
                    await writer.drain()
                    self.sent = at
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()
        finally:
            self._open -= 1

    @asynccontextmanager
    async def running(self) -> AsyncIterator[int]:
        server = await asyncio.start_server(self.serve, "127.0.0.1", 0, ssl=self._context)
        async with server:
            yield server.sockets[0].getsockname()[1]
            while self._open:  # the test has closed its connection
                await asyncio.sleep(0)


async def asked(connection: Connection) -> bytes:
    assert (await connection.post("/x", {"Host": "here"}, b"task")).status_code == 200
    body = b"".join([piece async for piece in connection.pieces()])
    connection.settle()
    return body


@pytest.fixture
def authority() -> trustme.CA:
    return trustme.CA()


async def test_a_server_with_a_known_certificate_is_asked(authority: trustme.CA, tmp_path: Path):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost", "127.0.0.1").configure_cert(context)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    trusted = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
    server = Server(b"encrypted", context)
    async with server.running() as port:
        connection = Connection(f"https://127.0.0.1:{port}/v1", trusted)
        assert [await asked(connection) for _ in range(2)] == [b"encrypted"] * 2
        connection.close()
    assert server.connections == 1
    assert server.told[0].startswith(b"POST /v1/x HTTP/1.1\r\n")


async def test_an_unknown_certificate_is_refused_in_words_that_say_so(authority: trustme.CA):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    server = Server(b"", context)
    async with server.running() as port:
        connection = Connection(f"https://127.0.0.1:{port}/v1", trusted_certificates(None, None))
        with pytest.raises(ssl.SSLError) as refused:
            await connection.post("/x", {"Host": "here"}, b"task")
    assert "certificate" in words_of(refused.value)
    assert not server.told


async def test_a_connection_that_ended_while_idle_is_opened_anew():
    server = Server(b"plain")
    connection = None
    for _ in range(2):
        async with server.running() as port:
            connection = connection or Connection(f"http://127.0.0.1:{port}/v1", None)
            connection._port = port
            assert await asked(connection) == b"plain"
            connection._link.transport.abort()
            await asyncio.sleep(0)
    assert server.connections == 2


async def test_an_answer_is_taken_no_faster_than_it_is_read():
    size = 64 * MAX_UNREAD_BYTES
    server = Server(b"x" * size)
    async with server.running() as port:
        connection = Connection(f"http://127.0.0.1:{port}/v1", None)
        await connection.post("/x", {"Host": "here"}, b"task")
        before = -1
        while before != server.sent:  # until nothing moves any more
            before = server.sent
            for _ in range(200):
                await asyncio.sleep(0)
        assert server.sent < size // 2
        received = 0
        async for piece in connection.pieces():
            received += len(piece)
        assert received == size
        connection.close()


async def test_a_header_that_cannot_be_sent_sends_nothing():
    server = Server(b"")
    async with server.running() as port:
        connection = Connection(f"http://127.0.0.1:{port}/v1", None)
        with pytest.raises(h11.LocalProtocolError):
            await connection.post("/x", {"Host": "here\r\nX-Odd: 1"}, b"task")
        connection.settle()
        assert await asked(connection) == b""
        connection.close()
