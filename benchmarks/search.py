"""What `grep`, `find` and `read` cost, compared with plain ripgrep and with a small file.

    python benchmarks/search.py [files]

Makes a tree of 50,000 files in a temporary folder, and prints for each search the time of plain
`rg`, the time of the tool, and their ratio (the aim is at most 1.5); then the memory that reading
ten lines takes out of a small file and out of one of 1 GB.
"""

import asyncio
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from outrider.masking import Masker
from outrider.tools.context import ToolContext
from outrider.tools.executor import ToolExecutor
from outrider.tools.files.ripgrep import ripgrep
from outrider.tools.loading import builtin_tools

AIM = 1.5
ROUNDS = 9
WORDS = ["alpha", "beta", "gamma", "delta", "import", "return", "class", "value", "other", "text"]

SEARCHES: list[tuple[str, dict[str, Any], list[str]]] = [
    ("grep, no match", {"pattern": "nowhere_to_be_found"}, ["nowhere_to_be_found"]),
    ("grep, rare", {"pattern": "needle_[0-9]+"}, ["-n", "needle_[0-9]+"]),
    ("grep, in *.py", {"pattern": "needle", "glob": "*.py"}, ["-n", "needle", "-g", "*.py"]),
    ("grep, common", {"pattern": "alpha beta gamma"}, ["-n", "alpha beta gamma"]),
    ("find *.py", {"pattern": "*.py"}, ["--files", "-g", "*.py"]),
    ("find **/7*.md", {"pattern": "**/7*.md"}, ["--files", "-g", "**/7*.md"]),
    ("find all", {"pattern": "*"}, ["--files"]),
]

MEMORY = """
import asyncio, resource, sys
from pathlib import Path
from outrider.tools.loading import builtin_tools
from outrider.tools.context import ToolContext
from outrider.tools.executor import ToolExecutor

async def main():
    executor = ToolExecutor(builtin_tools(), ToolContext(cwd=Path(sys.argv[1])))
    outcome = await executor.execute("read", {"path": sys.argv[2], "limit": 10})
    assert outcome.envelope["code"] == 0, outcome.text
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)

asyncio.run(main())
"""


def make_tree(folder: Path, files: int) -> None:
    """Make a repository of small text files, 200 to a folder."""
    chance = random.Random(1)
    (folder / ".git").mkdir(parents=True)
    (folder / ".gitignore").write_text("build/\n*.log\n")
    for number in range(files):
        place = folder / f"d{number // 1000}" / f"s{number // 200 % 5}"
        if number % 200 == 0:
            place.mkdir(parents=True)
        lines = [" ".join(chance.choices(WORDS, k=8)) for _ in range(30)]
        if number % 500 == 0:
            lines.append(f"needle_{number}")
        suffix = ("py", "md", "txt", "js")[number % 4]
        (place / f"{number}.{suffix}").write_text("\n".join(lines))


async def timed(executor: ToolExecutor, name: str, arguments: dict[str, Any]) -> float:
    """Return how long one call of a tool takes."""
    start = time.perf_counter()
    outcome = await executor.execute(name, arguments)
    assert outcome.envelope["code"] == 0, outcome.text
    return time.perf_counter() - start


def plain(folder: Path, arguments: list[str]) -> float:
    """Return how long plain ripgrep takes, with its output read from a pipe as ours is."""
    program = ripgrep((str(folder),))
    start = time.perf_counter()
    subprocess.run([program, "--no-config", "--hidden", *arguments, "./"], cwd=folder,
                   capture_output=True, check=False)  # fmt: skip
    return time.perf_counter() - start


async def compare(folder: Path) -> bool:
    """Print each search's times side by side; returns whether all are within the aim."""
    # As in a read-only child: secrets in what a tool returns are masked.
    mask = Masker(secrets=("k" * 20,), only_secrets=True)
    executor = ToolExecutor(builtin_tools(), ToolContext(cwd=folder, mask=mask))
    within = True
    print(f"{'search':16} {'rg':>9} {'tool':>9} {'ratio':>6}")
    for title, arguments, command in SEARCHES:
        name = title.split()[0].strip(",")
        plain(folder, command)
        pairs: list[tuple[float, float]] = []
        for _ in range(ROUNDS):
            pairs.append((plain(folder, command), await timed(executor, name, arguments)))
        theirs, ours = (statistics.median(column) for column in zip(*pairs, strict=True))
        within &= ours / theirs <= AIM
        print(f"{title:16} {theirs * 1e3:6.1f} ms {ours * 1e3:6.1f} ms {ours / theirs:6.2f}")
    return within


def memory(folder: Path, name: str) -> int:
    """Return the most memory, in KB, that a process takes to read ten lines of a file."""
    command = [sys.executable, "-c", MEMORY, str(folder), name]
    return int(subprocess.run(command, capture_output=True, check=True).stdout)


def main() -> int:
    """Run all of it; the exit code says whether the aims were met."""
    files = int(sys.argv[1]) if len(sys.argv) > 1 else 50_000
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, "tree")
        make_tree(folder, files)
        print(f"{files:,} files, median of {ROUNDS} runs, {os.cpu_count()} cores")
        within = asyncio.run(compare(folder))
        reading = Path(name, "reading")
        reading.mkdir()
        (reading / "small.txt").write_text("line\n" * 2_000)
        (reading / "large.txt").write_text("line\n" * 2_000)
        os.truncate(reading / "large.txt", 1 << 30)
        small, large = memory(reading, "small.txt"), memory(reading, "large.txt")
    print(f"read 10 lines    small file {small / 1024:.1f} MB, 1 GB file {large / 1024:.1f} MB")
    return 0 if within and large < small + 2_048 else 1


if __name__ == "__main__":
    sys.exit(main())
