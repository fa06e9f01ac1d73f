"""What the kernel offers for confinement, tried out in a process that ends right after.

As a script it imports nothing of Outrider: it tries each means on itself and prints what came of
it, as JSON.
"""

import ctypes
import json
import os
import struct
import subprocess
import sys
from collections.abc import Callable

TIMEOUT_SECONDS = 10
_LANDLOCK_CREATE, _LANDLOCK_RESTRICT = 444, 446
_LANDLOCK_READ_FILE = 1 << 2
_NEW_MOUNTS, _NEW_USER, _NEW_NETWORK = 0x00020000, 0x10000000, 0x40000000
_PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS = 22, 38
_ALLOW_ALL = struct.pack("HBBI", 0x06, 0, 0, 0x7FFF0000)
"""A seccomp filter of one instruction, which lets every system call pass."""
_LIBC = ctypes.CDLL(None, use_errno=True)


def offers() -> dict[str, tuple[bool, str]]:
    """Return for each means of confinement whether it works here, and what was found."""
    command = [sys.executable, "-I", __file__]
    done = subprocess.run(command, capture_output=True, timeout=TIMEOUT_SECONDS, check=True)
    return json.loads(done.stdout)


def _cgroup() -> str:
    """Make a group below this process's own, and remove it."""
    with open("/proc/self/cgroup") as file:
        own = [line[3:].strip() for line in file if line.startswith("0::")]
    folder = f"/sys/fs/cgroup{''.join(own)}"
    if not own or not os.path.exists(f"{folder}/cgroup.controllers"):
        raise OSError("version 2 isn't mounted")
    with open(f"{folder}/cgroup.controllers") as file:
        controllers = ", ".join(file.read().split()) or "no controllers"
    os.mkdir(f"{folder}/outrider-doctor-{os.getpid()}")
    os.rmdir(f"{folder}/outrider-doctor-{os.getpid()}")
    return f"version 2, and groups can be made ({controllers})"


def _seccomp() -> str:
    _call("prctl", _PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    code = ctypes.create_string_buffer(_ALLOW_ALL)
    program = ctypes.create_string_buffer(struct.pack("HP", 1, ctypes.addressof(code)))
    _call("prctl", _PR_SET_SECCOMP, 2, program, 0, 0)
    return "a filter was accepted"


def _landlock() -> str:
    version = _call("syscall", _LANDLOCK_CREATE, None, 0, 1)
    handled = ctypes.c_uint64(_LANDLOCK_READ_FILE)
    rules = _call("syscall", _LANDLOCK_CREATE, ctypes.byref(handled), 8, 0)
    _call("syscall", _LANDLOCK_RESTRICT, rules, 0)
    try:
        open(__file__).close()
    except PermissionError:
        return f"ABI {version}, and a file could no longer be read"
    raise OSError(f"ABI {version}, but it keeps nothing from being read")


def _user_namespaces() -> str:
    _call("unshare", _NEW_USER)
    # Some distributions allow the namespace, and then nothing that needs rights in it.
    _call("unshare", _NEW_MOUNTS | _NEW_NETWORK)
    return "with mounts and a network of their own"


def _call(name: str, *arguments: object) -> int:
    result = getattr(_LIBC, name)(*arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def _tried(means: Callable[[], str]) -> tuple[bool, str]:
    try:
        return True, means()
    except OSError as error:
        return False, error.strerror or str(error)


if __name__ == "__main__":
    # Landlock comes after all that read files, and the namespaces change who this process is.
    _MEANS = (_cgroup, _seccomp, _landlock, _user_namespaces)
    print(json.dumps({one.__name__.strip("_").replace("_", " "): _tried(one) for one in _MEANS}))
