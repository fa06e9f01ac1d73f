"""Secrets that this process was started with, out of reach of the commands that a child runs.

The kernel shows any process of the same user, in `/proc/<pid>/environ`, the environment that
another one was started with. It shows the memory itself, so that can be overwritten.
"""

import os
from functools import cache

from outrider.processes.reaping import HAS_PROC, libc, seal

_ENV_START = 47
"""Where `/proc/self/stat` has the address, counted behind the name."""


@cache  # as reading it all takes time, and there is nothing new to see
def hide_environment(shown: frozenset[str]) -> None:
    """Overwrite all other variables where others can see them; this process still has them."""
    seal()
    if not HAS_PROC:
        return
    import ctypes

    with open("/proc/self/stat", "rb") as stat:
        start, end = map(int, stat.read().rpartition(b")")[2].split()[_ENV_START:][:2])
    at = start
    for entry in ctypes.string_at(start, end - start).split(b"\0"):
        name, _, value = entry.partition(b"=")
        if os.fsdecode(name) not in shown:
            if (current := os.environ.get(os.fsdecode(name))) is not None:
                # A copy, which the C library finds from now on.
                os.putenv(os.fsdecode(name), current)
            secret, size = ctypes.c_void_p(at + len(name) + 1), ctypes.c_size_t(len(value))
            libc().memset(secret, ord("*"), size)
        at += len(entry) + 1
