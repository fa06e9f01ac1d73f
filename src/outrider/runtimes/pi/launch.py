"""A pi child: `python -m outrider.runtimes.pi.launch STATUS_FD TIMEOUT_MS DEPTH`; then it is pi."""

import json
import os
import sys

from outrider.processes.guardian import run_guarded
from outrider.processes.reaping import child_name, is_broken


def become_pi() -> None:
    """Read from stdin what to run, and become that."""
    with open(0, "rb", closefd=False) as start:
        told = json.loads(start.readline())
    if is_broken(0):  # the parent has let go
        os._exit(1)
    os.chdir(told["cwd"])
    # It would read its prompt from a standard input that isn't a terminal.
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.execve(told["command"][0], told["command"], told["environment"])  # noqa: S606


if __name__ == "__main__":
    status, timeout_ms, depth = map(int, sys.argv[1:])
    # Only the kernel is believed on how deep a delegation is, and pi has a name of its own.
    name = child_name(depth)
    run_guarded(become_pi, lifeline=0, status=status, timeout_ms=timeout_ms, name=name)
