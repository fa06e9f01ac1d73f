"""A process as warm as Outrider's; for each line on stdin, a child that it guards enters walls.

A line says as whom: `root`, `user` for an ordinary user, or `layer` for whoever this is, as a
writer with a layer over a folder of many files. It answers with the seconds that entering took,
and with what the kernel didn't grant.
"""

import json
import os
import sys
import tempfile
import time
from _socket import socket
from pathlib import Path

from outrider.child.fork_server import warm_up
from outrider.models.wires import Wire
from outrider.processes import walls
from outrider.processes.guardian import run_guarded
from outrider.protocol.brief import Brief
from outrider.workspaces.run_walls import new_layer, walls_for

USER_ID = 4242
FILES = 10_000
MAX_MS = 60_000


def entered(who: str, folder: str, place: str) -> dict[str, object]:
    """Return what entering walls took in a child with its guardian, and what they lack."""
    reader, writer = os.pipe()

    def run(link: socket) -> None:
        start = time.monotonic()
        about = {"isolation": "overlay", "layer": place} if who == "layer" else {}
        brief = Brief("aaaaaaaa", "own", "", "", "", folder, **{"isolation": "readonly", **about})
        around = walls_for(brief, os.environ, layered=new_layer(brief))
        missing = walls.enter(around, guardian=link)
        told = {"seconds": time.monotonic() - start, "missing": missing}
        os.write(writer, json.dumps(told).encode())
        os._exit(0)

    if (pid := os.fork()) == 0:
        os.close(reader)
        if who == "user" and os.geteuid() == 0:
            os.setgroups([])
            os.setgid(USER_ID)
            os.setuid(USER_ID)
        lifeline, _kept = os.pipe()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        run_guarded(run, lifeline=lifeline, status=nowhere, timeout_ms=MAX_MS)
    os.close(writer)
    with open(reader, "rb") as answer:
        told = json.loads(answer.read())
    os.waitpid(pid, 0)
    return told


def main() -> None:
    """Warm up as the warm process does, then enter walls whenever asked to."""
    warm_up(Wire.LEAN)
    with tempfile.TemporaryDirectory(dir=os.environ["BENCH_PROJECT"]) as place:
        folder = Path(place, "folder")
        for number in range(FILES):
            (folder / str(number % 100)).mkdir(parents=True, exist_ok=True)
            (folder / str(number % 100) / str(number)).touch()
        for path in (place, *Path(place).parents):
            os.chmod(path, os.stat(path).st_mode | 0o111) if os.stat(path).st_uid == 0 else None
        entered("root", str(folder), "")
        print(json.dumps({"files": FILES}), flush=True)
        for number, line in enumerate(sys.stdin):
            told = entered(line.strip(), str(folder), f"{place}/layer{number}")
            print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
