"""Every way for a run to end, with a real child: none of them is mistaken for another."""

import ast
import asyncio
import json
import os
import signal
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil
import pydantic_ai.models
import pytest

from conftest import COLD, assert_nothing_left, children_at_work, wait_until
from outrider.delegation.api import subagent
from outrider.delegation.perform import Caller, perform
from outrider.delegation.request import Request
from outrider.models.endings import WIRES, StopReason, answer_in, stop_reason
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


def chunk(delta: object, finish_reason: object = None) -> dict[str, object]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]}


def stream(*chunks: dict[str, object]) -> Step:
    """Whatever a server may send in place of a chunk."""
    head = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "scripted"}
    lines = [f"data: {json.dumps(head | one)}\n\n" for one in chunks]
    return garbage("".join([*lines, "data: [DONE]\n\n"]), content_type="text/event-stream")


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
    "nothing but a thought": Failing((answer("<think>Hm.</think>\n"),), "empty answer"),
    "a thought without an end": Failing((answer("<think>Let me see"),), "empty answer"),
    "characters that nobody sees": Failing(
        (answer("\u200b\u202e\u2060\ufeff\u00ad\ufe0f\x07"),), "empty answer"
    ),
    "a call that was announced and never came": Failing(
        (answer("I'll look.", finish_reason="tool_calls"),), "sent none", output="I'll look."
    ),
    "no choices": Failing((stream({"choices": []}),), "cut"),
    "choices that are null": Failing((stream({"choices": None}),), "cut"),
    "content that is null": Failing((stream(chunk({"content": None}, "stop")),), "empty answer"),
    "a delta that is null": Failing((stream(chunk(None, "stop")),), "empty answer"),
    "an old function call": Failing(
        (stream(chunk({"function_call": {"name": "ls", "arguments": "{}"}}, "function_call")),),
        "sent none",
    ),
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


BAD_REASONS = (
    "error", "abort", "insufficient_system_resource", "network_error", "nobody_knows", "STOPPED",
    "stop ", "pause_turn", "in_progress", 7, -1, True, 0.5, {"a": 1}, ["stop"],
)  # fmt: skip


@pytest.mark.parametrize("reason", BAD_REASONS, ids=str)
async def test_only_a_finish_reason_that_is_known_to_be_good_is_good(
    world: Path, reason: object
) -> None:
    result, _ = await delegated(
        tool_call("ls", {}, text="So far.", finish_reason=reason), config=FAST
    )
    run = single(result)
    assert run.outcome is Outcome.FAILED and run.exit_code == 1
    assert repr(reason) in (run.error or "")
    assert run.output == "So far."
    assert run.receipt["toolCalls"] == 0
    assert_recorded(result)


@pytest.mark.parametrize("reason", [None, "", 0, False])
async def test_an_answer_without_a_finish_reason_was_cut(world: Path, reason: object) -> None:
    result, _ = await delegated(answer("So far.", finish_reason=reason), config=FAST)
    assert single(result).outcome is Outcome.FAILED
    assert "cut" in (single(result).error or "")


@pytest.mark.parametrize("reason", ["stop", "tool_calls", "function_call", "eos", "end_turn"])
async def test_a_call_is_made_whichever_good_reason_its_turn_ends_with(
    world: Path, reason: str
) -> None:
    result, _ = await delegated(tool_call("ls", {}, finish_reason=reason), answer("Two files."))
    assert single(result).outcome is Outcome.COMPLETED
    assert single(result).receipt["toolCalls"] == 1


@pytest.mark.parametrize("arguments", ["", " ", '{"depth": 1'])
async def test_a_call_that_was_cut_is_not_made(world: Path, arguments: str) -> None:
    result, server = await delegated(
        tool_call("ls", arguments, finish_reason="length"),
        tool_call("ls", "", finish_reason="tool_calls"),
        answer("Here."),
    )
    assert single(result).outcome is Outcome.COMPLETED
    assert single(result).receipt["toolErrors"] == 1
    assert "not JSON" in server.requests[1].messages[-1]["content"]


