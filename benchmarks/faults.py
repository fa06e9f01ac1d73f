"""`python3 -m benchmarks.faults`: delegations under random faults: no lie, nothing lost or left.

A scripted model server answers properly or goes wrong in one of many ways, and children are killed,
stopped and cancelled at random moments. Each delegation's result is then compared with what was
really served, its record with its result, and its processes and files have to be gone. With
`--deaths` the process that children are forked from is killed so often, too.

python3 -m benchmarks.faults [--count N] [--seed N] [--deaths N] [--only FAULT …]
python3 -m benchmarks.faults --count 5000 --deaths 50 --only none
"""

import argparse
import asyncio
import gc
import json
import os
import random
import re
import signal
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from outrider.delegation.perform import Caller, perform
from outrider.delegation.request import Request
from outrider.processes.reaping import is_ending, marked_processes
from outrider.protocol.brief import RUN_VARIABLE
from outrider.protocol.outcomes import Outcome
from outrider.protocol.results import SingleResult, ToolResult
from outrider.records.runs import find_run
from outrider.runtimes.native.fork_client import hosted_fork_server
from outrider.testing import ModelRequest, ScriptedModel, steps, wire

AT_ONCE, BETWEEN_LOOKS = 8, 200
PATIENCE_SECONDS = 60
IDLE = {"subagents.idleTimeoutMs": 1_500}
SCHEMA = {
    "type": "object",
    "properties": {"place": {"type": "string"}, "line": {"type": "integer"}},
    "required": ["place", "line"],
    "additionalProperties": False,
}
WORDS = (
    "the",
    "idle",
    "limit",
    "is",
    "kept",
    "in",
    "über",
    "解析",
    "module,",
    "line",
    "12;",
    "notes",
)
KEPT_VARIABLES = ("PATH", "LANG", "LC_ALL", "TZ")
STREAM = "text/event-stream"
DONE = {Outcome.COMPLETED}
NOT_DONE = {Outcome.FAILED}

Chance = random.Random
Served = steps.Step | Callable[[ModelRequest], steps.Step]
Attack = Callable[[Path, asyncio.Event], Awaitable[None]]


@dataclass
class Plan:
    """One delegation: what its model does, what else happens, and how it may end."""

    outcomes: set[Outcome]
    """The ways it may end; a completed one must have the text or the value that was served."""
    steps: Sequence[Served]
    """One for each request; the last is repeated."""
    text: str = ""
    value: Any = None
    config: dict[str, Any] = field(default_factory=dict)
    attack: Attack | None = None
    asked_once: bool = False
    """Whether a second request means that the task was done twice."""
    requests: int = 0

    def step(self, request: ModelRequest) -> steps.Step:
        """Return what the model does next."""
        served = self.steps[min(self.requests, len(self.steps) - 1)]
        self.requests += 1
        return served(request) if callable(served) else served


def said(chance: Chance) -> str:
    """Return a text of some length."""
    words = chance.choices(WORDS, k=chance.choice((1, 20, 300)))
    return "".join(word + chance.choice("      \n") for word in words) + "."


# What a model does.


def whole(chance: Chance, text: str) -> Plan:
    text = f"{chance.getrandbits(64):x} {text}"  # no other delegation's
    said_at_once = [steps.answer(text, chunk_size=chance.randint(1, 400))]
    return Plan(DONE, said_at_once, text, asked_once=True)


def after_tools(chance: Chance, text: str) -> Plan:
    calls = [steps.tool_call("ls", {}), steps.tool_call("read", {"path": "notes.txt"})]
    return Plan(DONE, [*calls, steps.answer(text)], text)


def after_failed_tools(chance: Chance, text: str) -> Plan:
    wrong = [
        steps.tool_call("read", {"path": "missing.txt"}),
        steps.tool_call("read", "{not json"),
        steps.tool_call("no_such_tool", {}),
        steps.tool_call("grep", {"pattern": "["}),
    ]
    return Plan(DONE, [*chance.sample(wrong, 2), steps.answer(text)], text)


def after_an_error(chance: Chance, text: str) -> Plan:
    passing = [
        steps.fail(429, retry_after=0),
        steps.fail(500),
        steps.fail(503),
        steps.hang_up(),
        steps.cut(text[:9]),
    ]
    return Plan(DONE, [chance.choice(passing), steps.answer(text)], text)


