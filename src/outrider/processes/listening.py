"""Where processes of this machine can be connected to: the sockets that have a path."""

import os
import struct
from _socket import socket  # what `socket` adds to it takes a guardian milliseconds to load
from collections.abc import Iterator
from contextlib import suppress

_NETLINK, _RAW, _SOCK_DIAG, _UNIX = 16, 3, 4, 1
_BY_FAMILY, _REQUEST_ALL, _DONE, _ERROR = 20, 0x301, 3, 2
_CLOSED, _LISTENING, _SHOW_NAME, _NAME = 7, 10, 1, 0
_MAX_BYTES = 1 << 18


def socket_paths() -> list[str]:
    """Return the paths of all sockets that somebody listens on or receives by."""
    try:
        return [*_asked_of_the_kernel()]
    except OSError:  # it has no such interface, or a container hides it
        return [*_read_from_proc()]


def _asked_of_the_kernel() -> Iterator[str]:
    """Yield them as the kernel tells, without the pairs that are connected: there are thousands."""
    states = 1 << _LISTENING | 1 << _CLOSED
    request = struct.pack("BBHIIIII", _UNIX, 0, 0, states, 0, _SHOW_NAME, 0, 0)
    head = struct.pack("IHHII", 16 + len(request), _BY_FAMILY, _REQUEST_ALL, 1, 0)
    link = socket(_NETLINK, _RAW, _SOCK_DIAG)
    try:
        link.send(head + request)
        while True:
            answer = link.recv(_MAX_BYTES)
            while answer:
                size, kind = struct.unpack_from("IH", answer)
                if kind == _DONE:
                    return
                if kind == _ERROR:
                    number = -struct.unpack_from("i", answer, 16)[0]
                    raise OSError(number, os.strerror(number))
                yield from _path(answer[32:size])
                answer = answer[(size + 3) & ~3 :]
    finally:
        link.close()


def _path(attributes: bytes) -> Iterator[str]:
    while len(attributes) >= 4:
        size, kind = struct.unpack_from("HH", attributes)
        name = attributes[4:size].rstrip(b"\0")
        if kind == _NAME and name.startswith(b"/"):
            yield os.fsdecode(name)
        attributes = attributes[max(size + 3 & ~3, 4) :]


def _read_from_proc() -> Iterator[str]:
    rows: list[str] = []
    with suppress(OSError), open("/proc/net/unix", errors="surrogateescape", newline="\n") as file:
        for line in file:
            # A path can have line breaks in it; a row begins with an address in hexadecimal.
            if line.find(": ") in (8, 16) or not rows:
                rows.append(line)
            else:
                rows[-1] += line
    for row in rows:
        _, slash, path = row[:-1].partition(" /")
        if slash:
            yield f"/{path}"
