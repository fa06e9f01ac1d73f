"""What is measured: each function returns its part of the results, as plain JSON."""

import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import pairwise
from operator import gt
from pathlib import Path

from benchmarks import environments
from benchmarks.aims import FIRST_KEY, PROMPT_TOOLKIT
from benchmarks.arena import START_LIMIT_SECONDS, Arena, Done, Task, new_task
from benchmarks.contestants import (
    ANTHROPIC,
    COLD,
    COLD_ANTHROPIC,
    CONTESTANTS,
    HARNESS,
    IN_PI,
    OPEN,
    PI,
    PI_CHILD,
    PI_SUBAGENTS,
    RUN,
    SDK,
    WARM,
)
from benchmarks.cpu_account import CpuAccount
from benchmarks.environments import outrider_python
from benchmarks.figures import percentile, window
from benchmarks.first_key import first_key_seconds
from benchmarks.landing import landing_seconds
from benchmarks.mcp import first_answers_seconds, idle_memory
from benchmarks.processes import (
    MEGABYTE,
    Broken,
    available_bytes,
    children_named,
    open_descriptors,
    unique_bytes,
)
from benchmarks.setting import Json, Scale, Setting, json_of

HISTORIES = (10, 50, 100, 200, 400)
SETTLE_LIMIT_SECONDS = 10
LOOP_ROUNDS = LANDINGS = 5
WARMING_ROUNDS = 5
PAUSE_SECONDS = 0.1
"""Between two tasks of different contestants, so that what the first leaves doing is done."""
MEMORY = Path("/dev/shm")
QUEUED = f"{WARM}, its queue of 8"
LABELS = [WARM, QUEUED, *(name for name in CONTESTANTS if name != WARM)]
BURSTING = [name for name in CONTESTANTS if name not in (COLD_ANTHROPIC, IN_PI, PI_SUBAGENTS)]


def latency(setting: Setting) -> Json:
    """One task at a time, the contestants in turn: to its first request, and to its answer.

    The yardsticks in each round are a bare fork of a process as warm as Outrider's, and a bare
    Python.
    """
    found: dict[str, dict[str, list[float]]] = {"first": {}, "one": {}, "ten": {}}
    bare: dict[str, list[float]] = {}
    with (
        setting.arena("latency") as arena,
        setting.yardstick("benchmarks.forking") as (forker, _),
    ):
        for turn in range(setting.scale.one_turn_rounds):
            _add(bare, "fork", forker.ask("fork", START_LIMIT_SECONDS)["seconds"])
            _add(bare, "python", _seconds_of([outrider_python(), "-c", "pass"]))
            for name in _in_turn(arena, turn):
                time.sleep(PAUSE_SECONDS)
                for done in arena.run(name, [new_task()]):
                    _add(found["first"], name, done.first_request_s)
                    _add(found["one"], name, done.total_s)
        for turn in range(setting.scale.ten_turns_rounds):
            for name in _in_turn(arena, turn):
                for done in arena.run(name, [new_task(turns=10)], turns=10):
                    _add(found["ten"], name, done.total_s)
    return {"latency": found, **bare}


def _in_turn(arena: Arena, turn: int, slow_s: float = 2) -> list[str]:
    """Return who takes part in a round; those with slow children do in every third one only."""
    names = arena.shuffled(turn)
    return [name for name in names if CONTESTANTS[name].child_s < slow_s or turn % 3 == 0]


def _add(found: dict[str, list[float]], name: str, seconds: float) -> None:
    found.setdefault(name, []).append(round(seconds * 1000, 3))


def _seconds_of(command: Sequence[str], cwd: Path | None = None) -> float:
    """Return how long a command takes, from its start to its end."""
    start = time.monotonic()
    subprocess.run(command, cwd=cwd, capture_output=True, check=True, timeout=60)
    return time.monotonic() - start


