"""What the kernel offers for confinement, asked of the kernel itself."""

import errno
import os
import subprocess
import sys
from ctypes import get_errno

from outrider.processes.reaping import libc

TIMEOUT_SECONDS = 10
_PR_SET_SECCOMP, _FILTER = 22, 2
_LANDLOCK_CREATE, _LANDLOCK_VERSION = 444, 1
_UNSHARE = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
for kinds in (0x10000000, 0x40020000):  # a user's own, and in it mounts and a network
    if libc.unshare(kinds):
        raise SystemExit(os.strerror(ctypes.get_errno()))
"""


def kernel_offers() -> dict[str, tuple[bool, str]]:
    """Return for each means of confinement whether it works here, and what was found."""
    offers: dict[str, tuple[bool, str]] = {}
    for means in (_cgroup, _seccomp, _landlock, _user_namespaces):
        name = means.__name__.strip("_").replace("_", " ")
        try:
            offers[name] = True, means()
        except OSError as error:
            offers[name] = False, error.strerror or str(error)
    return offers


def _cgroup() -> str:
    """Make a group below this process's own, and remove it."""
    with open("/proc/self/cgroup") as file:
        own = f"/sys/fs/cgroup{file.read().rpartition('0::')[2].strip()}"
    if not os.path.exists(f"{own}/cgroup.controllers"):
        raise OSError("version 2 isn't mounted")
    with open(f"{own}/cgroup.controllers") as file:
        controllers = ", ".join(file.read().split()) or "no controllers"
    os.mkdir(f"{own}/outrider-doctor-{os.getpid()}")
    os.rmdir(f"{own}/outrider-doctor-{os.getpid()}")
    return f"version 2, and groups can be made ({controllers})"


def _seccomp() -> str:
    # With an address that can't be one: a kernel that takes filters complains of that alone.
    libc().prctl(_PR_SET_SECCOMP, _FILTER, 0, 0, 0)
    if get_errno() != errno.EFAULT:
        raise OSError(get_errno(), os.strerror(get_errno()))
    return "filters are accepted"


def _landlock() -> str:
    version = libc().syscall(_LANDLOCK_CREATE, None, 0, _LANDLOCK_VERSION)
    if version < 0:
        raise OSError(get_errno(), os.strerror(get_errno()))
    return f"ABI {version}"


def _user_namespaces() -> str:
    """Make some in a process that ends right after: they change who it is."""
    # Some distributions allow the namespace, and then nothing that needs rights in it.
    command = [sys.executable, "-I", "-c", _UNSHARE]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
    if done.returncode:
        raise OSError(done.stderr.strip())
    return "with mounts and a network of their own"