def error(chance: Chance, text: str) -> Plan:
    statuses = (steps.fail(429, retry_after=0), *map(steps.fail, (400, 401, 403, 404, 500, 529)))
    return Plan(NOT_DONE, [chance.choice((*statuses, steps.context_overflow()))])


def cut_anywhere(chance: Chance, text: str, then: Sequence[Served] = ()) -> Plan:
    share, reply = chance.random(), steps.answer(text, chunk_size=chance.randint(1, 50))

    def serve(request: ModelRequest) -> steps.Step:
        parts = (wire.opening(reply, request), *wire.pieces(reply, request))
        stream = (b"".join(parts) + wire.closing(reply, request)).decode()
        stream = stream[: int(share * len(stream))]
        if "\n\n" in stream.partition('"finish_reason":"stop"')[2]:  # all but the formalities
            plan.outcomes = {*plan.outcomes, Outcome.COMPLETED}
        return steps.HttpResponse(200, stream, STREAM)

    plan = Plan(NOT_DONE, [serve, *then], text)
    return plan


def cut_then_whole(chance: Chance, text: str) -> Plan:
    plan = cut_anywhere(chance, text, [steps.answer(text)])
    plan.outcomes = DONE | NOT_DONE  # a stream cut before it said anything isn't asked for again
    return plan


def lost_connection(chance: Chance, text: str) -> Plan:
    part = text[: chance.randrange(len(text))]
    return Plan(
        NOT_DONE, [chance.choice((steps.cut(part), steps.cut(part, reset=True), steps.hang_up()))]
    )


def unreadable(chance: Chance, text: str) -> Plan:
    noise = "".join(chance.choices('data: {}[]"\n\\x:,', k=200))
    bodies = (
        steps.garbage(),
        steps.garbage("", content_type=STREAM),
        steps.garbage(noise, content_type=STREAM),
    )
    return Plan(
        NOT_DONE, [chance.choice((*bodies, steps.malformed(text), steps.stream_error(text=text)))]
    )


def stalled(chance: Chance, text: str) -> Plan:
    return Plan(
        {Outcome.TIMED_OUT},
        [chance.choice((steps.silence(), steps.silence_after(text)))],
        config=IDLE,
    )


def too_slow(chance: Chance, text: str) -> Plan:
    limit = {"subagents.timeoutMs": chance.randint(200, 1_500)}
    return Plan({Outcome.TIMED_OUT}, [steps.drip("slow " * 200, 0.05, chunk_size=1)], config=limit)


def odd_usage(chance: Chance, text: str) -> Plan:
    odd: list[Any] = [0.5, -3, 10**30, "many", True, [], 1e308]
    return Plan(DONE, [steps.answer(text, usage=steps.Usage(*[chance.choice(odd)] * 2))], text)


def odd_finish(chance: Chance, text: str) -> Plan:
    odd: list[Any] = ["error", "abort", "insufficient_system_resource", "STOP!", 7, "unknown"]
    return Plan(NOT_DONE, [steps.answer(text, finish_reason=chance.choice(odd))])


def bad_finish(chance: Chance, text: str) -> Plan:
    reason = chance.choice(("length", "content_filter", None))
    return Plan(NOT_DONE, [steps.answer(text, finish_reason=reason)])


def nothing_said(chance: Chance, text: str) -> Plan:
    empties = ("", "  \n", "\u200b\u200b", "<think>hm</think>", "<think>hm</think>\n", "<think>hm")
    said = chance.choice(empties)
    return Plan(NOT_DONE, [steps.answer(said) if said else steps.empty()])


def refused(chance: Chance, text: str) -> Plan:
    return Plan(NOT_DONE, [steps.refusal(text)])


def reported(chance: Chance, text: str) -> Plan:
    value = {"place": text, "line": chance.randint(1, 10**6)}
    wrong = [steps.tool_call("report_back", {"place": text})] * chance.randint(0, 2)
    return Plan(DONE, [*wrong, steps.tool_call("report_back", value)], value=value)


def wrongly_reported(chance: Chance, text: str) -> Plan:
    wrong: list[Any] = [{"place": text}, {"place": 1, "line": 2}, {"line": "x"}, "[]", "{"]
    calls = [steps.tool_call("report_back", chance.choice(wrong)), steps.answer(text)]
    return Plan({Outcome.SCHEMA_FAILED}, [chance.choice(calls)], value=SCHEMA)


def flood(chance: Chance, text: str) -> Plan:
    limit = {"limits.stdoutBytes": 200_000}
    return Plan(NOT_DONE, [steps.endless("much " * 200, max_bytes=20_000_000)], config=limit)


