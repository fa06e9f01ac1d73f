"""What a process inherits from the one that starts it: a fork of another process lacks these.

Namespaces, cgroup, root folder, users, capabilities, security modules, scheduling and resource
limits decide what a task may reach and use. A task runs in its caller's, or it is no fork.
"""

import hashlib
import os
import resource
from contextlib import suppress
from functools import cache
from itertools import count
from typing import NamedTuple

from outrider.processes.reaping import libc

_HERE = "/proc/thread-self"
"""A thread has its own priority, namespaces and capabilities, and what it starts inherits those."""
_FILES = ("status", "attr/current", "cgroup", "loginuid", "oom_score_adj")
_MAX_FILE_BYTES = 1 << 16
# All other lines of `status` are compared, also those that a later kernel adds.
_OF_ONE_PROCESS = (
    b"CoreDumping", b"FDSize", b"Huge", b"Kthread", b"NS", b"Name", b"Ngid", b"PPid", b"Pid",
    b"Rss", b"Shd", b"Sig", b"State", b"Tgid", b"Threads", b"TracerPid", b"Umask", b"Vm",
    b"nonvoluntary", b"untag_mask", b"voluntary", b"x86_Thread",
)  # fmt: skip
_PR_GET_SECUREBITS = 27
_GET_PERSONALITY = 0xFFFFFFFF
_SYSTEM_CALLS = {"x86_64": (252, 250), "aarch64": (31, 219)}
"""The numbers of `ioprio_get` and `keyctl`, which only these can tell."""


class Surroundings(NamedTuple):
    """A digest that is equal where the surroundings are, as far as a process can see them."""

    digest: str
    confined: bool
    """Whether there can be rules that no process can see, such as those of Landlock."""


def surroundings() -> Surroundings:
    """Return what this thread hands down to what it starts; raises `OSError`."""
    status, *files = (_read(name) for name in _FILES)
    kept = [line for line in status.splitlines() if not line.startswith(_OF_ONE_PROCESS)]
    root = os.stat(f"{_HERE}/root")
    namespaces = [os.readlink(f"{_HERE}/ns/{name}") for name in _namespaces()]
    schedule = (os.getpriority(os.PRIO_PROCESS, 0), os.sched_getscheduler(0), os.sched_getparam(0))
    seen = (kept, files, root.st_dev, root.st_ino, namespaces, schedule, _limits(), _unlisted())
    digest = hashlib.sha256(repr(seen).encode()).hexdigest()[:32]
    return Surroundings(digest, confined=b"NoNewPrivs:\t1" in kept)


@cache
def _namespaces() -> list[str]:
    """Return the kinds of namespaces that this kernel has."""
    return sorted(os.listdir(f"{_HERE}/ns"))


def _read(name: str) -> bytes:
    """Return a file's text; nothing where this kernel doesn't have it."""
    with suppress(OSError):
        descriptor = os.open(f"{_HERE}/{name}", os.O_RDONLY)  # `open` takes twice as long
        try:
            return os.read(descriptor, _MAX_FILE_BYTES)
        finally:
            os.close(descriptor)
    return b""


def _limits() -> list[tuple[int, int]]:
    """Return every resource limit that there is, soft and hard."""
    found: list[tuple[int, int]] = []
    with suppress(ValueError):  # a number too far
        for number in count():
            found.append(resource.getrlimit(number))
    return found


def _unlisted() -> list[int]:
    """Return what no file shows: securebits, personality, I/O priority, session keyring."""
    found = [libc().prctl(_PR_GET_SECUREBITS, 0, 0, 0, 0), libc().personality(_GET_PERSONALITY)]
    if numbers := _SYSTEM_CALLS.get(os.uname().machine):
        ioprio_get, keyctl = numbers
        found += [libc().syscall(ioprio_get, 1, 0), libc().syscall(keyctl, 0, -3, 0)]
    return found
