"""A pi child: `python -S launch.py STATUS_FD TIMEOUT_MS`, which becomes pi.

Without `site`, and without what `-m` loads, it starts in two thirds of the time.
"""

import os
import sys
from _socket import socket

sys.path.append(os.path.abspath(f"{__file__}/../../../.."))

from outrider.processes import walls
from outrider.processes.guardian import run_guarded
from outrider.processes.reaping import limit_nesting


def become_pi(guardian: socket) -> None:
    """Read from stdin what to run and behind which walls, and become that.

    Its first line of output says what the walls lack.
    """
    with open(0, "rb", closefd=False) as start:
        size = int(start.readline() or 1)
        told = start.read(size)
    if len(told) < size:
        sys.exit("The command was cut off: the parent is gone.")
    cwd, isolation, counts, *parts = told.split(b"\0")  # JSON would take longer to load
    lists: list[list[bytes]] = []
    for count in map(int, counts.split()):
        lists.append(parts[:count])
        del parts[:count]
    command, *folders = lists
    os.chdir(cwd)
    writable, seen, private, hidden, layer = ([*map(os.fsdecode, one)] for one in folders)
    layered = walls.LayeredFolder(layer[0], layer[1]) if layer else None
    around = walls.Walls(writable, seen, private, hidden, layered=layered)
    missing = walls.enter(around, guardian=guardian)
    _tell(missing, layered.kind if layered else isolation.decode())
    if layered and not layered.kind:
        sys.exit(1)
    if isolation == b"readonly" and any(one.startswith("namespaces: ") for one in missing):
        sys.exit(1)  # nothing would keep it from writing
    # It would read a prompt from a standard input that isn't a terminal.
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.execve(command[0], command, dict(one.split(b"=", 1) for one in parts))  # noqa: S606


def _tell(missing: tuple[str, ...], kind: str) -> None:
    listed = "[]"
    if missing:
        import json

        listed = json.dumps(missing)
    os.write(1, f'{{"type":"walls","kind":"{kind}","missing":{listed}}}\n'.encode())


if __name__ == "__main__":
    names = ("OUTRIDER_SUBAGENT_DEPTH", "OUTRIDER_SUBAGENTS__MAX_DEPTH")
    limit_nesting(*(int(os.environ[name]) for name in names))
    # Named so that a delegation below knows where it is; pi takes a name of its own.
    status, timeout_ms = map(int, sys.argv[1:])
    run_guarded(become_pi, lifeline=0, status=status, timeout_ms=timeout_ms, name="child")