def over_budget(chance: Chance, text: str) -> Plan:
    limit = chance.choice(({"maxTurns": 2}, {"maxToolCalls": 1}, {"maxTokens": 20}))
    config = {f"subagents.budget.{name}": value for name, value in limit.items()}
    return Plan(
        {Outcome.OVER_BUDGET}, [steps.tool_call("ls", {}, usage=steps.Usage(8, 8))], config=config
    )


# What happens to a child.


def signalled(number: int, chance: Chance, text: str) -> Plan:
    served = chance.choice(
        (steps.drip(text, 0.3 / len(text), chunk_size=1), steps.silence_after(text))
    )
    wait = chance.uniform(0, 0.3)

    async def attack(folder: Path, _: asyncio.Event) -> None:
        while not (found := processes_in(folder)):
            await asyncio.sleep(0.005)
        await asyncio.sleep(wait)
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    ends = {Outcome.TIMED_OUT} if number == signal.SIGSTOP else {Outcome.FAILED}
    if isinstance(served, steps.Reply) and served.delay:
        ends |= DONE  # it may have been faster
    config = {"subagents.idleTimeoutMs": 3_000} if number == signal.SIGSTOP else {}
    return Plan(ends, [served], text, config=config, attack=attack)


def cancelled(chance: Chance, text: str) -> Plan:
    wait = chance.uniform(0, 0.3)

    async def attack(_: Path, cancel: asyncio.Event) -> None:
        await asyncio.sleep(wait)
        cancel.set()

    served = chance.choice(
        (
            steps.answer(text),
            steps.drip(text, 0.002),
            steps.silence_after(text),
            steps.tool_call("ls", {}),  # which ends by itself, where the cancelling comes late
        )
    )
    return Plan({Outcome.CANCELLED, Outcome.OVER_BUDGET, *DONE}, [served], text, attack=attack)


FAULTS: dict[str, Callable[[Chance, str], Plan]] = {
    "none": whole,
    "none, with tools": after_tools,
    "tools that fail": after_failed_tools,
    "an error, then the answer": after_an_error,
    "an error each time": error,
    "cut at any byte": cut_anywhere,
    "cut, then the answer": cut_then_whole,
    "a lost connection": lost_connection,
    "an unreadable stream": unreadable,
    "a stalled stream": stalled,
    "slower than its deadline": too_slow,
    "odd usage": odd_usage,
    "an unknown finish reason": odd_finish,
    "a bad finish reason": bad_finish,
    "an empty answer": nothing_said,
    "a refusal": refused,
    "a report": reported,
    "wrong reports": wrongly_reported,
    "too much output": flood,
    "over its budget": over_budget,
    "child killed": partial(signalled, signal.SIGKILL),
    "child terminated": partial(signalled, signal.SIGTERM),
    "child stopped": partial(signalled, signal.SIGSTOP),
    "cancelled": cancelled,
}


def processes_in(folder: Path) -> list[int]:
    """Return the processes that work in a folder; each delegation has one of its own."""
    found: list[int] = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            if os.readlink(f"/proc/{name}/cwd") == str(folder):
                found.append(int(name))
    return found


# What must hold.


def lies(plan: Plan, run: SingleResult) -> list[str]:
    """Return what a result says that isn't so."""
    found: list[str] = []
    completed = run.outcome is Outcome.COMPLETED
    if run.outcome not in plan.outcomes:
        wanted = " or ".join(plan.outcomes)
        found.append(f"ended {run.outcome} ({str(run.error)[:200]}) instead of {wanted}")
    elif completed and plan.value is None and run.output != plan.text:
        found.append(f"says {run.output[:80]!r}, but {plan.text[:80]!r} was served")
    if completed and run.structured_output != plan.value:
        found.append(f"reports {run.structured_output!r}, but {plan.value!r} was served")
    if plan.asked_once and plan.requests > 1:
        found.append(f"was done {plan.requests} times")
    if completed != (run.exit_code == 0):
        found.append(f"the exit code of {run.outcome} is {run.exit_code}")
    return found


