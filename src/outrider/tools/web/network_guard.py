"""The guard: a connection goes only to an address that was checked, whatever the name says later.

It is the HTTP client's network backend. It resolves a host itself, refuses if any of the answers
may not be reached, and connects to one of those that it checked. A name that resolves differently
the next time, or a redirect, has to pass here again.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, cast

import httpcore2

from outrider.protocol.envelope import ToolCode, ToolFault
from outrider.tools.web.addresses import is_listed, why_refused

NEXT_ADDRESS_SECONDS = 5.0
"""How long an address of a host is tried before its next one is."""

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Returns the IP addresses of a host, as `socket.getaddrinfo` writes them."""


async def resolve_host(host: str, port: int) -> Sequence[str]:
    """Return the addresses that the system knows for a host."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


class GuardedBackend(httpcore2.AsyncNetworkBackend):
    """Opens the client's connections."""

    def __init__(
        self,
        allow_private: bool,
        allowed_hosts: Iterable[str],
        *,
        resolve: Resolve = resolve_host,
        network: httpcore2.AsyncNetworkBackend | None = None,
    ) -> None:
        """`network` opens the connections to addresses that were checked."""
        self._allow_private = allow_private
        self._allowed_hosts = tuple(allowed_hosts)
        self._resolve = resolve
        self._network = network or cast("httpcore2.AsyncNetworkBackend", httpcore2.AnyIOBackend())

    async def connect_tcp(
        self, host: str, port: int, timeout: float | None = None, *args: Any, **options: Any
    ) -> httpcore2.AsyncNetworkStream:
        """Connect to an address of `host` that may be reached; raises `ToolFault`."""
        connect = self._network.connect_tcp
        *others, last = await self.resolve_checked(host, port)
        for address in others:
            with suppress(httpcore2.ConnectError, httpcore2.ConnectTimeout):
                return await connect(address, port, NEXT_ADDRESS_SECONDS, *args, **options)
        return await connect(last, port, timeout, *args, **options)

    async def resolve_checked(self, host: str, port: int) -> Sequence[str]:
        """Return the addresses of a host, all of which may be reached; raises `ToolFault`."""
        try:
            addresses = await self._resolve(host, port)
        except (OSError, UnicodeError) as error:
            raise ToolFault(ToolCode.NOT_FOUND, f"Can't resolve {host}: {error}") from None
        if not addresses:
            raise ToolFault(ToolCode.NOT_FOUND, f"{host} has no address")
        if not self._allow_private and not is_listed(host, port, self._allowed_hosts):
            for address in addresses:
                if reason := why_refused(address):
                    where = host if host == address else f"{host} ({address})"
                    allow = "Only the user can allow it, in web.allowedHosts."
                    raise ToolFault(ToolCode.DENIED, f"{where} is {reason}. {allow}")
        return addresses
