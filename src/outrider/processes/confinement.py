"""What the kernel grants to children here, asked of the kernel itself, and what would help."""

import asyncio
import os
import sys
from contextlib import suppress

from outrider.processes.cell_start import Cells

_SWITCHES = {
    "kernel/apparmor_restrict_unprivileged_userns": ("0", "AppArmor restricts namespaces"),
    "kernel/unprivileged_userns_clone": ("1", "namespaces are switched off for users"),
    "user/max_user_namespaces": ("10000", "no namespaces are allowed for users"),
}
"""By the file under `/proc/sys`: the value that grants namespaces, and what any other means."""
_CONTAINERS = ("/.dockerenv", "/run/.containerenv")


def missing_in_cells() -> tuple[str, ...]:
    """Return what a program lacks that is started in a cell; raises `OSError`."""
    missing: list[str] = []

    async def try_one() -> None:
        started = await Cells((), on_lack=missing.extend).start(sys.executable, "-IS", "-c", "")
        await started.wait()

    asyncio.run(try_one())
    return tuple(missing)


def advice_on_namespaces(root: str = "") -> str:
    """Return why this machine refuses namespaces and what to do; nothing where that isn't known.

    All paths are looked up below `root`.
    """
    for name, (wanted, meaning) in _SWITCHES.items():
        with suppress(OSError), open(f"{root}/proc/sys/{name}") as file:
            value = int(file.read())
            if (value == 0) != (wanted == "0"):
                setting = name.replace("/", ".")
                return f"{meaning}; allow them with: sudo sysctl -w {setting}={wanted}"
    if any(os.path.exists(f"{root}{mark}") for mark in _CONTAINERS):
        return "the container's seccomp profile may refuse them: allow unshare and mount in it"
    return ""
