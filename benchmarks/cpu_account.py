"""The CPU time of a command and of all that it starts, ended or not, by the kernel's account.

The command runs in a control group (cgroup v2) of its own. Unlike `getrusage`, the group's account
has all children: also those that nobody waits for, as the fork server's, and what their exit costs.
"""

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from benchmarks.processes import Broken

QUIET_SECONDS = 0.3
BUSY_SECONDS = 0.002
"""Less than this within the other time, and the group is at rest."""
MAX_WAIT_SECONDS = 10


class CpuAccount:
    """A control group for one command; what runs in it ends with the `with` block."""

    def __init__(self, name: str) -> None:
        self._folder = own_group() / f"bench-{os.getpid()}-{name.replace(' ', '-')}"

    def __enter__(self) -> "CpuAccount":
        """Make the group; raises `Broken` where this user may not."""
        try:
            self._folder.mkdir()
        except OSError as error:
            raise Broken(f"can't make a control group: {error.strerror}; try as root") from None
        return self

    def __exit__(self, *_: object) -> None:
        (self._folder / "cgroup.kill").write_text("1")
        until = time.monotonic() + MAX_WAIT_SECONDS
        while self._folder.exists() and time.monotonic() < until:
            with suppress(OSError):  # a process that was killed is still there for a moment
                self._folder.rmdir()

    def joined(self, command: Sequence[str]) -> list[str]:
        """Return the command that joins the group and then becomes the given one."""
        enter = 'echo $$ > "$0" && exec "$@"'
        return ["/bin/sh", "-c", enter, str(self._folder / "cgroup.procs"), *command]

    def seconds(self) -> float:
        """Return the CPU time so far, once the group is at rest."""
        until = time.monotonic() + MAX_WAIT_SECONDS
        before, now = -1.0, self._usage()
        while now - before > BUSY_SECONDS and time.monotonic() < until:
            time.sleep(QUIET_SECONDS)
            before, now = now, self._usage()
        return now

    def _usage(self) -> float:
        lines = (self._folder / "cpu.stat").read_text().splitlines()
        return int(dict(line.split() for line in lines)["usage_usec"]) / 1e6


def own_group() -> Path:
    """Return the folder of this process's control group; raises `Broken` if it has none."""
    mounts = (line.split() for line in Path("/proc/self/mounts").read_text().splitlines())
    groups = Path("/proc/self/cgroup").read_text().splitlines()
    root = next((mount[1] for mount in mounts if mount[2] == "cgroup2"), None)
    own = next((line[3:] for line in groups if line.startswith("0::")), None)
    if root is None or own is None:
        raise Broken("there are no control groups (cgroup v2) here")
    return Path(root + own)
