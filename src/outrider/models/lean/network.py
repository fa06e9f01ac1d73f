"""Connections for the HTTP client, on asyncio alone: its own way there has a layer more."""

import asyncio
import os
import ssl
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Any

import httpcore2


class AsyncioBackend(httpcore2.AsyncNetworkBackend):
    """Opens connections."""

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> "AsyncioStream":
        """Return a connection to a host; raises `ConnectError` or `ConnectTimeout`."""
        async with _told(httpcore2.ConnectTimeout, httpcore2.ConnectError, timeout):
            return AsyncioStream(*await asyncio.open_connection(host, port))


class AsyncioStream(httpcore2.AsyncNetworkStream):
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Return what has come; nothing at the end."""
        async with _told(httpcore2.ReadTimeout, httpcore2.ReadError, timeout):
            return await self._reader.read(max_bytes)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Send all of it."""
        async with _told(httpcore2.WriteTimeout, httpcore2.WriteError, timeout):
            self._writer.write(buffer)
            await self._writer.drain()

    async def aclose(self) -> None:
        """Let go of the connection."""
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> "AsyncioStream":
        """Return the same connection, encrypted."""
        async with _told(httpcore2.ConnectTimeout, httpcore2.ConnectError, timeout):
            await self._writer.start_tls(ssl_context, server_hostname=server_hostname)
        return self

    def get_extra_info(self, info: str) -> Any:
        """Return what the client asks of a connection."""
        if info == "is_readable":  # a connection that isn't in use has ended, or is misused
            return self._reader.at_eof() or bool(self._writer.is_closing())
        return self._writer.get_extra_info(info)


@asynccontextmanager
async def _told(
    late: type[Exception], lost: type[Exception], seconds: float | None
) -> AsyncGenerator[None]:
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as error:
        raise late(error) from error
    except OSError as error:
        number: int = error.errno or 0
        known = os.strerror(number) if number > 0 else error.strerror
        raise lost(known or error) from error