def losses(result: ToolResult, runs: Path) -> list[str]:
    """Return what the record of a run lacks, or says differently from its result."""
    run = result.details.results[0]
    record = find_run(runs, str(result.details.run_id))
    found = [record.problem] if record.problem else []
    if record.state != run.outcome:
        found.append(f"is recorded as {record.state}, not {run.outcome}")
    if record.result != json.loads(json.dumps(result.to_dict())):
        found.append("result.json isn't the result")
    if (record.folder / "output.md").read_text() != run.output:
        found.append("output.md isn't the output")
    lines = (record.folder / "session.jsonl").read_text().splitlines()
    events = [json.loads(line) for line in lines]
    if events[0]["type"] != "run" or events[-1]["type"] != "end":
        found.append("the transcript doesn't begin with run and end with end")
    if events[-1].get("outcome") != run.outcome:
        found.append(f"the transcript ends {events[-1].get('outcome')}")
    return found


def leftovers(folder: Path, run_id: str, runs: Path) -> list[str]:
    """Return what is left of a run that has ended."""
    marked = [pid for pid, its in marked_processes(RUN_VARIABLE) if its == run_id]
    # One whose memory the kernel takes down can do nothing any more.
    left = [pid for pid in {*processes_in(folder), *marked} if not is_ending(pid)]
    found = [f"process {pid} is left" for pid in left]
    names = {path.name for path in (runs / run_id).iterdir()}
    found += [f"{name} is left" for name in names - {"session.jsonl", "output.md", "result.json"}]
    return found + [f"{path} is left" for path in folder.iterdir() if path.name != "notes.txt"]


class Trial:
    """Delegates, and keeps what was found."""

    def __init__(self, home: Path, seed: int, deaths: Set[int]) -> None:
        """`deaths` are the numbers of the delegations during which the fork server is killed."""
        self.seed = seed
        self.killed = 0
        self._deaths = deaths
        self.home, self.runs, self.temporary = home, home / "state/runs", home / "tmp"
        self.outcomes: dict[str, Counter[str]] = defaultdict(Counter)
        self.problems: list[str] = []
        self._plans: dict[str, Plan] = {}

    def serve(self, request: ModelRequest) -> steps.Step:
        """Return what the plan of the delegation says that asks."""
        [name] = set(re.findall(r"delegation-\d+", json.dumps(request.messages)))
        return self._plans[name].step(request)

    async def delegate(self, number: int, fault: str, model: str) -> None:
        """Delegate once under a fault, and look at what comes of it."""
        chance = random.Random(f"{self.seed}-{number}")
        name, plan = f"delegation-{number}", FAULTS[fault](chance, said(chance))
        folder = self.home / "work" / name
        folder.mkdir(parents=True)
        (folder / "notes.txt").write_text("Notes.\n")
        self._plans[name] = plan
        cancel = asyncio.Event()
        schema = SCHEMA if plan.value is not None else None
        request = Request("explorer", f"This is {name}.", schema, model, folder)
        caller = Caller(os.environ, flags=plan.config, cancelled=cancel)
        attacks = [plan.attack(folder, cancel)] if plan.attack else []
        attacks += [self._kill_fork_server(chance)] if number in self._deaths else []
        attacking = [asyncio.ensure_future(attack) for attack in attacks]
        try:
            result = await perform(request, caller)
        finally:
            for attack in attacking:
                attack.cancel()
        self.judge(f"{name}, {fault}", plan, folder, result)
        run = result.details.results
        self.outcomes[fault][run[0].outcome if run else "refused"] += 1

    async def _kill_fork_server(self, chance: Chance) -> None:
        """Kill it at a random moment, ready or not, perhaps with requests that it never takes."""
        await asyncio.sleep(chance.uniform(0, 0.05))
        if (pid := hosted_fork_server("lean").pid) is not None:
            self.killed += 1
            try:
                if chance.random() < 0.5:
                    os.kill(pid, signal.SIGSTOP)
                    await asyncio.sleep(chance.uniform(0, 0.2))
            finally:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def judge(self, name: str, plan: Plan, folder: Path, result: ToolResult) -> None:
        """Keep what is wrong with a result."""
        if not result.details.results:
            self.problems.append(f"{name}: was refused: {result.text}")
            return
        run_id = str(result.details.run_id)
        found = lies(plan, result.details.results[0]) + losses(result, self.runs)
        found += leftovers(folder, run_id, self.runs)
        self.problems += [f"{name}: run {run_id} {problem}" for problem in found]

    async def run(self, faults: Sequence[str], model: str) -> None:
        """Delegate under each of the faults, and look now and then at what this process holds."""
        assert await hosted_fork_server("lean").ready()
        await self.delegate(0, "none", model)  # opens what stays open
        before, work = holdings(), list(enumerate(faults, 1))
        for first in range(0, len(work), BETWEEN_LOOKS):
            places = asyncio.Semaphore(AT_ONCE)

            async def delegate(number: int, fault: str, places: Any = places) -> None:
                async with places:
                    await self.delegate(number, fault, model)

            part = work[first : first + BETWEEN_LOOKS]
            await asyncio.gather(*(delegate(number, fault) for number, fault in part))
            assert await hosted_fork_server("lean").ready()  # it may just have been killed
            await self._look(before, f"after {first + len(part)}")

    async def _look(self, before: "Holdings", when: str) -> None:
        give_up = time.monotonic() + PATIENCE_SECONDS
        while (now := holdings()).exceeds(before) and time.monotonic() < give_up:
            await asyncio.sleep(0.05)
        if now.exceeds(before):
            self.problems.append(f"{when} delegations, the parent holds {now}, first {before}")
        left = [path.name for path in self.temporary.iterdir()]
        self.problems += [f"{when} delegations, {name} is left in TMPDIR" for name in left]


