"""How long the first answer of `outrider run explorer` takes on a tree of 10,000 source files.

    python -m benchmarks.find_speed [--files 10000]

The tree is made of the source packages that `find_questions.py` downloads, files repeated under
other folders until there are enough.
"""

import argparse
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from itertools import cycle, islice
from pathlib import Path

from benchmarks.find_questions import CODE, trees

QUESTIONS = (
    "Where is a query set turned into SQL?",
    "How does a scheduler retry a task after a failure?",
    "Which class decides whether a request is allowed?",
)
MAX_SECONDS = 3.0
MAX_MEGABYTES = 300


def build(folder: Path, files: int) -> None:
    """Fill a folder with source files of real projects."""
    sources = [
        path
        for _, tree in trees()
        for path in sorted(tree.rglob("*"))
        if path.suffix in CODE and path.is_file()
    ]
    for number, path in enumerate(islice(cycle(sources), files)):
        place = folder / f"round{number // len(sources)}" / path.parent.name / f"{number}"
        place.mkdir(parents=True)
        shutil.copyfile(path, place / path.name)


def measured(*arguments: str, folder: str) -> tuple[float, float, float]:
    """Return the seconds, the CPU seconds and the most megabytes of a command.

    A run's child may be forked from a process that waits for it, whose share isn't counted here;
    that of `find` is, with ripgrep's.
    """
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    command = [sys.executable, "-m", "outrider", *arguments]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - begun, cpu, after.ru_maxrss / 1024


def main() -> int:
    """Print each answer's time, CPU time and memory; the exit code says whether the aims hold."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--files", type=int, default=10_000)
    options = parser.parse_args()
    met = True
    with tempfile.TemporaryDirectory(prefix="outrider-find-") as name:
        build(Path(name), options.files)
        for question in QUESTIONS:
            seconds, _, _ = measured("run", "explorer", question, "-m", "embedded", folder=name)
            _, cpu, memory = measured("find", question, folder=name)
            print(f"{seconds:.1f} s; its search {cpu:.1f} s of CPU, {memory:.0f} MB: {question}")
            met = met and seconds < MAX_SECONDS and memory < MAX_MEGABYTES
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
