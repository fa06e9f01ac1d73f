"""What the kernel offers for confinement, asked of the kernel itself."""

import subprocess
import sys

TIMEOUT_SECONDS = 10
# Some distributions allow the namespace of a user, and then nothing that needs rights in it.
_UNSHARE = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
for kind in (0x10000000, 0x40000000):
    if libc.unshare(kind):
        raise SystemExit(os.strerror(ctypes.get_errno()))
"""


def why_no_network_namespace() -> str:
    """Return why an ordinary user can't leave the network here; nothing where that works."""
    # In a process that ends right after: it changes who it is.
    command = [sys.executable, "-I", "-c", _UNSHARE]
    tried = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
    return tried.stderr.strip().rpartition("\n")[2] if tried.returncode else ""
