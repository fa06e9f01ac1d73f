"""The verdict on a report, tool call in and result out, is that of a plain validator."""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings, strategies as st
from hypothesis_jsonschema import from_schema
from pydantic_ai.messages import ModelResponse, ToolCallPart

from conftest import is_measured
from outrider.child.conversation import Conversation, ModelReply
from outrider.child.history import History
from outrider.child.report_back import REPORT_BACK, ReportBackTool, ToolResultItem
from outrider.child.task import TaskExecutor
from outrider.child.turn import GRACE_SECONDS, TurnExecutor
from outrider.delegation.api import subagent
from outrider.protocol.budget import Budget
from outrider.protocol.envelope import ToolCode
from outrider.protocol.events import Event, TaskFinishEvent, ToolResultEndEvent, ToolStartEvent
from outrider.protocol.outcomes import Outcome
from outrider.protocol.usage import Usage
from outrider.runtimes.native.fork_server import hosted_fork_server
from outrider.schemas.arguments import read_arguments
from outrider.schemas.output_schema import load_schema
from outrider.settings.keys import BudgetConfig
from outrider.testing import ScriptedModel, tool_call
from outrider.tools.context import ToolContext
from outrider.tools.executor import ToolExecutor
from outrider.tools.registry import Tool, collect_tools, tool
from test_schemas import STEADY, fair, object_values, plain_verdict, schemas, values

__all__ = ["object_values"]  # a fixture that hypothesis-jsonschema needs


class Reporting(Conversation):
    """A model that makes one turn after another of tool calls, as it was told to."""

    def __init__(self, turns: Sequence[Sequence[tuple[str, str]]]) -> None:
        self._turns = iter(turns)

    async def request(self, *_: object) -> ModelReply:
        parts = [ToolCallPart(name, args) for name, args in next(self._turns)]
        return ModelReply("", Usage(turns=1), ModelResponse(parts, finish_reason="tool_call"))


def executor(
    schema: Any,
    turns: Sequence[Sequence[tuple[str, str]]],
    *,
    emit: list[Event] | None = None,
    tools: Sequence[Tool] = (),
    deadline: float = float("inf"),
) -> TaskExecutor:
    history, budget = History("You.", "Report."), Budget(BudgetConfig())
    told: list[Event] = [] if emit is None else emit
    report_back = ReportBackTool.for_schema(schema)
    turn = TurnExecutor(
        Reporting(turns),
        history,
        ToolExecutor(tools, ToolContext(Path())),
        budget,
        told.append,
        report_back,
        len(turns),
        deadline,
    )
    return TaskExecutor("0", turn, len(turns))


def arguments(schema: Any, value: Any) -> str:
    wrapped = load_schema(schema).is_wrapped
    return json.dumps({"result": value} if wrapped else value)


def reports(schema: Any, given: Sequence[Any]) -> list[list[tuple[str, str]]]:
    return [[(REPORT_BACK, arguments(schema, value))] for value in given]


@pytest.fixture(scope="module")
def loop() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


def holds(finish: TaskFinishEvent, schema: Any, given: Sequence[Any]) -> None:
    """The first value that a plain validator takes is the result; where it takes none, none is."""
    good = [value for value in given if plain_verdict(schema, value)]
    if good:
        assert finish.outcome is Outcome.COMPLETED, finish
        assert json.dumps(finish.structured_output) == json.dumps(good[0])
        assert json.loads(finish.task_result) == good[0]
    else:
        assert finish.outcome is Outcome.SCHEMA_FAILED, finish
        assert not finish.has_structured_output
        assert json.dumps(finish.last_report) == json.dumps(given[-1])
        assert finish.schema_faults


@settings(STEADY, max_examples=150)
@given(schemas, st.lists(values, min_size=2, max_size=5))
def test_any_schema_with_any_values(loop: asyncio.Runner, schema: Any, given: list[Any]) -> None:
    holds(loop.run(executor(schema, reports(schema, given)).run()), schema, given)


