"""Every way for a run to end, with a real child: none of them is mistaken for another."""

import asyncio
import json
import os
import signal
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from conftest import COLD, assert_nothing_left, children_at_work, wait_until
from outrider.delegation.api import subagent
from outrider.delegation.perform import Caller, perform
from outrider.delegation.request import Request
from outrider.protocol.errors import ErrorCode
from outrider.protocol.outcomes import Outcome, TimeoutReason
from outrider.protocol.results import SingleResult, ToolResult
from outrider.testing import (
    ScriptedModel,
    Step,
    answer,
    context_overflow,
    cut,
    empty,
    endless,
    fail,
    garbage,
    hang_up,
    malformed,
    refusal,
    silence,
    silence_after,
    stream_error,
    tool_call,
    tool_calls,
)

FAST = {"subagents.retry.maxAttempts": 1}


async def delegated(
    *steps: Step, config: dict[str, object] | None = None, repeat: bool = False
) -> tuple[ToolResult, ScriptedModel]:
    with ScriptedModel(list(steps), repeat=repeat) as server:
        os.environ.update(server.environment)
        result = await subagent(
            "explorer", "Find the thing.", model=server.model, config=config or {}
        )
        return result, server


def single(result: ToolResult) -> SingleResult:
    assert len(result.details.results) == 1, result.text
    return result.details.results[0]


def transcript(result: ToolResult) -> list[dict]:
    session = single(result).session_file
    assert session is not None
    return [json.loads(line) for line in Path(session).read_text().splitlines()]


def assert_recorded(result: ToolResult) -> None:
    """The record tells the same story as the result, to its owner alone."""
    run = single(result)
    lines = transcript(result)
    assert lines[0]["type"] == "run"
    assert lines[-1]["type"] == "end"
    assert lines[-1]["outcome"] == run.outcome
    assert lines[-1]["exitCode"] == run.exit_code
    folder = Path(run.session_file or "").parent
    assert folder.stat().st_mode & 0o777 == 0o700
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in folder.iterdir())
    kept = json.loads((folder / "result.json").read_text())
    assert kept == json.loads(json.dumps(result.to_dict()))
    if run.output:
        assert Path(run.output_file or "").read_text() == run.output


@pytest.mark.usefixtures("start")
async def test_an_answer_completes(world: Path) -> None:
    (world / "thing.txt").write_text("the thing is here\n")
    result, server = await delegated(
        tool_call("grep", {"pattern": "thing"}, text="Looking."), answer("It is in thing.txt.")
    )
    run = single(result)
    assert run.outcome is Outcome.COMPLETED
    assert run.exit_code == 0
    assert run.error is None
    assert result.details.error is None
    assert run.output == result.text == "It is in thing.txt."
    assert run.usage.turns == 2
    assert (run.usage.input, run.usage.output) == (20, 10)
    assert run.attempts == 1
    assert run.model == server.model
    assert run.receipt["toolCalls"] == 1
    assert run.receipt["toolErrors"] == 0
    assert [item["type"] for item in run.display_items] == ["text", "toolCall", "text"]
    assert "thing.txt" in server.requests[1].messages[-1]["content"]
    assert_recorded(result)


@dataclass(frozen=True)
class Failing:
    """One way to fail, and what the caller must be told about it."""

    steps: tuple[Step, ...]
    words: str
    output: str = ""
    attempts: int = 1
    requests: int = 1