async def test_a_thought_before_the_answer_is_no_part_of_it(world: Path) -> None:
    said = "\ufeff <think>The <b>file</b>…</think>\n\n<think></think> It is in thing.txt."
    result, _ = await delegated(answer(said))
    assert single(result).outcome is Outcome.COMPLETED
    assert single(result).output == result.text == "It is in thing.txt."
    [message] = [event for event in transcript(result) if event["type"] == "message_end"]
    assert message["text"] == said
    assert_recorded(result)


def test_only_thoughts_at_the_beginning_are_left_out() -> None:
    for whole in (" A tag: <think>x</think> ends it.", "</think> closes it.", "  two blanks"):
        assert answer_in(whole) == whole
    assert answer_in("<think>" * 100_000 + "</think>" * 100_000).startswith("</think>")
    assert answer_in("<think></think>" * 100_000) == ""
    assert [answer_in(text) for text in ("", " \n\t", "\u0301", "\ue000")] == [""] * 4


def test_each_word_for_an_ending_means_one_thing_on_every_wire() -> None:
    for wire, columns in WIRES.items():
        for reason, words in zip(StopReason, columns, strict=True):
            assert [stop_reason(word) for word in words.split()] == [reason] * len(words.split())
        assert len(" ".join(columns).split()) == len(set(" ".join(columns).split())), wire
    assert stop_reason("nobody_knows") is stop_reason(7) is stop_reason("") is StopReason.FAILED
    assert stop_reason("stop", "content_filter") is StopReason.FILTERED
    assert stop_reason(None, "stop") is StopReason.DONE
    assert stop_reason(None, None) is None


def test_every_finish_reason_of_the_provider_layer_stands_in_the_table() -> None:
    """Also of providers whose packages aren't installed: their tables are read as text."""
    folder, seen = Path(pydantic_ai.models.__file__).parent, 0
    for path in (*folder.glob("*.py"), *folder.glob("anthropic/*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            target = getattr(node, "target", None)
            if not isinstance(target, ast.Name) or "FINISH_REASON_MAP" not in target.id:
                continue
            assert isinstance(node, ast.AnnAssign) and isinstance(node.value, ast.Dict)
            for key, value in zip(node.value.keys, node.value.values, strict=True):
                if key is not None and isinstance(value, ast.Constant):
                    raw = key.value if isinstance(key, ast.Constant) else key.value.attr
                    assert stop_reason(raw) == (value.value or "error"), (path.name, raw)
                    seen += 1
    assert seen > 60


ODD_USAGE: tuple[object, ...] = (
    None, "lots", 7, [1], {}, {"prompt_tokens": None},
    {"prompt_tokens": 10.5, "completion_tokens": 5.5, "total_tokens": 16},
    {"prompt_tokens": -10, "completion_tokens": -5},
    {"prompt_tokens": "10", "completion_tokens": "5"},
    {"prompt_tokens": float("nan"), "completion_tokens": float("inf")},
    {"prompt_tokens": 10**30, "completion_tokens": 10**12},
    {"prompt_tokens": {"a": [1]}, "completion_tokens": True},
    {"prompt_tokens": 10, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 0.5}},
    {"prompt_tokens": 10, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 99}},
)  # fmt: skip


@pytest.mark.parametrize("usage", ODD_USAGE, ids=str)
async def test_no_report_of_usage_can_fail_a_run(world: Path, usage: object) -> None:
    result, _ = await delegated(tool_call("ls", {}, usage=usage), answer("Here.", usage=usage))
    run = single(result)
    assert run.outcome is Outcome.COMPLETED, run.error
    assert run.output == "Here." and run.receipt["toolCalls"] == 1
    shown = run.usage
    assert all(
        type(one) is int for one in (shown.input, shown.output, shown.cache_read, shown.cache_write)
    )
    assert 0 < shown.output < 1_000 and 0 < shown.input < 100_000 and shown.cache_read == 0
    assert shown.estimated and result.to_dict()["details"]["results"][0]["usage"]["estimated"]
    assert [one for one in run.warnings if "token counts" in one]
    kinds = [event["type"] for event in transcript(result)]
    assert kinds.count("message_end") == kinds.count("turn_end") == 2 and "task_finish" in kinds
    assert_recorded(result)


