"""One scripted model server and the drivers of some contestants, side by side."""

import random
import re
import secrets
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.contestants import CONTESTANTS, driver_environment
from benchmarks.environments import ROOT, outrider_python
from benchmarks.processes import Broken, Lines, descendants, end, processes_at_home

START_LIMIT_SECONDS = 120
ANSWER_LIMIT_SECONDS = 60
TURN_LIMIT_SECONDS = 2


@dataclass(frozen=True)
class Task:
    """A task that the scripted model knows what to do with."""

    identity: str
    text: str

    def is_answered_by(self, answer: str) -> bool:
        """Whether this is the answer to this very task."""
        return re.search(rf"answer-{self.identity}\b", answer) is not None


def new_task(turns: int = 1, hold_ms: int = 0) -> Task:
    """Return a task of so many turns, whose answer is held back for a while."""
    identity = secrets.token_hex(4)
    mark = f"bench-{identity}-t{turns}-h{hold_ms}"
    return Task(identity, f"Read note.txt as often as you are told, then answer. {mark}")


@dataclass(frozen=True)
class Done:
    """One task that was answered, with its times in seconds since it was started."""

    start: float
    """When it was started, by the machine's monotonic clock."""
    first_request_s: float
    total_s: float
    requests: tuple[float, ...]
    """When each of its requests reached the model."""
    parent_cpu_s: float
    """Its share of the CPU time that the parent's own process spent, children not counted."""


class Arena:
    """Runs tasks with any of its contestants; one that breaks is out, and `problems` says why."""

    def __init__(self, commands: Mapping[str, Sequence[str]], folder: Path) -> None:
        self._commands = commands
        self._folder = folder
        self._stack = ExitStack()
        self._drivers: dict[str, Lines] = {}
        self.versions: dict[str, str] = {}
        self.problems: dict[str, str] = {}

    def __enter__(self) -> "Arena":
        log = self._folder / "server.log"
        command = [outrider_python(), "-m", "benchmarks.server"]
        env = driver_environment(next(iter(CONTESTANTS.values())), self._folder / "server", "")
        self._server = self._stack.enter_context(Lines(command, env=env, cwd=ROOT, log=log))
        self.url: str = self._server.answer(START_LIMIT_SECONDS)["url"]
        for name, command in self._commands.items():
            self._enter_contestant(name, command)
        for name in tuple(self._drivers):
            self._first_steps(name)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
        for name in self._commands:
            end(processes_at_home(self.home(name)))

    def home(self, name: str) -> Path:
        """Return the HOME of a contestant."""
        return self._folder / name.replace(" ", "-")

    def pid(self, name: str) -> int:
        """Return the process of a contestant's driver."""
        return self._drivers[name].process.pid

    @property
    def present(self) -> list[str]:
        """The contestants that still take part."""
        return list(self._drivers)

    def processes(self, name: str) -> set[int]:
        """Return the processes of a contestant: its driver, and what that has started."""
        return processes_at_home(self.home(name)) | descendants(self.pid(name))

    def shuffled(self, turn: int) -> list[str]:
        """Return them in another order each turn: what one leaves running slows the next."""
        return random.Random(turn).sample(self.present, len(self.present))

    def run(
        self, name: str, tasks: Sequence[Task], *, turns: int = 1, concurrent: int | None = None
    ) -> list[Done]:
        """Return how tasks ended that were started all at once; [] if the contestant is out."""
        if name not in self._drivers:
            return []
        try:
            self.begin(name, tasks, concurrent=concurrent)
            return self.finish(name, tasks, turns=turns)
        except Broken as problem:
            self.drop(name, str(problem))
            return []

    def begin(self, name: str, tasks: Sequence[Task], *, concurrent: int | None = None) -> None:
        """Start tasks, and don't wait for them."""
        if concurrent is None and not CONTESTANTS[name].queued:
            concurrent = max(len(tasks), 8)
        texts = [task.text for task in tasks]
        self._drivers[name].tell({"op": "delegate", "tasks": texts, "concurrent": concurrent})

    def has_finished(self, name: str, wait_seconds: float) -> bool:
        """Return whether the tasks that were started have ended, or end within this time."""
        return self._drivers[name].has_answered(wait_seconds)

    def finish(self, name: str, tasks: Sequence[Task], *, turns: int = 1) -> list[Done]:
        """Wait for tasks that were started; raises `Broken` unless each has its own answer."""
        done: list[Done] = []
        for task, (result, times) in zip(tasks, self.outcomes(name, tasks, turns), strict=True):
            if result["error"] or not task.is_answered_by(result["answer"]):
                raise Broken(result["error"] or f"a wrong answer: {result['answer'][:200]!r}")
            if len(times) != turns:
                raise Broken(f"{len(times)} requests for a task of {turns} turns")
            start = result["start"]
            total_s = result["end"] - start
            done.append(Done(start, times[0] - start, total_s, tuple(times), result["cpu_s"]))
        return done

    def outcomes(
        self, name: str, tasks: Sequence[Task], turns: int = 1
    ) -> list[tuple[dict[str, Any], list[float]]]:
        """Wait for tasks that were started; return how each ended and when it asked the model."""
        each = CONTESTANTS[name].child_s + turns * TURN_LIMIT_SECONDS / 10
        limit = ANSWER_LIMIT_SECONDS + 4 * len(tasks) * each
        results = self._drivers[name].answer(limit)["results"]
        times = [report["times"] for report in self.reports(tasks)]
        return list(zip(results, times, strict=True))

    def offer(self, name: str, task: Task) -> dict[str, Any]:
        """Have this contestant's parent ask the model once; return what it says of its tool."""
        return self._drivers[name].ask({"op": "offer", "task": task.text}, ANSWER_LIMIT_SECONDS)

    def reports(self, tasks: Sequence[Task]) -> list[dict[str, Any]]:
        """Return what the model server knows of the requests of these tasks."""
        answer = self._server.ask({"ids": [task.identity for task in tasks]}, ANSWER_LIMIT_SECONDS)
        return answer["reports"]

    def wait_for_requests(self, tasks: Sequence[Task], timeout: float) -> bool:
        """Return whether all of these tasks have reached the model in time."""
        until = time.monotonic() + timeout
        while not all(report["times"] for report in self.reports(tasks)):
            if time.monotonic() > until:
                return False
            time.sleep(0.05)
        return True

    def drop(self, name: str, problem: str) -> None:
        """Continue without a contestant."""
        print(f"{name}: {problem}", file=sys.stderr)
        # The results are published: no folder of this machine belongs in them.
        self.problems[name] = problem.replace(str(self._folder), "…").replace(str(ROOT), "…")
        driver = self._drivers.pop(name, None)
        if driver is not None:
            driver.kill()

    def _enter_contestant(self, name: str, command: Sequence[str]) -> None:
        home = self.home(name)
        env = driver_environment(CONTESTANTS[name], home, self.url)
        lines = Lines(command, env=env, cwd=ROOT, log=home / "driver.log")
        self._drivers[name] = self._stack.enter_context(lines)

    def _first_steps(self, name: str) -> None:
        """Wait until a driver is ready, and have the cost of its first tasks behind it."""
        try:
            self.versions[name] = self._drivers[name].answer(START_LIMIT_SECONDS)["version"]
        except Broken as problem:
            self.drop(name, str(problem))
            return
        for _ in range(2):
            self.run(name, [new_task()])