FAILURES = {
    "an empty answer": Failing((empty(),), "empty answer"),
    "an answer of spaces": Failing((answer(" \n "),), "empty answer", output=" \n "),
    "an answer cut at the token limit": Failing(
        (answer("Half of it", finish_reason="length"),), "token limit", output="Half of it"
    ),
    "a content filter": Failing(
        (answer("Some", finish_reason="content_filter"),), "content filter", output="Some"
    ),
    "a refusal": Failing((refusal("I won't."),), "refused"),
    "a window that overflows": Failing((context_overflow(),), "context window"),
    "a refused key": Failing((fail(401),), "OPENAI_API_KEY"),
    "a model that doesn't exist": Failing((fail(404),), "doesn't know this model"),
    "a stream that is cut": Failing((cut("Up to he"),), "cut", output="Up to he"),
    "a connection that is reset": Failing((cut("Up", reset=True),), "connection"),
    "malformed JSON": Failing(
        (malformed("Some text"),), "an unreadable response", output="Some text"
    ),
    "something that is no stream at all": Failing((garbage(),), "an unreadable response"),
    "a hang-up": Failing((hang_up(),), "connection"),
    "an error inside the stream": Failing(
        (stream_error("Too busy", "overloaded", text="So far"),), "overloaded", output="So far"
    ),
}


@pytest.mark.parametrize("name", FAILURES)
async def test_a_failure_is_never_a_success(world: Path, name: str) -> None:
    failing = FAILURES[name]
    result, server = await delegated(*failing.steps, config=FAST)
    run = single(result)
    assert run.outcome is Outcome.FAILED
    assert run.exit_code == 1
    assert result.details.error is not None
    assert result.details.error.code is ErrorCode.SUBAGENT_FAILED
    assert failing.words in (run.error or "")
    if failing.output:
        assert run.output == failing.output
    assert run.usage.turns == 1
    assert len(server.requests) == failing.requests
    for part in ("exit code 1", run.error or "", "Last event: task_finish", run.session_file or ""):
        assert part in result.text
    assert run.output.strip() in result.text
    assert_recorded(result)


async def test_a_rate_limit_is_waited_out(world: Path) -> None:
    result, _ = await delegated(
        fail(429, retry_after=1), answer("Here."), config={"subagents.retry.maxAttempts": 2}
    )
    run = single(result)
    assert run.outcome is Outcome.COMPLETED
    assert run.attempts == 2
    assert run.usage.turns == 1
    [retry] = [event for event in transcript(result) if event["type"] == "retry"]
    assert retry["delayMs"] >= 1_000
    assert_recorded(result)


async def test_an_attempt_that_was_cut_still_counts_its_tokens(world: Path) -> None:
    result, server = await delegated(cut("Lost words"), answer("Whole."))
    run = single(result)
    assert run.outcome is Outcome.COMPLETED
    assert run.output == "Whole."
    assert run.attempts == 2
    assert len(server.requests) == 2


async def test_a_server_that_always_fails_is_asked_as_often_as_allowed(world: Path) -> None:
    result, server = await delegated(fail(500), repeat=True)
    run = single(result)
    assert run.outcome is Outcome.FAILED
    assert run.exit_code == 1
    assert run.attempts == 2
    assert len(server.requests) == 2
    assert "HTTP 500" in (run.error or "")
    assert_recorded(result)


async def test_words_in_an_answer_never_cause_a_retry(world: Path) -> None:
    result, server = await delegated(
        answer("The 429 rate limit and the timeout: connection error.")
    )
    assert single(result).outcome is Outcome.COMPLETED
    assert len(server.requests) == 1


async def test_a_full_window_drops_old_results_and_goes_on(world: Path) -> None:
    (world / "big.txt").write_text("word " * 5_000)
    result, server = await delegated(
        tool_call("read", {"path": "big.txt"}), context_overflow(), answer("Small enough.")
    )
    run = single(result)
    assert run.outcome is Outcome.COMPLETED
    before, after = server.requests[1].messages[-1], server.requests[2].messages[-1]
    assert len(before["content"]) > 1_000
    assert "dropped" in after["content"]
    told = [event for event in transcript(result) if event["type"] == "tool_result_end"]
    assert "word word" in json.dumps(told)
    assert_recorded(result)


