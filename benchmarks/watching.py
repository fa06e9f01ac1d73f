"""What watchers cost a run: the CPU of its own processes, alone and with ten that watch it.

`python -m benchmarks.watching` prints both, and by how much the second is more.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from statistics import median

from outrider.testing import ModelRequest, ScriptedModel, Step, answer, tool_call

WATCHERS, ROUNDS, TURNS = 10, 5, 60


def cpu_seconds(server: ScriptedModel, home: Path, watchers: int) -> float:
    """Return the CPU time of a run in the foreground, its guardian and its child, in seconds."""
    runs = home / ".local/state/outrider/runs"
    run = _started(server, home, "run", "explorer", "Look around.", "--model", server.model)
    while not (found := list(runs.glob("*/control.sock"))):  # it goes with the run
        time.sleep(0.01)
    name = found[0].parent.name
    watching = [_started(server, home, "watch", name) for _ in range(watchers)]
    _, run.returncode, used = os.wait4(run.pid, 0)
    for one in watching:
        one.wait()
    return used.ru_utime + used.ru_stime


def _started(server: ScriptedModel, home: Path, *words: str) -> "subprocess.Popen[bytes]":
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "OUTRIDER_WARM__KEEP_MINUTES": "0"}
    return subprocess.Popen(
        (sys.executable, "-m", "outrider", *words),
        env={**env, **server.environment},
        cwd=home,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def step(request: ModelRequest) -> Step:
    """Return what the model does: it looks around, and at last has an answer."""
    looking = replace(tool_call("ls", {}), delay=0.02)
    return answer("Done.") if request.turn >= TURNS else looking


def main() -> None:
    """Measure in turn, so that what else the machine does counts for both."""
    found: dict[int, list[float]] = {0: [], WATCHERS: []}
    with ScriptedModel(step) as server, tempfile.TemporaryDirectory() as home:
        for _ in range(ROUNDS):
            for watchers, times in found.items():
                times.append(cpu_seconds(server, Path(home), watchers))
    alone, watched = (median(times) for times in found.values())
    more = round((watched / alone - 1) * 100, 1)
    print(json.dumps({"aloneSeconds": alone, "watchedSeconds": watched, "morePercent": more}))


if __name__ == "__main__":
    main()
