"""Landlock: from now on, this process and all below it write only beneath a few folders.

It holds where a mount can't: no process outside can be sent a signal or looked into, and no
abstract socket of another's be connected to.
"""

import os
import stat
import struct
from collections.abc import Iterable

from outrider.processes.kernel import checked, gain_nothing
from outrider.processes.reaping import libc

MIN_SCOPES_VERSION = 6
_CREATE, _ADD_RULE, _RESTRICT = 444, 445, 446
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_FOLDER = 1, 2, 4, 8
_TRUNCATE, _IOCTL = 1 << 14, 1 << 15
_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
"""How many rights there are, by the version of Landlock; later ones have those of the fifth."""
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL
_ABSTRACT_SOCKETS, _SIGNALS = 1, 2


def version() -> int:
    """Return which Landlock the kernel has; raises `OSError` where it has none."""
    return checked(libc().syscall(_CREATE, None, 0, 1))


def restrict_scope() -> None:
    """Reach no process and no abstract socket outside; mounts stay possible."""
    _restrict(_new_ruleset(0))


def restrict_writing(writable: Iterable[str], devices: Iterable[str]) -> None:
    """Write nothing but beneath these folders and to these devices, and reach nobody outside."""
    handled = (1 << _RIGHTS[min(version(), 5)]) - 1
    ruleset = _new_ruleset(handled)
    reading = _EXECUTE | _READ_FILE | _READ_FOLDER
    _allow(ruleset, "/", reading & handled)
    for path in writable:
        _allow(ruleset, path, handled & ~_IOCTL)
    for path in devices:
        using = _READ_FILE | _READ_FOLDER | _WRITE_FILE | _TRUNCATE | _IOCTL
        _allow(ruleset, path, using & handled)
    _restrict(ruleset)


def _new_ruleset(handled: int) -> int:
    of = version()
    scoped = _ABSTRACT_SOCKETS | _SIGNALS if of >= MIN_SCOPES_VERSION else 0
    if not handled and not scoped:
        raise OSError(f"version {of} can't hold back signals, version {MIN_SCOPES_VERSION} can")
    attributes = struct.pack("3Q", handled, 0, scoped)
    size = 24 if of >= MIN_SCOPES_VERSION else 16 if of >= 4 else 8
    return checked(libc().syscall(_CREATE, attributes, size, 0))


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
        rights &= _OF_FILES
    checked(libc().syscall(_ADD_RULE, ruleset, 1, struct.pack("=Qi", rights, descriptor), 0))
    os.close(descriptor)


def _restrict(ruleset: int) -> None:
    gain_nothing()
    checked(libc().syscall(_RESTRICT, ruleset, 0))
    os.close(ruleset)