async def test_a_budget_of_tokens_holds_where_no_provider_counts_them(world: Path) -> None:
    (world / "long.txt").write_text("many words " * 2_000)
    result, server = await delegated(
        *(
            tool_call("read", {"path": "long.txt", "limit": 9_000 + n}, text="Still.", usage=None)
            for n in range(20)
        ),
        config={"subagents.budget.maxTokens": 20_000},
    )
    run = single(result)
    assert run.outcome is Outcome.OVER_BUDGET and run.usage.estimated
    assert run.usage.tokens >= 20_000 and 1 < len(server.requests) < 20


async def test_a_budget_of_money_holds_where_no_provider_counts_tokens(world: Path) -> None:
    steps = [tool_call("ls", {}, usage=None)]
    with ScriptedModel(steps, repeat=True, name="gpt-4o") as server:
        os.environ.update(server.environment)
        limits = {"subagents.budget.maxCost": 0.01}
        result = await subagent("explorer", "Go on.", model=server.model, config=limits)
    assert single(result).outcome is Outcome.OVER_BUDGET
    assert "US dollars" in (single(result).error or "")


async def test_what_a_provider_counts_is_no_estimate(world: Path) -> None:
    result, _ = await delegated(answer("Here."))
    assert not single(result).usage.estimated
    assert single(result).warnings == ()


async def test_usage_that_comes_with_every_chunk_is_counted_once(world: Path) -> None:
    usage = {"prompt_tokens": 100, "completion_tokens": 5}
    chunks = [chunk({"content": "Here"}), chunk({"content": "."}), chunk({}, "stop")]
    early = {"usage": {**usage, "completion_tokens": 1}}
    result, _ = await delegated(
        stream(*(one | early for one in chunks), chunk({}) | {"usage": usage})
    )
    shown = single(result).usage
    assert (shown.input, shown.output, shown.estimated) == (100, 5, False)


ODD_CALLS = {
    "a number as its id": {"id": 7, "function": {"name": "ls", "arguments": "{}"}},
    "no id": {"id": None, "function": {"name": "ls", "arguments": "{}"}},
    "an object as its arguments": {"id": "a", "function": {"name": "ls", "arguments": {}}},
    "a number as its name": {"id": "a", "function": {"name": 5, "arguments": "{}"}},
}


@pytest.mark.parametrize("name", ODD_CALLS)
async def test_a_call_with_odd_parts_is_recorded_like_any_other(world: Path, name: str) -> None:
    call = {"index": 0, "type": "function", **ODD_CALLS[name]}
    result, _ = await delegated(
        stream(chunk({"tool_calls": [call]}), chunk({}, "tool_calls")), answer("Here.")
    )
    assert single(result).outcome is Outcome.COMPLETED
    assert single(result).receipt["toolCalls"] == 1
    kinds = [event["type"] for event in transcript(result)]
    assert kinds.count("message_end") == 2 and kinds.count("tool_result_end") == 1