@settings(STEADY, max_examples=60)
@given(st.data(), fair, fair)
def test_values_made_to_fit_and_values_made_for_another_schema(
    loop: asyncio.Runner, data: st.DataObject, schema: Any, other: Any
) -> None:
    fitting = [data.draw(from_schema(schema))]
    foreign = [data.draw(from_schema(other)) for _ in range(3)]
    finish = loop.run(executor(schema, reports(schema, fitting)).run())
    assert finish.outcome is Outcome.COMPLETED
    holds(finish, schema, fitting)
    holds(loop.run(executor(schema, reports(schema, foreign)).run()), schema, foreign)


def drawn(count: int) -> list[tuple[Any, list[Any]]]:
    """Return schemas, each with values that don't all fit it."""
    made: list[tuple[Any, list[Any]]] = []

    @settings(STEADY, max_examples=count * 2, phases=[Phase.generate])
    @given(st.data(), fair, fair)
    def collect(data: st.DataObject, schema: Any, other: Any) -> None:
        one, two = (data.draw(from_schema(of)) for of in (other, schema))
        made.append((schema, [one, two] if len(made) % 2 else [one]))

    collect()
    return made[-count:]


async def test_real_children_come_to_the_same_verdicts(world: Path) -> None:
    assert await hosted_fork_server().ready("openai-chat")
    outcomes: set[Outcome] = set()
    for schema, sent in drawn(24):
        steps = [tool_call(REPORT_BACK, arguments(schema, value)) for value in sent]
        with ScriptedModel(steps) as server:
            os.environ.update(server.environment)
            result = await subagent(
                "explorer",
                "Report.",
                schema,
                server.model,
                config={"subagents.reportBackAttempts": len(sent)},
            )
        run = result.result
        assert run is not None and not run.masked_paths
        finish = TaskFinishEvent(
            "",
            run.output,
            run.structured_output,
            run.has_structured_output,
            run.outcome,
            schema_faults=run.schema_faults,
            last_report=run.last_report,
            has_last_report=run.has_last_report,
        )
        holds(finish, schema, sent)
        outcomes.add(run.outcome)
    assert outcomes == {Outcome.COMPLETED, Outcome.SCHEMA_FAILED}


# --- what could take forever ---------------------------------------------------------------------

WORDS = {"type": "array", "items": {"type": "string", "maxLength": 40}}
HEAVY = {
    "a pattern that blows up elsewhere": (
        {"type": "string", "pattern": "^(a+)+$"},
        "a" * 50_000 + "!",
        False,
    ),
    "a pattern that looks back": ({"type": "string", "pattern": "^(a*)*\\1b$"}, "a" * 5_000, False),
    "five megabytes that fit": (WORDS, ["word " * 8] * 120_000, True),
    "five megabytes that don't": (WORDS, ["word " * 9] * 110_000, False),
    "five megabytes of numbers": ({"items": {"type": "integer"}}, [*range(720_000)], True),
}


@pytest.mark.parametrize("name", HEAVY)
def test_a_heavy_report_is_judged_in_under_a_second(name: str) -> None:
    schema, value, fits = HEAVY[name]
    made, sent = ReportBackTool.for_schema(schema), arguments(schema, value)
    begun = time.process_time()
    report = made.judge(read_arguments(sent))
    # The processor's time: that of a machine which is busy with other things doesn't count.
    assert time.process_time() - begun < (5 if is_measured() else 1)
    assert report.is_valid is fits


# --- a call's arguments ---------------------------------------------------------------------------


@tool("test:note", name="note")
async def note(text: str) -> str:
    """Note it."""
    return text