@dataclass(frozen=True)
class Holdings:
    """What a process holds."""

    descriptors: int
    threads: int

    def exceeds(self, other: "Holdings") -> bool:
        """Whether there is more of anything."""
        return self.descriptors > other.descriptors or self.threads > other.threads


def holdings() -> Holdings:
    """Return what this process holds."""
    gc.collect()
    threads = [one for one in threading.enumerate() if not one.name.startswith("asyncio_")]
    return Holdings(len(os.listdir("/proc/self/fd")), len(threads))


def chosen(chance: Chance, names: Sequence[str], count: int) -> list[str]:
    """Return so many faults at random, each about as often as the others."""
    faults = [
        name for _ in range(-(-count // len(names))) for name in chance.sample(names, len(names))
    ]
    return faults[:count]


def table(outcomes: dict[str, Counter[str]]) -> str:
    """Return how the delegations ended, by fault."""
    heads = [*Outcome, *({"refused"} & {end for ends in outcomes.values() for end in ends})]
    lines = ["".join(f"{head:>14}" for head in ("", *heads))]
    wide = max(map(len, outcomes))
    for fault in filter(outcomes.__contains__, FAULTS):
        lines.append("".join(f"{outcomes[fault][head] or '':>14}" for head in heads))
        lines[-1] = f"{fault:<{wide}}" + lines[-1]
    lines[0] = lines[0][14:].rjust(len(lines[-1]))
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Print how the delegations ended and what was wrong; return 1 if anything was."""
    parser = argparse.ArgumentParser(
        prog="python3 -m benchmarks.faults", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--count", type=int, default=2_000, help="delegations (2,000)")
    parser.add_argument("--seed", type=int, default=None, help="a number, to repeat a trial")
    parser.add_argument("--deaths", type=int, default=0, help="of the fork server (0)")
    parser.add_argument("--only", nargs="+", choices=list(FAULTS), metavar="FAULT")
    options = parser.parse_args(arguments)
    seed = random.randrange(10**6) if options.seed is None else options.seed
    print(f"{options.count} delegations, --seed {seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="outrider-faults-") as name:
        chance = random.Random(seed)
        faults = chosen(chance, options.only or list(FAULTS), options.count)
        deaths = chance.sample(range(1, options.count + 1), options.deaths)
        trial = Trial(Path(os.path.realpath(name)), seed, set(deaths))
        _enter(trial)
        with ScriptedModel(trial.serve) as server:
            os.environ.update(server.environment)
            asyncio.run(trial.run(faults, server.model))
        trial.problems += [f"the script: {fault}" for fault in server.faults]
        hosted_fork_server("lean").kill()
    print(table(trial.outcomes))
    if trial.killed:
        print(f"the fork server was killed {trial.killed} times")
    print("\n".join(trial.problems) or "no lie, nothing lost, nothing left")
    return 1 if trial.problems else 0


def _enter(trial: Trial) -> None:
    """Leave the user's own settings, keys and runs behind."""
    kept = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
    home = str(trial.home)
    os.environ.clear()
    os.environ.update(kept, HOME=home, OUTRIDER_HOME=str(trial.runs.parent))
    os.environ.update(TMPDIR=str(trial.temporary), XDG_RUNTIME_DIR=home)
    trial.temporary.mkdir()


if __name__ == "__main__":
    sys.exit(main())
