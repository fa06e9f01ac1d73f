"""What every measurement needs: its scale, those who take part, and processes to compare with."""

import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.arena import START_LIMIT_SECONDS, Arena
from benchmarks.contestants import CONTESTANTS, WARM, driver_environment
from benchmarks.environments import ROOT, outrider_python
from benchmarks.processes import Lines

Json = dict[str, Any]


@dataclass(frozen=True)
class Scale:
    """How much is measured."""

    one_turn_rounds: int = 31
    ten_turns_rounds: int = 7
    at_once: tuple[int, ...] = (1, 10, 100, 1_000)
    rounds_at_once: int = 3
    parent_rounds: int = 90
    burst: int = 100
    burst_rounds: int = 5
    held: int = 100
    heavy_held: int = 8
    most_held: int = 1_000
    history: int = 400
    startup_rounds: int = 5
    megabytes: int = 20
    growth_megabytes: int = 100
    flood_megabytes: int = 1_000
    queue: int = 60
    killed: int = 5_000
    kill_every_s: tuple[float, float] = (2, 10)
    quick: bool = False


QUICK = Scale(
    one_turn_rounds=5,
    ten_turns_rounds=3,
    at_once=(1, 10, 100),
    rounds_at_once=1,
    parent_rounds=15,
    burst=20,
    burst_rounds=2,
    held=20,
    heavy_held=4,
    most_held=20,
    history=100,
    startup_rounds=3,
    megabytes=4,
    growth_megabytes=20,
    flood_megabytes=100,
    queue=30,
    killed=200,
    quick=True,
)


@dataclass(frozen=True)
class Setting:
    """The commands of those present, a folder to work in, the scale, and what was learned."""

    commands: Mapping[str, Sequence[str]]
    folder: Path
    scale: Scale
    problems: dict[str, str] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)

    @contextmanager
    def arena(self, label: str, names: Sequence[str] = tuple(CONTESTANTS)) -> Iterator[Arena]:
        """Yield an arena for some contestants; keep their versions and problems."""
        folder = self.folder / label.replace(" ", "-")
        folder.mkdir()
        present = {name: self.commands[name] for name in self.commands if name in names}
        with Arena(present, folder) as arena:
            try:
                yield arena
            finally:
                self.problems.update(arena.problems)
                self.versions.update(arena.versions)

    @contextmanager
    def yardstick(self, module: str, url: str = "") -> Iterator[tuple[Lines, Json]]:
        """Yield a process to compare with, once it is ready, and what it said of itself."""
        env = driver_environment(CONTESTANTS[WARM], self.folder / module, url)
        log = self.folder / f"{module}.log"
        with Lines([outrider_python(), "-m", module], env=env, cwd=ROOT, log=log) as process:
            yield process, process.answer(START_LIMIT_SECONDS)


def json_of(module: str, *arguments: str, limit_seconds: float) -> Any:
    """Return what a module of this package prints when it runs as a program."""
    command = [outrider_python(), "-m", module, *arguments]
    done = subprocess.run(
        command, cwd=ROOT, stdout=subprocess.PIPE, timeout=limit_seconds, check=True, text=True
    )
    return json.loads(done.stdout)


def machine() -> Json:
    """What all of this ran on, and how busy that was before."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    described = Path("/proc/cpuinfo").read_text().partition("model name\t: ")[2]
    return {
        "system": f"{platform.system()} {platform.release().split('-')[0]}",
        "processor": described.partition("\n")[0] or platform.machine(),
        "load": round(os.getloadavg()[0], 1),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gb": round(total / 1e9),
        "python": sys.version.split()[0],
    }