@pytest.mark.usefixtures("start")
async def test_the_hard_deadline_ends_a_child_that_is_busy(world: Path) -> None:
    for seconds in (5, 20, 60):  # until the child has said something in time
        config = {"subagents.timeoutMs": seconds * 1000}
        result, _ = await delegated(endless("busy ", delay=0.05), config=config)
        run = single(result)
        if run.output:
            break
    assert run.outcome is Outcome.TIMED_OUT
    assert run.timeout_reason is TimeoutReason.RUNTIME
    assert run.exit_code == 124
    assert result.details.error is not None
    assert result.details.error.code is ErrorCode.SUBAGENT_TIMEOUT
    assert run.output.startswith("busy busy")
    assert transcript(result)[-1]["partialOutput"] == run.output
    assert_recorded(result)


@pytest.mark.usefixtures("start")
async def test_silence_ends_at_the_idle_deadline(world: Path) -> None:
    result, _ = await delegated(
        silence_after("A beginning. "), config={"subagents.idleTimeoutMs": 10_000}
    )
    run = single(result)
    assert run.outcome is Outcome.TIMED_OUT
    assert run.timeout_reason is TimeoutReason.IDLE
    assert run.exit_code == 124
    assert run.output == "A beginning. "
    assert_recorded(result)


@pytest.mark.usefixtures("start")
async def test_endless_output_is_stopped_and_its_beginning_kept(world: Path) -> None:
    result, _ = await delegated(endless("spam " * 200), config={"limits.stdoutBytes": 3_000_000})
    run = single(result)
    assert run.outcome is Outcome.FAILED
    assert run.exit_code == 1
    assert result.details.error is not None
    assert result.details.error.code is ErrorCode.SUBAGENT_OUTPUT_TRUNCATED
    assert run.output.startswith("spam spam")
    whole = Path(run.output_file or "").read_text()
    assert whole.startswith(run.output)


@pytest.mark.usefixtures("start")
async def test_a_child_killed_from_outside_is_reported_as_killed(world: Path) -> None:
    with ScriptedModel([silence_after("So far. ")]) as server:
        os.environ.update(server.environment)
        running = asyncio.ensure_future(subagent("explorer", "Find it.", model=server.model))
        await asyncio.to_thread(server.wait_for_requests, 1)
        for process in _deepest(children_at_work()):
            process.kill()
        result = await running
    run = single(result)
    assert run.outcome is Outcome.FAILED
    assert run.exit_code == 128 + signal.SIGKILL
    assert result.details.error is not None
    assert result.details.error.code is ErrorCode.SUBAGENT_FAILED
    assert "SIGKILL" in (run.error or "")
    assert_recorded(result)


@pytest.mark.usefixtures("start")
async def test_a_guardian_killed_from_outside_takes_its_child_along(world: Path) -> None:
    with ScriptedModel([silence()]) as server:
        os.environ.update(server.environment)
        running = asyncio.ensure_future(subagent("explorer", "Find it.", model=server.model))
        await asyncio.to_thread(server.wait_for_requests, 1)
        guardian = _outermost(children_at_work())
        guardian.kill()
        result = await running
    assert single(result).exit_code == 137
    assert single(result).outcome is Outcome.FAILED


def _deepest(processes: list[psutil.Process]) -> list[psutil.Process]:
    parents = {process.ppid() for process in processes}
    return [process for process in processes if process.pid not in parents]


def _outermost(processes: list[psutil.Process]) -> psutil.Process:
    ours = {process.pid for process in processes}
    return next(process for process in processes if process.ppid() not in ours)


@pytest.mark.usefixtures("start")
async def test_a_cancelled_run_says_so_and_keeps_what_there_was(world: Path) -> None:
    cancelled = asyncio.Event()
    half = "The first half. " * 40
    with ScriptedModel([silence_after(half)]) as server:
        os.environ.update(server.environment)
        request = Request("explorer", "Find it.", model=server.model)
        seen: list[ToolResult] = []
        caller = Caller(os.environ, cancelled=cancelled, on_update=seen.append)
        running = asyncio.ensure_future(perform(request, caller))
        await asyncio.to_thread(server.wait_for_requests, 1)
        while not any(update.text for update in seen):
            await asyncio.sleep(0.01)
        cancelled.set()
        result = await running
    run = single(result)
    assert run.outcome is Outcome.CANCELLED
    assert run.exit_code == 130
    assert result.details.error is not None
    assert result.details.error.code is ErrorCode.SUBAGENT_CANCELLED
    assert run.output and half.startswith(run.output)
    assert_recorded(result)