def walls(setting: Setting) -> Json:
    """How long it takes a process as warm as Outrider's to confine itself, as whom it may be."""
    found: dict[str, list[float]] = {}
    missing: dict[str, None] = {}
    with setting.yardstick("benchmarks.walling") as (prisoner, _):
        for _turn in range(setting.scale.one_turn_rounds):
            for who in ("root", "user", "layer") if os.geteuid() == 0 else ("user", "layer"):
                told = prisoner.ask(who, START_LIMIT_SECONDS)
                _add(found, who, told["seconds"])
                missing |= dict.fromkeys(told["missing"])
    rounds = [landing_seconds() for _ in range(LANDINGS)]
    landing = {name: [round(one[name] * 1000, 3) for one in rounds] for name in rounds[0]}
    return {"walls": {**found, "missing": [*missing]}, "landing": landing}


def at_once(setting: Setting) -> Json:
    """Many tasks started at the same moment, the contestants in turn; each must answer its own."""
    names = [name for name in CONTESTANTS if name != COLD_ANTHROPIC]
    found: dict[str, Json] = {}
    left: Json = {}
    with setting.arena("at-once", names) as arena:
        before = _held_by(arena, WARM)
        for number in setting.scale.at_once:
            rounds: dict[str, list[list[Done]]] = {}
            for turn in range(setting.scale.rounds_at_once):
                for name in arena.shuffled(turn):
                    if turn < _rounds(name, number, setting.scale):
                        _run_at_once(arena, name, number, rounds)
            for label in sorted(rounds, key=LABELS.index):
                found.setdefault(label, {})[str(number)] = _at_once_cell(rounds[label])
        if WARM in arena.present:
            left = {"tasks": number, **_left_behind(arena, before)}
    return {"at_once": found, "left": left}


def _rounds(name: str, number: int, scale: Scale) -> int:
    """Return how often so many tasks are started: not at all if they are too many for it."""
    if _is_too_much(name, number):
        return 0
    slow = CONTESTANTS[name].child_s > 0.2 and number > 1
    many = number >= 1_000 and name not in (WARM, HARNESS)  # which an aim compares
    return 1 if slow or many else scale.rounds_at_once


def _run_at_once(arena: Arena, name: str, number: int, rounds: dict[str, list[list[Done]]]) -> None:
    ways: list[tuple[str, int | None]] = [(name, None)]
    if name == WARM and (number < 1_000 or QUEUED not in rounds):
        ways.append((QUEUED, 8))
    for label, concurrent in ways:
        if done := arena.run(name, [new_task() for _ in range(number)], concurrent=concurrent):
            rounds.setdefault(label, []).append(done)


def _at_once_cell(rounds: Sequence[Sequence[Done]]) -> Json:
    seconds = [max(d.start + d.total_s for d in r) - min(d.start for d in r) for r in rounds]
    waits = [done.total_s for each in rounds for done in each]
    number = len(rounds[0])
    return {
        "throughput": round(number / statistics.median(seconds), 2),
        "seconds": [round(each, 4) for each in seconds],
        "p50": round(percentile(waits, 50) * 1000, 2),
        "p99": round(percentile(waits, 99) * 1000, 2),
    }


def _is_too_much(name: str, number: int) -> bool:
    contestant = CONTESTANTS[name]
    at_a_time = min(number, 8) if contestant.queued else number
    needed = at_a_time * contestant.child_mb * MEGABYTE
    return number > contestant.most_at_once or needed > available_bytes() * 0.8


def _held_by(arena: Arena, name: str) -> tuple[int, int]:
    """Return how many descriptors and processes a contestant at rest holds."""
    if name not in arena.present:
        return 0, 0
    time.sleep(0.5)
    return open_descriptors(arena.pid(name)), len(arena.processes(name))


def _left_behind(arena: Arena, before: tuple[int, int]) -> Json:
    """Return how much more Outrider holds; its warm process and a spare child stay."""
    until = time.monotonic() + SETTLE_LIMIT_SECONDS
    after = _held_by(arena, WARM)
    while any(map(gt, after, before)) and time.monotonic() < until:
        after = _held_by(arena, WARM)
    return {"descriptors": after[0] - before[0], "processes": after[1] - before[1]}


