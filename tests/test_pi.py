"""A task in the real pi ends as it does in a child of our own, and leaves nothing behind."""

import asyncio
import json
import os
import stat
import sys
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from cli_door import Door
from conftest import wait_until
from outrider import subagent
from outrider.delegation.perform import Caller, perform
from outrider.delegation.request import Request
from outrider.masking import Masker
from outrider.protocol.results import SingleResult, ToolResult
from outrider.runtimes.pi.runtime import _keep_session
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
from pi_door import VERSIONS, Pi, installed_pi, processes_of, write_agent, write_models

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
    # Slow enough for 0.73, which would run out of memory itself: it repeats all with each piece.
    "a flood": Case((endless("y" * 1_000, delay=0.02),), {"limits.stdoutBytes": 50_000}),
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
NEWEST_ONLY = (
    "two calls, one of them failing",
    "an empty answer",
    "an answer cut at the token limit",
    "a connection that is closed",
    "too many turns",
    "too many tool calls",
)
"""What doesn't depend on the format of pi's events; each start of pi costs a second."""
RECORD = {"session.jsonl", "output.md", "result.json", "pi-session.jsonl"}
OPEN_ENDED = ("the hard deadline", "a flood", "a kill", "a cancellation")
"""Of these it can't be said how much came before the end."""


@pytest.fixture(params=VERSIONS)
def pi(request: pytest.FixtureRequest, world: Path) -> Pi:
    """Each version of pi, on PATH, with an agent `finder` that runs in it."""
    return use(installed_pi(request.param))


@pytest.fixture
def newest(world: Path) -> Pi:
    return use(installed_pi("0.87.1"))


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
        "turns": None if streamed else run.usage.turns,
        # An estimate counts what was seen of the conversation, of which pi shows less.
        "tokens": "estimated" if run.usage.estimated or streamed else run.usage.tokens,
        "output": "" if streamed else run.output,
        "items": [item["type"] for item in run.display_items],
        "calls": (run.receipt["toolCalls"], run.receipt["toolErrors"]),
        "read": run.receipt["filesRead"],
    }


def single(result: ToolResult) -> SingleResult:
    assert len(result.details.results) == 1, result.text
    return result.details.results[0]


async def all_cases(
    agent: str, home: Path, left_out: tuple[str, ...] = ()
) -> dict[str, dict[str, Any]]:
    """Run the table, a few at a time, and return what was told of each case."""
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

        await asyncio.gather(*(one(name) for name in TABLE if name not in left_out))
        assert "x END" in str(servers["a task of 100 KB"].requests[0].messages)
    return found


async def test_a_run_in_pi_ends_as_one_of_our_own_does(world: Path) -> None:
    home = Path(os.environ["HOME"])
    (world / "thing.txt").write_text("the thing is here\n")
    write_agent(home, "finder")
    write_agent(home, "own", runtime="native")
    own = await all_cases("own", home)
    for pi in map(installed_pi, VERSIONS):
        os.environ["PATH"] = pi.path
        left_out = () if pi.version == "0.87.1" else NEWEST_ONLY
        expected = {name: what for name, what in own.items() if name not in left_out}
        assert await all_cases("finder", home, left_out) == expected, pi.version


async def test_what_a_repository_has_for_pi_does_not_count(pi: Pi, world: Path) -> None:
    """Nor do other providers' keys, and a child is known as one."""
    agent = world / ".pi"
    (agent / "extensions").mkdir(parents=True)
    (agent / "extensions/evil.ts").write_text(
        f"import {{ writeFileSync }} from 'node:fs';\n"
        f"export default () => writeFileSync({str(world / 'ran')!r}, '');\n"
    )
    for name in ("SYSTEM.md", "APPEND_SYSTEM.md", "prompts/p.md", "skills/s/SKILL.md"):
        (agent / name).parent.mkdir(parents=True, exist_ok=True)
        (agent / name).write_text("---\nname: s\ndescription: EVIL\n---\nEVIL")
    (world / "AGENTS.md").write_text("EVIL")
    (world / "bin").mkdir()
    fake = world / "bin/pi"
    fake.write_text(f"#!/bin/sh\ntouch {world / 'ran'}\n")
    fake.chmod(0o755)
    os.environ.update(
        PATH=f"{world / 'bin'}:bin:{pi.path}", ANTHROPIC_API_KEY=KEY, PI_TEST_KEY="k1"
    )
    write_agent(Path(os.environ["HOME"]), "runner", "tools: bash, lsp", "model: mine/scripted")
    # Without its variables, it is still below a child.
    command = f"env; env -i {sys.executable} -m outrider run explorer Hi 2>&1; echo code=$?"
    seen = tool_call("bash", {"command": command})
    with ScriptedModel([seen, answer("Done.")]) as server:
        write_models(Path(os.environ["HOME"]), {"mine": server.base_url})
        result = await subagent("runner", "Show it.", config={"subagents.allowWrite": True})
    run = single(result)
    assert result.completed, result.text
    assert not (world / "ran").exists()
    assert "EVIL" not in json.dumps([request.body for request in server.requests])
    assert [tool["function"]["name"] for tool in server.requests[0].body["tools"]] == ["bash"]
    assert [(one.tool, one.reason) for one in run.withheld] == [("lsp", "pi has no such tool")]
    env = str(server.requests[1].messages[-1]["content"])
    assert "PI_SUBAGENT_CHILD=1" in env and "PI_TEST_KEY=k1" in env
    assert KEY not in env
    assert "code=2" in env and "depth" in env
    assert [ran["exitCode"] for ran in run.receipt["commands"]] == [0]
    assert any("pi" in warning and "secrets" in warning for warning in run.warnings)


