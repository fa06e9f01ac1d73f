"""A pi child: `python -S launch.py STATUS_FD TIMEOUT_MS`, which becomes pi.

Without `site`, and without what `-m` loads, it starts in two thirds of the time.
"""

import os
import sys

sys.path.append(os.path.abspath(f"{__file__}/../../../.."))

from outrider.processes.guardian import run_guarded
from outrider.processes.reaping import limit_nesting


def become_pi() -> None:
    """Read from stdin what to run, and become that."""
    with open(0, "rb", closefd=False) as start:
        size = int(start.readline() or 1)
        told = start.read(size)
    if len(told) < size:
        sys.exit("The command was cut off: the parent is gone.")
    cwd, count, *parts = told.split(b"\0")  # JSON would take longer to load
    command, variables = parts[: int(count)], parts[int(count) :]
    os.chdir(cwd)
    # It would read a prompt from a standard input that isn't a terminal.
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.execve(command[0], command, dict(one.split(b"=", 1) for one in variables))  # noqa: S606


if __name__ == "__main__":
    names = ("OUTRIDER_SUBAGENT_DEPTH", "OUTRIDER_SUBAGENTS__MAX_DEPTH")
    limit_nesting(*(int(os.environ[name]) for name in names))
    # Named so that a delegation below knows where it is; pi takes a name of its own.
    status, timeout_ms = map(int, sys.argv[1:])
    run_guarded(become_pi, lifeline=0, status=status, timeout_ms=timeout_ms, name="child")
