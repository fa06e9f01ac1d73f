"""A task in the real pi ends as it does in a child of our own, and leaves nothing behind."""

import asyncio
import os
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from outrider.delegation.perform import Caller, perform
from outrider.delegation.request import Request
from outrider.protocol.results import SingleResult, ToolResult
from outrider.testing import (
    ScriptedModel,
    Step,
    answer,
    cut,
    empty,
    endless,
    fail,
    hang_up,
    silence,
    silence_after,
    tool_call,
    tool_calls,
)
from pi_door import PACKAGES, Pi, installed, processes_of, write_agent, write_models

pytestmark = pytest.mark.timeout(400)
ONCE = {"subagents.retry.maxAttempts": 1}
KEY = "sk-proj-Zx81kQpR0aB7dEfGh2JkLmN4oPqRsTuV"


@dataclass(frozen=True)
class Case:
    """One script, and what is done while it runs."""

    steps: tuple[Step, ...]
    config: dict[str, object] = field(default_factory=dict)
    task: str = "Find the thing."
    while_it_runs: str = ""
    """`kill` or `cancel`, as soon as there is some text."""


TABLE = {
    "an answer": Case((answer("It is here."),)),
    "a tool call and an answer": Case(
        (tool_call("read", {"path": "thing.txt"}, text="Looking."), answer("It is in thing.txt."))
    ),
    "two calls, one of them failing": Case(
        (
            tool_calls([("read", {"path": "thing.txt"}), ("read", {"path": "none.txt"})]),
            answer("One."),
        )
    ),
    "a task of 100 KB": Case((answer("Long."),), task="Find it. " + "x" * 100_000 + " END"),
    "an empty answer": Case((empty(),), ONCE),
    "an answer cut at the token limit": Case((answer("Half", finish_reason="length"),), ONCE),
    "a refused key": Case((fail(401),)),
    "a rate limit that passes": Case((fail(429, retry_after=0), answer("At last."))),
    "a server that always fails": Case((fail(500), fail(500), answer("Too late."))),
    "a stream that is cut": Case((cut("Up to he"),), ONCE),
    "a connection that is closed": Case((hang_up(),), ONCE),
    "silence": Case((silence(),), {"subagents.idleTimeoutMs": 2_500}),
    "the hard deadline": Case(
        (answer("x" * 9_000, chunk_size=1, delay=0.02),), {"subagents.timeoutMs": 4_000}
    ),
    "a flood": Case((endless("y" * 1_000),), {"limits.stdoutBytes": 100_000}),
    "too many turns": Case(
        (tool_call("ls", {"path": "."}), tool_call("ls", {"path": "."}), answer("Done.")),
        {"subagents.budget.maxTurns": 2},
    ),
    "too many tool calls": Case(
        (tool_calls([("ls", {"path": "."}), ("ls", {"path": "."})]), answer("Done.")),
        {"subagents.budget.maxToolCalls": 1},
    ),
    "a kill": Case((silence_after("So far. " * 500),), while_it_runs="kill"),
    "a cancellation": Case((silence_after("So far. " * 500),), while_it_runs="cancel"),
}
RECORD = {"session.jsonl", "output.md", "result.json", "pi-session.jsonl"}
OPEN_ENDED = ("the hard deadline", "a flood")
"""Of these it can't be said how much came before the end."""


@pytest.fixture(params=PACKAGES)
def pi(request: pytest.FixtureRequest, world: Path) -> Pi:
    """Each version of pi, on PATH, with an agent `finder` that runs in it."""
    return use(installed(request.param))


@pytest.fixture
def newest(world: Path) -> Pi:
    return use(installed("0.87.1"))


def use(pi: Pi) -> Pi:
    write_agent(Path(os.environ["HOME"]), "finder")
    os.environ["PATH"] = pi.path
    return pi


async def run_case(case: Case, agent: str, model: str, env: dict[str, str]) -> ToolResult:
    cancelled = asyncio.Event()
    done = False

    def updated(partial: ToolResult) -> None:
        nonlocal done
        if partial.text and not done and case.while_it_runs:
            done = True
            if case.while_it_runs == "cancel":
                cancelled.set()
            else:
                kill_child(partial.details.run_id or "")

    # Found by its environment, which a fork doesn't show.
    cold = {"warm.keepMinutes": 0} if case.while_it_runs == "kill" else {}
    flags = {**case.config, **cold}
    caller = Caller({**os.environ, **env}, flags=flags, on_update=updated, cancelled=cancelled)
    result = await perform(Request(agent, case.task, model=model), caller)
    assert not processes_of(result.details.run_id or "")
    return result


def kill_child(run_id: str) -> None:
    guardian, child = processes_of(run_id)[:2]
    assert child.ppid() == guardian.pid
    child.kill()


def told(name: str, result: ToolResult) -> dict[str, Any]:
    """What has to be the same, whatever ran the task."""
    run, error = single(result), result.details.error
    streamed = name in OPEN_ENDED
    return {
        "outcome": run.outcome,
        "exit code": run.exit_code,
        "code": error and error.code,
        "timeout": run.timeout_reason,
        "attempts": run.attempts,
        "turns": run.usage.turns,
        "tokens": 0 if streamed else run.usage.tokens,
        "output": bool(run.output) if streamed else run.output,
        "items": [item["type"] for item in run.display_items],
        "calls": (run.receipt["toolCalls"], run.receipt["toolErrors"]),
        "read": run.receipt["filesRead"],
    }


def single(result: ToolResult) -> SingleResult:
    assert len(result.details.results) == 1, result.text
    return result.details.results[0]


async def all_cases(agent: str, home: Path) -> dict[str, dict[str, Any]]:
    """Run the whole table, a few at a time, and return what was told of each case."""
    room, found = asyncio.Semaphore(3), {}
    with ExitStack() as opened:
        scripts = {name: ScriptedModel(list(case.steps)) for name, case in TABLE.items()}
        servers = {name: opened.enter_context(script) for name, script in scripts.items()}
        names = {name: f"m{number}" for number, name in enumerate(TABLE)}
        write_models(home, {names[name]: server.base_url for name, server in servers.items()})

        async def one(name: str) -> None:
            model = f"{names[name]}:scripted" if agent == "finder" else servers[name].model
            async with room:
                result = await run_case(TABLE[name], agent, model, servers[name].environment)
            found[name] = told(name, result)
            kept = Path(single(result).session_file or "").parent.iterdir()
            assert {one.name for one in kept} <= RECORD

        await asyncio.gather(*map(one, TABLE))
        assert "x END" in str(servers["a task of 100 KB"].requests[0].messages)
    return found


async def test_a_run_in_pi_ends_as_one_of_our_own_does(world: Path) -> None:
    home = Path(os.environ["HOME"])
    (world / "thing.txt").write_text("the thing is here\n")
    write_agent(home, "finder")
    write_agent(home, "own", runtime="native")
    own = await all_cases("own", home)
    for pi in map(installed, PACKAGES):
        os.environ["PATH"] = pi.path
        assert await all_cases("finder", home) == own, pi.version