def parent(setting: Setting) -> Json:
    """The CPU time of the parent's own process for a delegation, and for copying its events.

    Files are kept in memory: on a disk, a new file can take ten times more on one day than on
    another.
    """
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        return _parent_cpu(replace(setting, folder=Path(folder)))


def _parent_cpu(setting: Setting) -> Json:
    found: dict[str, list[float]] = {}
    with (
        setting.arena("parent", [WARM]) as arena,
        setting.yardstick("benchmarks.copying", arena.url) as (copier, copied),
    ):
        for turn in range(setting.scale.parent_rounds + WARMING_ROUNDS):
            # At the same time, so that a busy machine slows both down.
            copier.tell("copy")
            done = arena.run(WARM, [new_task() for _ in range(copied["at_once"])])
            if not done:
                return {}
            copy = copier.answer(START_LIMIT_SECONDS)
            if turn >= WARMING_ROUNDS:
                _add(found, "delegating", done[0].parent_cpu_s)
                _add(found, "copying", copy["cpu_s"])
    return {"parent": {**copied, **found}}


def cpu(setting: Setting) -> Json:
    """The CPU time of a task in a burst: of its parent, its own processes and what started them."""
    found: dict[str, list[float]] = {}
    with ExitStack() as stack:
        commands: dict[str, Sequence[str]] = {}
        accounts: dict[str, CpuAccount] = {}
        for name in (name for name in BURSTING if name in setting.commands):
            accounts[name] = stack.enter_context(CpuAccount(name))
            commands[name] = accounts[name].joined(setting.commands[name])
        arena = stack.enter_context(replace(setting, commands=commands).arena("cpu"))
        for turn in range(setting.scale.burst_rounds):
            for name in _in_turn(arena, turn, slow_s=0.2):
                number = _burst(name, setting.scale)
                before = accounts[name].seconds()
                if arena.run(name, [new_task() for _ in range(number)]):
                    _add(found, name, (accounts[name].seconds() - before) / number)
    bursts = {name: _burst(name, setting.scale) for name in BURSTING if name in found}
    return {"cpu": {name: {"tasks": bursts[name], "ms": found[name]} for name in bursts}}


def _burst(name: str, scale: Scale) -> int:
    return min(scale.burst, CONTESTANTS[name].most_at_once)


def memory(setting: Setting) -> Json:
    """How much memory each of many tasks takes while it waits for the model."""
    found: dict[str, Json] = {}
    with setting.arena("memory") as arena:
        for name in arena.present:
            heavy = CONTESTANTS[name].child_mb > 30
            number = setting.scale.heavy_held if heavy else setting.scale.held
            number = min(number, CONTESTANTS[name].most_at_once)
            _measure_memory(arena, name, number, found)
            if name == WARM and setting.scale.most_held > number and name in arena.present:
                _measure_memory(arena, name, setting.scale.most_held, found)
    return {"memory": found}


def _measure_memory(arena: Arena, name: str, number: int, found: dict[str, Json]) -> None:
    contestant = CONTESTANTS[name]
    hold_ms = round(2_000 + 1_000 * number * contestant.child_s)
    tasks = [new_task(hold_ms=hold_ms) for _ in range(number)]
    before = arena.processes(name)
    driver_before = unique_bytes(arena.pid(name))
    try:
        arena.begin(name, tasks, concurrent=number)
        together = arena.wait_for_requests(tasks, hold_ms / 1000)
        children = arena.processes(name) - before
        taken = [unique_bytes(pid) for pid in children]
        driver = unique_bytes(arena.pid(name)) - driver_before
        arena.finish(name, tasks)
    except Broken as problem:
        arena.drop(name, str(problem))
        return
    found[name] = {
        "tasks": number,
        "together": together,
        "child_mb": round(sum(taken) / number / MEGABYTE, 2) if contestant.isolated else None,
        "processes": len(taken),
        "largest_mb": round(max(taken) / MEGABYTE, 2) if contestant.isolated and taken else None,
        "parent_mb": round(driver / number / MEGABYTE, 3),
    }