async def test_a_built_in_agent_can_be_run_by_pi_without_any_tool(newest: Pi, world: Path) -> None:
    write_agent(Path(os.environ["HOME"]), "explorer", "tools: []")
    with ScriptedModel([answer("Nothing to look with.")]) as server:
        write_models(Path(os.environ["HOME"]), {"mine": server.base_url})
        result = await subagent("explorer", "Look.", model="mine:scripted")
    assert result.completed, result.text
    assert not server.requests[0].body.get("tools")
    [warning] = [one for one in single(result).warnings if "pi" in one]
    assert "what pi reports" in warning and "without hashes" in warning


def test_a_session_that_cannot_be_masked_is_not_kept(tmp_path: Path) -> None:
    class Broken(Masker):
        def value(self, value: Any) -> tuple[Any, tuple[str, ...]]:
            raise MemoryError

    kept = tmp_path / "kept.jsonl"
    with open(tmp_path / "session", "w+b") as session:
        session.write(b'{"key": "value"}\n')
        session.flush()
        _keep_session(session.fileno(), kept, Masker())
        assert kept.exists()
        _keep_session(session.fileno(), kept, Broken())
        assert not kept.exists()


async def test_its_files_have_no_name_and_its_session_stays_masked(newest: Pi, world: Path) -> None:
    (world / "key.txt").write_text(f"OPENAI_API_KEY={KEY}\n")
    found: dict[str, Any] = {}

    def updated(partial: ToolResult) -> None:
        if found or not partial.details.streaming or not partial.details.streaming.turn_count:
            return
        child = processes_of(partial.details.run_id or "")[1]
        for link in Path(f"/proc/{child.pid}/fd").iterdir():
            if "/spill/" in os.readlink(link):
                found[os.readlink(link)] = os.stat(link)

    steps = [tool_call("read", {"path": "key.txt"}), answer("Seen. " * 400, delay=0.02)]
    with ScriptedModel(steps) as server:
        write_models(Path(os.environ["HOME"]), {"mine": server.base_url})
        caller = Caller(dict(os.environ), on_update=updated)
        result = await perform(Request("finder", "x" * 9_000, model="mine:scripted"), caller)
    assert result.completed
    assert len(found) == 3  # the prompt, the task, the session
    for path, file in found.items():
        assert path.endswith(" (deleted)") and file.st_nlink == 0
        assert stat.S_IMODE(file.st_mode) == 0o600
    folder = Path(single(result).session_file or "").parent
    session = folder / "pi-session.jsonl"
    assert stat.S_IMODE(session.stat().st_mode) == 0o600
    assert "[masked:" in session.read_text()
    assert all(KEY not in path.read_text() for path in folder.iterdir())


def test_a_parent_killed_with_sigkill_takes_pi_along_and_leaves_no_file(
    newest: Pi, tmp_path: Path
) -> None:
    with closing(Door(tmp_path / "other")) as door, ScriptedModel([silence()]) as server:
        write_agent(door.home, "finder", "model: mine/scripted")
        write_models(door.home, {"mine": server.base_url})
        parent = door.start("run", "finder", "x" * 9_000, env={"PATH": newest.path})
        wait_until(lambda: len(server.requests) == 1, "pi's request")
        parent.kill()
        door.assert_nothing_left()
        kept = [path for path in door.runs.glob("*/**/*") if path.is_file()]
        assert {path.name for path in kept} <= {*RECORD, "result.reserved"}


SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


async def test_an_answer_has_to_fit_the_schema_at_the_second_attempt(
    newest: Pi, world: Path
) -> None:
    with ScriptedModel([answer("I think it is 2."), answer('```json\n{"n": 2}\n```')]) as server:
        write_models(Path(os.environ["HOME"]), {"mine": server.base_url})
        result = await subagent("finder", "How many?", model="mine:scripted", output_schema=SCHEMA)
    run = single(result)
    assert (run.outcome, run.structured_output) == ("completed", {"n": 2})
    assert run.usage.turns == len(server.requests) == 2
    assert '"required": ["n"]' in str(server.requests[0].messages[0]["content"])
    said = json.dumps(server.requests[1].messages)  # in the same session, with what was wrong
    assert "How many?" in said and "can't be delivered" in said


async def test_without_pi_the_result_says_how_to_install_it(world: Path) -> None:
    write_agent(Path(os.environ["HOME"]), "finder")
    os.environ["PATH"] = "/usr/bin:/bin"
    result = await subagent("finder", "Look.", model="mine:scripted")
    assert result.details.error is not None
    assert result.details.error.code == "SUBAGENT_FAILED"
    assert "npm install -g @earendil-works/pi-coding-agent@" in result.text


@pytest.mark.parametrize("runtime", ["pi", "docker"])
async def test_a_repositorys_agent_cannot_choose_its_runtime(world: Path, runtime: str) -> None:
    agents = world / ".outrider/agents"
    agents.mkdir(parents=True)
    (agents / "theirs.md").write_text(f"---\nname: theirs\nruntime: {runtime}\n---\nHi.")
    config = {"subagents.projectAgentPolicy": "allow", "subagents.trustedProjects": [str(world)]}
    result = await subagent("theirs", "Look.", model="embedded", config=config)
    assert result.details.error is not None and not result.details.results
    assert result.details.error.code == "SUBAGENT_DISABLED"
    assert "runtime" in result.text


async def test_pi_does_not_run_the_embedded_model(world: Path) -> None:
    write_agent(Path(os.environ["HOME"]), "finder")
    result = await subagent("finder", "Look.", model="embedded")
    assert result.details.error is not None and "embedded" in result.text
    assert result.details.error.code == "INVALID_INPUT"
