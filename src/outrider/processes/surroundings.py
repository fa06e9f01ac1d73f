"""What a process inherits from the one that starts it: a fork of another process lacks these.

Namespaces, cgroup, root folder, users, capabilities, security modules, scheduling and resource
limits decide what a task may reach and use. Where a fork would lack its caller's, none is made.
"""

import hashlib
import os
import resource
from contextlib import suppress

from outrider.processes.reaping import libc

MAX_FILE_BYTES = 1 << 16
_FILES = ("status", "attr/current", "cgroup", "loginuid", "oom_score_adj")
# All other lines of `status` are compared, also those that a later kernel adds.
_OF_ONE_PROCESS = (
    b"CoreDumping", b"FDSize", b"Huge", b"Kthread", b"NS", b"Name", b"Ngid", b"PPid", b"Pid",
    b"Rss", b"Shd", b"Sig", b"State", b"Tgid", b"Threads", b"TracerPid", b"Vm",
    b"nonvoluntary", b"untag_mask", b"voluntary", b"x86_Thread",
)  # fmt: skip
# By name: a process that is sealed may read these links, and not the folder that has them.
_NAMESPACES = (
    "cgroup", "ipc", "mnt", "net", "pid", "pid_for_children", "time", "time_for_children", "user",
    "uts",
)  # fmt: skip
_LIMITS = 16
"""How many resource limits Linux has, soft and hard."""
_PR_GET_SECUREBITS = 27
_PR_GET_NO_NEW_PRIVS = 39
_SYSTEM_CALLS = {"x86_64": ((252, 1, 0), (250, 0, -3, 0)), "aarch64": ((31, 1, 0), (219, 0, -3, 0))}
"""`ioprio_get` of this thread, and `keyctl` for the id of its session keyring."""


def surroundings() -> str:
    """Return a digest of what this thread hands down to what it starts; raises `OSError`."""
    # Of the thread, not the process: a thread has its own priority, namespaces and capabilities.
    # Each path through the link itself would take twice as long.
    here = f"/proc/{os.readlink('/proc/thread-self')}"
    status, *files = [_read(f"{here}/{name}") for name in _FILES]
    kept = [line for line in status.splitlines() if not line.startswith(_OF_ONE_PROCESS)]
    namespaces = [_link(f"{here}/ns/{name}") for name in _NAMESPACES]
    root = os.stat(f"{here}/root")
    limits = [resource.getrlimit(one) for one in range(_LIMITS)]
    schedule = (os.getpriority(os.PRIO_PROCESS, 0), os.sched_getscheduler(0), os.sched_getparam(0))
    seen = (kept, files, namespaces, root.st_dev, root.st_ino, schedule, limits, _unlisted())
    return hashlib.sha256(repr(seen).encode()).hexdigest()[:32]


def may_be_confined() -> bool:
    """Whether this thread can be under rules that nobody can see, such as those of Landlock."""
    return libc().prctl(_PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 0


def _link(path: str) -> str:
    """Return where a link leads; nowhere where this kernel doesn't have it."""
    with suppress(FileNotFoundError):
        return os.readlink(path)
    return ""


def _read(path: str) -> bytes:
    """Return a file's text; nothing where this kernel doesn't have it."""
    with suppress(OSError), open(path, "rb", buffering=0) as file:
        return file.read(MAX_FILE_BYTES) or b""
    return b""


def _unlisted() -> list[int]:
    """Return what no file shows: securebits, personality, I/O priority, session keyring."""
    calls = _SYSTEM_CALLS.get(os.uname().machine, ())
    numbers = [libc().syscall(*call) for call in calls]
    return [libc().prctl(_PR_GET_SECUREBITS, 0, 0, 0, 0), libc().personality(-1), *numbers]