def history(setting: Setting) -> Json:
    """What a turn costs as the conversation grows, timed by the model server, wire included."""
    found: dict[str, Json] = {}
    for name in setting.commands:
        if name in (PI, RUN, COLD_ANTHROPIC) or name in setting.problems:
            continue
        # Half as many for those without a process: their clients would take minutes.
        turns = setting.scale.history // (1 if CONTESTANTS[name].isolated else 2)
        with setting.arena(f"history of {name}", [name]) as arena:
            if done := arena.run(name, [new_task(turns=turns)], turns=turns):
                found[name] = _cost_of_turns(done[0].requests)
    rounds = [
        _cost_of_turns(json_of("benchmarks.loop", str(setting.scale.history), limit_seconds=300))
        for _ in range(LOOP_ROUNDS)
    ]
    loop = {point: min(costs[point] for costs in rounds) for point in rounds[0]}
    return {"history": found, "loop": loop}


def _cost_of_turns(times: Sequence[float]) -> dict[str, float]:
    """Return the milliseconds of a turn at some lengths of the history, each a median of 11."""
    costs = [(after - before) * 1000 for before, after in pairwise(times)]
    points = [point for point in HISTORIES if point <= len(times)]
    return {str(point): round(statistics.median(window(costs, point, 5)), 3) for point in points}


def tool(setting: Setting) -> Json:
    """How much text a parent sends to its model in each turn so that it can delegate."""
    found: dict[str, Json] = {}
    without_tool = (PI, PI_CHILD, IN_PI, RUN, COLD, COLD_ANTHROPIC, OPEN, SDK, ANTHROPIC)
    names = [name for name in setting.commands if name not in without_tool]
    with setting.arena("tool", names) as arena:
        for name in arena.present:
            task = new_task()
            try:
                said = arena.offer(name, task)
            except Broken as problem:
                arena.drop(name, str(problem))
                continue
            definition = said.get("definition") or _definition(arena, task, said["tool"])
            found[name] = {
                "tool": said["tool"],
                "bytes": len(json.dumps(definition, separators=(",", ":")).encode()),
                "prompt_bytes": len(said.get("prompt", "").encode()),
            }
    return {"tool": found}


def _definition(arena: Arena, task: Task, name: str) -> Json:
    [report] = arena.reports([task])
    return next(each for each in report["tools"] if each["function"]["name"] == name)


def startup(setting: Setting) -> Json:
    """How long commands and imports take."""
    commands = _startup_commands(setting.commands)
    found: dict[str, list[float]] = {}
    for turn in range(setting.scale.startup_rounds + 1):
        for name, command in commands.items():
            seconds = _seconds_of(command, setting.folder)
            if turn:  # the first run may have to compile
                _add(found, name, seconds)
        key = first_key_seconds(outrider_python())
        if turn:
            _add(found, FIRST_KEY, key)
    return {"startup": found}