async def test_a_tool_that_never_worked_is_told(world: Path) -> None:
    (world / "here.txt").write_text("x")
    search, edit = ("web_search", {"query": "x"}), ("grep", {"pattern": "("})
    steps = [tool_calls([search, edit, ("read", {"path": "nowhere"})]), tool_calls([search])]
    steps += [tool_calls([("find", {"pattern": "[", "about": "x"}), ("nosuch", {})])]
    steps += [tool_calls([("bash", {"command": "ls"})]), answer("I know.")]
    agents = world / ".outrider" / "agents"
    agents.mkdir(parents=True)
    (agents / "both.md").write_text(
        "---\nname: both\ntools: read, grep, find, web_search\n---\nLook.\n"
    )
    with ScriptedModel(steps) as server:
        os.environ.update(server.environment)
        config = {"web.provider": "tavily", "subagents.trustedProjects": [str(world)]}
        result = await subagent("both", "Look.", model=server.model, config=config)
    run = single(result)
    assert run.outcome is Outcome.COMPLETED and run.output == "I know."
    assert run.receipt["toolErrors"] == 7
    [told] = run.warnings  # not of what was wrong with a call, nor of tools that it doesn't have
    assert told.startswith("every call of web_search failed: No search provider answered")


@pytest.mark.parametrize(
    ("name", "other"), [("gpt-x-2025-08-07", False), ("gpt-y", True), ("gpt-x-mini", True)]
)
async def test_a_result_says_which_model_answered(world: Path, name: str, other: bool) -> None:
    with ScriptedModel([answer("Here.", model=name)], name="gpt-x") as server:
        os.environ.update(server.environment)
        result = await subagent("explorer", "Look.", model=server.model)
    run = single(result)
    assert run.outcome is Outcome.COMPLETED
    assert run.model == f"openai-chat:{name}"
    assert run.asked_model == ("openai-chat:gpt-x" if other else None)
    told = (f"openai-chat:gpt-x was asked for, but openai-chat:{name} answered",)
    assert run.warnings == (told if other else ())
    assert_recorded(result)


async def test_a_model_that_stands_in_for_one_turn_is_told_too(world: Path) -> None:
    steps = [replace(tool_call("ls", {}), model="cheap"), answer("Here.")]
    result, server = await delegated(*steps)
    run = single(result)
    assert run.model == run.asked_model == server.model
    assert run.warnings == (f"{server.model} was asked for, but openai-chat:cheap answered",)


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
    assert result.details.error.code is ErrorCode.INVALID_INPUT and not result.details.results
    assert "price of openai-chat:scripted is unknown" in result.text
    assert not server.requests


SAME = tool_call("ls", {"path": "."}, text="Looking.")


async def test_a_model_that_repeats_itself_is_told_and_then_ended(world: Path) -> None:
    result, server = await delegated(SAME, repeat=True)
    run = single(result)
    assert run.outcome is Outcome.OVER_BUDGET and "repeats itself" in (run.error or "")
    assert result.details.error.code is ErrorCode.SUBAGENT_BUDGET_EXCEEDED
    assert len(server.requests) == 6 and run.output == "Looking."
    told = ["same call 3 times" in str(request.messages) for request in server.requests]
    assert told == [False, False, False, True, True, True]
    assert_recorded(result)


async def test_waiting_for_something_that_changes_is_no_loop(world: Path) -> None:
    def steps(request: Any) -> Any:
        turn = len(request.messages) // 2
        (world / f"{turn}.txt").write_text("x")
        return SAME if turn < 9 else answer("There it is.")

    with ScriptedModel(steps) as server:
        os.environ.update(server.environment)
        result = await subagent("explorer", "Wait for it.", model=server.model)
    assert single(result).outcome is Outcome.COMPLETED and len(server.requests) > 6
    assert "same call" not in str(server.requests[-1].messages)


async def test_other_calls_in_between_are_no_loop(world: Path) -> None:
    other = tool_call("grep", {"pattern": "x"})
    steps = [SAME, SAME, other] * 3
    result, _ = await delegated(*steps, answer("Done."))
    assert single(result).outcome is Outcome.COMPLETED


async def test_a_run_that_is_cut_off_counts_what_was_said(world: Path) -> None:
    limits = {"subagents.timeoutMs": 1_500}
    result, _ = await delegated(silence_after("word " * 400), config=limits)
    run = single(result)
    assert run.outcome is Outcome.TIMED_OUT and run.usage.turns == 1
    assert run.usage.output >= 400 and run.usage.estimated and not run.usage.cost_known


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