@pytest.mark.usefixtures("start")
async def test_a_cancelled_task_ends_its_child_before_it_is_cancelled(world: Path) -> None:
    with ScriptedModel([silence()]) as server:
        os.environ.update(server.environment)
        running = asyncio.ensure_future(subagent("explorer", "Find it.", model=server.model))
        await asyncio.to_thread(server.wait_for_requests, 1)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    assert_nothing_left()
    [folder] = (Path(os.environ["OUTRIDER_HOME"]) / "runs").glob("????????")
    kept = json.loads((folder / "result.json").read_text())
    assert kept["details"]["results"][0]["outcome"] == "cancelled"


BUDGETS = {
    "subagents.budget.maxTurns": (3, "turns"),
    "subagents.budget.maxToolCalls": (3, "tool calls"),
    "subagents.budget.maxTokens": (50, "tokens"),
    "subagents.budget.maxCost": (0.00018, "US dollars"),
}


@pytest.mark.parametrize("key", BUDGETS)
async def test_a_budget_that_is_spent_stops_the_run(world: Path, key: str) -> None:
    limit, words = BUDGETS[key]
    with ScriptedModel(
        [tool_call("ls", {}, text="Still looking.")], repeat=True, name="gpt-4o"
    ) as server:
        os.environ.update(server.environment)
        result = await subagent("explorer", "Go on.", model=server.model, config={key: limit})
    run = single(result)
    assert run.outcome is Outcome.OVER_BUDGET
    assert run.exit_code == 1
    assert result.details.error is not None
    assert result.details.error.code is ErrorCode.SUBAGENT_BUDGET_EXCEEDED
    assert words in (run.error or "")
    assert run.output == "Still looking."
    told = [
        message["content"]
        for request in server.requests
        for message in request.messages
        if message["role"] == "user" and "Wrap up" in str(message["content"])
    ]
    assert len(set(map(str, told))) == 1
    assert_recorded(result)


async def test_a_budget_of_money_needs_a_price(world: Path) -> None:
    result, server = await delegated(answer("x"), config={"subagents.budget.maxCost": 1})
    assert single(result).outcome is Outcome.FAILED
    assert "price" in (single(result).error or "")
    assert not server.requests


async def test_an_unknown_price_is_said_to_be_unknown(world: Path) -> None:
    result, _ = await delegated(answer("x"))
    usage = result.to_dict()["details"]["results"][0]["usage"]
    assert usage["cost"] == 0
    assert usage["costKnown"] is False


async def test_a_tool_that_was_not_given_is_an_answer_and_not_the_end(world: Path) -> None:
    result, server = await delegated(
        tool_calls([("bash", {"command": "touch x"}), ("nosuch", {}), ("ls", {})]), answer("Fine.")
    )
    assert single(result).outcome is Outcome.COMPLETED
    assert single(result).receipt["toolErrors"] == 2
    told = {
        m["tool_call_id"]: m["content"] for m in server.requests[1].messages if m["role"] == "tool"
    }
    assert any("may not use 'bash'" in text for text in told.values())
    assert any("no tool 'nosuch'" in text for text in told.values())
    assert not (world / "x").exists()


def test_a_parent_killed_with_sigkill_takes_its_child_along(world: Path) -> None:
    with ScriptedModel([silence()]) as server:
        code = (
            "from outrider.delegation.api import subagent_sync\n"
            f"subagent_sync('explorer', 'Find it.', model={server.model!r})"
        )
        parent = psutil.Popen(
            [os.sys.executable, "-c", code], env={**os.environ, **COLD, **server.environment}
        )
        server.wait_for_requests(1)
        below = parent.children(recursive=True)
        assert len(below) >= 2
        parent.kill()
        parent.wait()
        wait_until(
            lambda: not any(p.is_running() and p.status() != "zombie" for p in below), "orphans"
        )
