"""System calls that Python has no function for; each raises `OSError`, as Python's own do.

What imports this starts fast: a keeper and what becomes of a cell load little else.
"""

import errno
import os
import struct
import sys
from contextlib import ExitStack
from functools import cache

from outrider.processes.reaping import libc

NEWNS, NEWIPC, NEWUSER, NEWPID, NEWNET = 0x20000, 0x8000000, 0x10000000, 0x20000000, 0x40000000
BIND, REC, PRIVATE, RDONLY, NOSUID, NODEV, NOEXEC = 0x1000, 0x4000, 0x40000, 1, 2, 4, 8
NO_LINUX = "namespaces: this isn't Linux"
IS_LINUX = sys.platform == "linux"
DEVICES = tuple(f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom", "tty"))
"""What can be written to behind any walls."""
_AT_FDCWD, _AT_RECURSIVE = -100, 0x8000
_MOUNT_SETATTR = 442
_PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS, _CAPABILITY_VERSION = 4, 38, 0x20080522
SETFCAP = 1 << 31
"""The capability with which root may map its own id into a namespace."""
_MAPS = ("uid_map", "gid_map")
MAP, MAPPED = b"map", b"mapped"
"""What a process asks of one that stays outside of its namespace, and hears from it."""


def checked(result: int) -> int:
    """Return what a call of the C library returned; raises `OSError` where that is -1."""
    if result < 0:
        from ctypes import get_errno

        raise OSError(get_errno(), os.strerror(get_errno()))
    return result


def unshare(namespaces: int) -> None:
    """Leave namespaces for new ones."""
    checked(libc().unshare(namespaces))


def mount(
    source: str | None, target: str, kind: str | None = None, flags: int = 0, data: str = ""
) -> None:
    """Mount something."""
    from ctypes import c_ulong

    named = [None if one is None else os.fsencode(one) for one in (source, target, kind)]
    checked(libc().mount(*named, c_ulong(flags), data.encode() or None))


def unmount(target: str) -> None:
    """Take away what was mounted last."""
    checked(libc().umount2(os.fsencode(target), 2))


def set_attributes(path: str, wanted: int = 0, cleared: int = 0, *, below: bool = False) -> None:
    """Change the attributes of a mount, and of all below it."""
    attributes = struct.pack("4Q", wanted, cleared, 0, 0)
    flags = _AT_RECURSIVE if below else 0
    given = (_AT_FDCWD, os.fsencode(path), flags, attributes, len(attributes))
    checked(libc().syscall(_MOUNT_SETATTR, *given))


def mounts() -> list[tuple[str, bool]]:
    """Return where something is mounted, and whether it can be written to."""
    with open("/proc/self/mountinfo", errors="surrogateescape", newline="\n") as file:
        fields = [line.split(" ", 6) for line in file]
    return [(_unescaped(row[4]), not f"{row[5]},".startswith("ro,")) for row in fields]


def _unescaped(path: str) -> str:
    if "\\" not in path:
        return path
    head, *rest = path.split("\\")
    return head + "".join(chr(int(part[:3], 8)) + part[3:] for part in rest)


def enter_user_namespace(more: int) -> None:
    """Enter a namespace of this user's own, with all rights in it, and others below it."""
    uid, gid = os.geteuid(), os.getegid()
    if uid == 0 and not _capabilities() & SETFCAP:  # without it root would be nobody in there
        raise OSError(errno.EPERM, "root lacks the capability CAP_SETFCAP")
    unshare(NEWUSER | more)
    libc().prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)  # else what it maps its ids with is root's
    maps = ("deny", f"{uid} {uid} 1", f"{gid} {gid} 1")
    for name, content in zip(("setgroups", *_MAPS), maps, strict=True):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(content)


def _capabilities() -> int:
    """Return the capabilities that this process has, a bit for each of the first 32."""
    from ctypes import create_string_buffer

    data = create_string_buffer(24)
    checked(libc().capget(struct.pack("Ii", _CAPABILITY_VERSION, 0), data))
    return struct.unpack("6I", data.raw)[0]


@cache
def mapped_ids() -> tuple[tuple[str, bytes], ...]:
    """Return all ids that this namespace has, each mapped to itself: users, then groups."""
    found: list[tuple[str, bytes]] = []
    for name in _MAPS:
        with open(f"/proc/self/{name}") as file:
            rows = [line.split() for line in file]
        lines = (f"{first} {first} {count}" for first, _, count in rows)
        found.append((name, "\n".join(lines).encode()))
    return tuple(found)


def map_ids(pid: int) -> None:
    """Map them like that in the namespace that a process has entered."""
    for name, ids in mapped_ids():
        descriptor = os.open(f"/proc/{pid}/{name}", os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(descriptor, ids)
        finally:
            os.close(descriptor)


def gain_nothing() -> None:
    """Let no program that is started have more rights than this process."""
    checked(libc().prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))


def limit_capabilities(kept: int = 0) -> None:
    """Drop all capabilities but those in `kept`, a bit for each."""
    kept &= _capabilities()
    header, low = struct.pack("Ii", _CAPABILITY_VERSION, 0), struct.pack("3I", kept, kept, 0)
    checked(libc().capset(header, low + bytes(12)))


def opened(path: str, stack: ExitStack) -> int:
    """Return a descriptor that stands for a path, until the stack ends."""
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    stack.callback(os.close, descriptor)
    return descriptor