async def test_what_is_shown_what_runs_and_what_is_judged_come_of_one_reading(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read: list[object] = []

    def reading(raw: Any) -> Any:
        read.append(raw)
        return read_arguments(raw)

    monkeypatch.setattr("outrider.child.turn.read_arguments", reading)
    for elsewhere in ("outrider.tools.executor", "outrider.child.report_back"):
        monkeypatch.setattr(f"{elsewhere}.read_arguments", None)
    told: list[Event] = []
    calls = [("note", '{"text": "a"}'), ("note", '{"text":'), (REPORT_BACK, '{"result": 7}')]
    task = executor({"type": "integer"}, [calls], emit=told, tools=collect_tools(note))
    finish = await task.run()
    assert finish.structured_output == 7
    assert read == [arguments for _, arguments in calls]
    started = [event.args for event in told if isinstance(event, ToolStartEvent)]
    assert started == [{"result": 7}, {"text": "a"}, '{"text":']


async def test_a_key_given_twice_is_refused_and_shown_as_it_was_sent() -> None:
    told: list[Event] = []
    twice = '{"text": "a", "text": "b"}'
    calls = [("note", twice), (REPORT_BACK, '{"result": 7}')]
    task = executor({"type": "integer"}, [calls], emit=told, tools=collect_tools(note))
    await task.run()
    started = {event.name: event.args for event in told if isinstance(event, ToolStartEvent)}
    ended = {event.name: event.envelope for event in told if isinstance(event, ToolResultEndEvent)}
    assert started["note"] == twice
    assert ended["note"]["code"] == ToolCode.ARGUMENTS_NOT_JSON
    assert "'text' is given twice" in ended["note"]["message"]


# --- the tool by itself ---------------------------------------------------------------------------


async def test_the_tool_is_a_class_of_its_own_for_each_schema() -> None:
    whole = ReportBackTool.for_schema({"type": "integer"})
    text = ReportBackTool.for_schema({"type": "object", "properties": {"a": {"type": "string"}}})
    assert issubclass(whole, ReportBackTool) and issubclass(text, ReportBackTool)
    assert whole.schema().name == REPORT_BACK and whole.schema().type == "function"
    assert whole.schema().description
    assert whole.schema().parameters["properties"] == {"result": {"type": "integer"}}
    assert text.schema().parameters["properties"] == {"a": {"type": "string"}}
    assert await whole.call('{"result": 7}') == ToolResultItem(
        "success", "The result was reported; the task ends here."
    )


async def test_a_call_that_fails_validation_is_an_error_that_lists_the_faults() -> None:
    made = ReportBackTool.for_schema({"type": "array", "items": {"type": "integer"}})
    wrong = await made.call('{"result": [1, "x", null]}')
    assert wrong.status == "error"
    assert '$[1]: "x" is not of type "integer"' in wrong.output
    assert '$[2]: null is not of type "integer"' in wrong.output
    assert "tries left" not in wrong.output
    broken = await made.call('{"result": [1,]}')
    assert broken.status == "error" and "trailing comma" in broken.output


def test_the_tool_comes_without_any_model_layer() -> None:
    code = (
        "import sys; from outrider.child.report_back import ReportBackTool, ToolSchema; "
        "print([m for m in ('pydantic_ai', 'pydantic', 'jsonschema_rs') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


# --- what a sibling could do ---------------------------------------------------------------------


async def test_a_tool_that_never_ends_cannot_undo_a_valid_report() -> None:
    entered = asyncio.Event()

    @tool("test:forever", name="forever")
    async def forever() -> None:
        """Never end."""
        entered.set()
        await asyncio.Event().wait()

    told: list[Event] = []
    task = executor(
        {"type": "integer"},
        [[("forever", "{}"), (REPORT_BACK, '{"result": 7}')]],
        emit=told,
        tools=collect_tools(forever),
        deadline=time.monotonic() + GRACE_SECONDS + 0.2,
    )
    finish = await task.run()
    assert entered.is_set()
    assert finish.outcome is Outcome.COMPLETED
    assert finish.structured_output == 7
    ended = {event.name: event for event in told if isinstance(event, ToolResultEndEvent)}
    assert ended["forever"].envelope["code"] == ToolCode.TIMEOUT
    assert ended[REPORT_BACK].envelope["code"] == ToolCode.SUCCESS
