"""`python3 -m benchmarks.run_listing`: the CPU time of `outrider runs` with very many runs.

The records are as real ones are, with answers of several kilobytes. The time is that of the whole
command, which a bare `outrider --version` is measured beside, in a warm cache.

python3 -m benchmarks.run_listing [--count N]
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from outrider.records.runs import RunRecorder

ANSWER = "It is in `src/app/limits.py`, line 12.\n" * 100
COMMANDS = (
    ["--version"],
    ["runs"],
    ["runs", "--agent", "explorer"],
    ["runs", "--outcome", "failed"],
    ["runs", "--project", "."],
    ["runs", "--json"],
    ["show", "last"],
)
ROUNDS = 3


def record(runs: Path, number: int) -> None:
    """Write the record of one run."""
    about = {"agent": ("explorer", "tester")[number % 2], "task": f"Where is limit {number}?"}
    usage = {"input": 1_000, "output": 200, "cacheRead": 0, "cacheWrite": 0, "cost": 0, "turns": 2}
    ended = {"outcome": ("completed", "failed")[number % 3 == 0], "exitCode": 0, "usage": usage}
    with RunRecorder.create(runs) as run:
        run.add_event({"type": "run", "startedAt": time.time(), "project": "/p", **about})
        run.add_event({"type": "message_end", "text": ANSWER})
        run.add_output(ANSWER)
        result = {**about, **ended, "output": ANSWER, "durationMs": 900}
        content = [{"type": "text", "text": ANSWER}]
        end = {"type": "end", "at": 900, **ended}
        run.write_result({"content": content, "details": {"results": [result]}}, end)


def cpu_seconds(command: Sequence[str], home: Path) -> float:
    """Return the CPU time that a command takes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    env = {**os.environ, "OUTRIDER_HOME": str(home)}
    command = [sys.executable, "-m", "outrider", *command]
    subprocess.run(command, env=env, capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main(arguments: list[str] | None = None) -> int:
    """Print the time of each command: the best of three, which other load disturbs least."""
    parser = argparse.ArgumentParser(
        prog="python3 -m benchmarks.run_listing", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--count", type=int, default=10_000, help="runs (10,000)")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="outrider-runs-") as name:
        for number in range(options.count):
            record(Path(name, "runs"), number)
        print(f"{options.count} runs")
        for command in COMMANDS:
            best = min(cpu_seconds(command, Path(name)) for _ in range(ROUNDS))
            print(f"{best:6.2f} s  outrider {' '.join(command)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
