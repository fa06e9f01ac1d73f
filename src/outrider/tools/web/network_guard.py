"""The network guard: http and https, to hosts on the public internet, at addresses it has checked.

An IP address passes only if it is globally routable unicast, and so is the IPv4 address that it
embeds. How a host is written doesn't matter: as the HTTP client's network backend, the guard
resolves it, refuses if any of the answers may not be reached, and connects to one that it checked.
A name that resolves differently the next time, or a redirect, has to pass here again.
"""

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any, cast
from urllib.parse import SplitResult, quote, urlsplit

import httpcore2

from outrider.protocol.data import frozen
from outrider.protocol.envelope import ToolCode, ToolFault

MAX_URL_CHARACTERS = 8_192
_PORTS = {"http": 80, "https": 443}
_UNFIT = re.compile("[\x00-\x1f\\\\\x7f\ud800-\udfff]")
_NAT64 = IPv6Network("64:ff9b::/96")
_GLOBAL_UNICAST = IPv6Network("2000::/3")
_ISATAP = (0x00005EFE, 0x02005EFE)
_REASONS = {
    "the unspecified address": "0.0.0.0/32",
    "this machine": "127.0.0.0/8 ::1/128",
    "a link-local address": "169.254.0.0/16 fe80::/10",
    "a multicast address": "224.0.0.0/4 ff00::/8",
    "a metadata service": "168.63.129.16/32 192.0.0.0/24",  # Azure's, at a public address; Oracle's
    "a 6to4 tunnel": "192.88.99.0/24 2002::/16",
    "a Teredo tunnel": "2001::/32",
    "reserved for protocols": "2001::/23",
    "reserved for documentation": "3fff::/20",
    "an IPv4 address in an obsolete form": "::/96",
    "a local NAT64 address": "64:ff9b:1::/48",
    "a site-local address": "fec0::/10",
}
_REFUSED = [(ip_network(one), why) for why, nets in _REASONS.items() for one in nets.split()]
"""The networks that may not be reached; the first one that fits says why."""
NEXT_ADDRESS_SECONDS = 5.0  # how long an address of a host is tried before its next one is

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Returns the IP addresses of a host, as `socket.getaddrinfo` writes them."""


@frozen
class WebAddress:
    """An address that can be asked for; nothing is known yet of where its host is."""

    scheme: str
    host: str
    port: int
    target: str  # path and query, as they are sent

    @property
    def origin(self) -> str:
        """Scheme, host and port, the port only where it isn't the scheme's own."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == _PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{host}{port}"

    @property
    def url(self) -> str:
        return self.origin + self.target


def web_address(text: str) -> WebAddress:
    """Return an address that a model or a page gave; raises `ToolFault` with what is wrong."""
    if len(text) > MAX_URL_CHARACTERS:
        raise _bad(f"The URL has {len(text):,} characters; the limit is {MAX_URL_CHARACTERS:,}")
    text = text.strip()
    if _UNFIT.search(text):
        raise _bad("The URL has a control character, a backslash or half a character in it")
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise _bad(f"The URL can't be parsed: {error}") from None
    if parts.scheme not in _PORTS:
        given = f"not {parts.scheme}" if parts.scheme else "so put https:// in front"
        raise _bad(f"Only http and https URLs can be fetched, {given}")
    if "@" in parts.netloc:
        raise ToolFault(ToolCode.DENIED, "A URL with credentials in it is never fetched")
    if port == 0:
        raise _bad("The URL names port 0, which no server uses")
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    target = quote(target, safe="/?:@!$&'()*+,;=-._~%[]#")
    return WebAddress(parts.scheme, _host(parts), port or _PORTS[parts.scheme], target)


def _host(parts: SplitResult) -> str:
    host = (parts.hostname or "").rstrip(".")
    if not host or any(letter in host for letter in "% "):
        raise _bad(f"The URL has no usable host: {parts.netloc!r}")
    if host.isascii():
        return host
    import idna

    try:
        return idna.encode(host, uts46=True).decode()
    except idna.IDNAError as error:
        raise _bad(f"The host can't be written in ASCII: {error}") from None


def _bad(message: str) -> ToolFault:
    return ToolFault(ToolCode.BAD_PARAMETER, message)


def why_refused(address: str) -> str | None:
    """Return why an IP address may not be reached; None where it may."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return "not an IP address"
    if isinstance(found, IPv6Address):  # what counts is the IPv4 address that is reached by it
        inner = IPv4Address(int(found) & 0xFFFFFFFF) if found in _NAT64 else None
        found = found.ipv4_mapped or inner or found
    for network, reason in _REFUSED:
        if found.version == network.version and found in network:
            return reason
    if found.version == 6 and (int(found) >> 32) & 0xFFFFFFFF in _ISATAP:
        return "an ISATAP tunnel"
    if not found.is_global or (found.version == 6 and found not in _GLOBAL_UNICAST):
        return "a private or reserved address"
    return None


def is_listed(host: str, port: int, listed: Iterable[str]) -> bool:
    """Return whether the user's list names this host, or this host and port."""
    bare = host.lower()
    written = f"[{bare}]" if ":" in bare else bare
    named = {entry.strip().lower().rstrip(".") for entry in listed}
    return not named.isdisjoint((bare, written, f"{written}:{port}"))


async def resolve_host(host: str, port: int) -> Sequence[str]:
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


class GuardedBackend(httpcore2.AsyncNetworkBackend):
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