def _startup_commands(present: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    python = outrider_python()
    commands = {
        "python -c pass": [python, "-c", "pass"],
        "import outrider": [python, "-c", "import outrider"],
        "import outrider.delegation.api": [python, "-c", "import outrider.delegation.api"],
        PROMPT_TOOLKIT: [python, "-c", "import prompt_toolkit"],
        "outrider --version": [python, "-m", "outrider", "--version"],
        "outrider run --help": [python, "-m", "outrider", "run", "--help"],
    }
    imports = {
        "pydantic-ai-harness": "pydantic_ai_harness.subagents, pydantic_ai.models.openai",
        "deepagents": "deepagents, langchain_openai",
        "openai-agents": "agents",
        "smolagents": "smolagents",
    }
    for name, modules in imports.items():
        if name in present:
            commands[f"import {modules}"] = [present[name][0], "-c", f"import {modules}"]
    if PI in present:
        node = str(environments.NODE)
        commands["node -e 0"] = [node, "-e", "0"]
        commands["pi --version"] = [node, str(environments.PI), "--version"]
    return commands


def throughput(setting: Setting) -> Json:
    """Collecting, sanitising and validating beside a plain copy, and the memory of a flood."""
    scale = setting.scale
    module = "benchmarks.collecting"
    return {
        "throughput": json_of(module, "speed", str(scale.megabytes), limit_seconds=300),
        "growth": json_of(module, "growth", str(scale.growth_megabytes), limit_seconds=300),
        "flood": json_of(module, "memory", str(scale.flood_megabytes), limit_seconds=600),
    }


def queue(setting: Setting) -> Json:
    """Whether the queue keeps its width and is first come, first served."""
    width = 4
    with setting.arena("queue", [WARM]) as arena:
        tasks = [new_task(hold_ms=50) for _ in range(setting.scale.queue)]
        done = arena.run(WARM, tasks, concurrent=width)
    if not done:
        return {}
    arrivals = sorted(range(len(done)), key=lambda index: done[index].requests[0])
    displaced = max(abs(place - index) for place, index in enumerate(arrivals))
    moments = sorted(
        moment
        for each in done
        for moment in ((each.requests[0], 1), (each.start + each.total_s, -1))
    )
    at_once, most = 0, 0
    for _, step in moments:
        at_once += step
        most = max(most, at_once)
    found = {"tasks": len(done), "width": width, "most_at_once": most, "displaced": displaced}
    return {"queue": found}


def killed(setting: Setting) -> Json:
    """How delegations end while the warm process is killed again and again."""
    tasks = [new_task(hold_ms=100) for _ in range(setting.scale.killed)]
    chance = random.Random(1)
    kills = 0
    with setting.arena("killed", [WARM]) as arena:
        if WARM not in arena.present:
            return {}
        arena.begin(WARM, tasks, concurrent=8)
        while not arena.has_finished(WARM, chance.uniform(*setting.scale.kill_every_s)):
            for pid in children_named(arena.pid(WARM), "outrider-warm"):
                os.kill(pid, signal.SIGKILL)
                kills += 1
        ends = list(zip(tasks, arena.outcomes(WARM, tasks), strict=True))
    for result, _ in (end for _, end in ends if end[0]["error"]):
        print(f"killed: {result['error']}", file=sys.stderr)
    answered = [t.is_answered_by(r["answer"]) for t, (r, _) in ends if not r["error"]]
    found = {
        "tasks": len(tasks),
        "kills": kills,
        "answered": sum(answered),
        "wrong": len(answered) - sum(answered),
        "repeated": sum(len(times) > 1 for _, (_, times) in ends),
    }
    return {"killed": found}


def mcp(setting: Setting) -> Json:
    """How soon the MCP server gives its first answers, and what it takes when it is idle."""
    python = outrider_python()
    found: dict[str, list[float]] = {}
    for turn in range(setting.scale.startup_rounds + 1):
        bare = _seconds_of([python, "-c", "pass"])
        first = first_answers_seconds(python)
        if turn:  # the first run may have to compile
            _add(found, "bare", bare)
            _add(found, "first", first)
    return {"mcp": {**found, **idle_memory(python, 20 if setting.scale.quick else 200)}}


@dataclass(frozen=True)
class Part:
    """One part of the benchmark, and the contestants it needs."""

    measure: Callable[[Setting], Json]
    contestants: Sequence[str] = tuple(CONTESTANTS)


PARTS = {
    "latency": Part(latency),
    "walls": Part(walls, (WARM,)),
    "at-once": Part(at_once),
    "parent": Part(parent, (WARM,)),
    "cpu": Part(cpu, BURSTING),
    "memory": Part(memory),
    "history": Part(history),
    "tool": Part(tool),
    "startup": Part(startup),
    "throughput": Part(throughput, ()),
    "queue": Part(queue, (WARM,)),
    "killed": Part(killed, (WARM,)),
    "mcp": Part(mcp, ()),
}
