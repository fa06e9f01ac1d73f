"""The verdict on a report, tool call in and result out, is that of a plain validator."""

import asyncio
import json
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import jsonschema
import jsonschema_rs
import pytest
from hypothesis import HealthCheck, Phase, given, settings, strategies as st

from outrider.child.conversation import Conversation, ModelReply
from outrider.child.history import History
from outrider.child.report_back import REPORT_BACK, ReportBackTool, ToolResultItem
from outrider.child.task import TaskExecutor
from outrider.child.turn import GRACE_SECONDS, TurnExecutor
from outrider.delegation.api import subagent
from outrider.models.messages import ModelAnswer, ModelCall
from outrider.protocol.budget import Budget
from outrider.protocol.envelope import ToolCode
from outrider.protocol.events import Event, TaskFinishEvent, ToolResultEndEvent, ToolStartEvent
from outrider.protocol.outcomes import Outcome
from outrider.protocol.usage import Usage
from outrider.runtimes.native.fork_client import hosted_fork_server
from outrider.schemas.arguments import read_arguments
from outrider.schemas.output_schema import load_schema
from outrider.settings.keys import BudgetConfig
from outrider.testing import ScriptedModel, tool_call
from outrider.tools.context import ToolContext
from outrider.tools.executor import ToolExecutor
from outrider.tools.registry import Tool, collect_tools, tool

# --- schemas and values ---------------------------------------------------------------------------

DRAFT_7 = "http://json-schema.org/draft-07/schema#"
names = st.sampled_from(["a", "b", "type", "result", "$ref", "a/b", "ü"])
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.sampled_from([0.5, 2.0, 10**25, -(2**63) - 1])
    | st.sampled_from(["", "a", "ab", "B", "STRING", "ü"])
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=6,
)
types = st.sampled_from(["array", "boolean", "integer", "null", "number", "object", "string"])
small = st.integers(0, 3)
plain = st.fixed_dictionaries(
    {},
    optional={
        "type": types | st.lists(types, min_size=1, max_size=3, unique=True),
        "minimum": st.integers(-4, 4),
        "maximum": st.integers(-4, 4),
        "minLength": small,
        "maxLength": small,
        "pattern": st.sampled_from(["^a", "[A-Z]", "b$", "^(?!a)"]),
    },
)
listed = st.fixed_dictionaries(
    {}, optional={"enum": st.lists(values, min_size=1, max_size=3), "const": values}
)
leaves = plain | listed | st.booleans()
references = st.sampled_from(["#/$defs/a", "#/$defs/b", "#"]).map(lambda to: {"$ref": to})


def holders(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    several = st.lists(inner, min_size=1, max_size=3)
    deeper = inner | references  # only where the value is consumed, so that no cycle is endless
    return st.fixed_dictionaries(
        {},
        optional={
            "type": types,
            "properties": st.dictionaries(names, deeper, max_size=3),
            "patternProperties": st.dictionaries(st.sampled_from(["^a", "b"]), deeper, max_size=2),
            "additionalProperties": deeper,
            "propertyNames": inner,
            "required": st.lists(names, max_size=2, unique=True),
            "items": deeper,
            "contains": inner,
            "minItems": small,
            "uniqueItems": st.booleans(),
            "maxProperties": small,
            "allOf": several,
            "anyOf": several,
            "oneOf": several,
            "not": inner,
            "if": inner,
            "then": inner,
            "else": inner,
        },
    )


modern = st.fixed_dictionaries(
    {},
    optional={
        "prefixItems": st.lists(leaves, min_size=1, max_size=2),
        "minContains": small,
        "dependentRequired": st.dictionaries(names, st.lists(names, max_size=2, unique=True)),
        "dependentSchemas": st.dictionaries(names, leaves, max_size=2),
        "unevaluatedProperties": leaves,
        "unevaluatedItems": leaves,
    },
)
legacy = st.fixed_dictionaries(
    {"$schema": st.just(DRAFT_7)},
    optional={
        "items": st.lists(leaves, min_size=1, max_size=2),
        "additionalItems": leaves,
        "dependencies": st.dictionaries(names, leaves | st.lists(names, unique=True), max_size=2),
    },
)
bodies = st.recursive(leaves, holders, max_leaves=6).filter(lambda body: isinstance(body, dict))
schemas = st.builds(
    lambda body, extra, a, b: {**body, **extra, "$defs": {"a": a, "b": b}},
    bodies,
    modern | legacy | st.just({}) | st.just({"type": "object"}),
    leaves,
    bodies,
)


STEADY = settings(
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)


def plain_verdict(schema: Any, value: Any) -> bool:
    legacy = isinstance(schema, dict) and schema.get("$schema") == DRAFT_7
    judge = jsonschema.Draft7Validator if legacy else jsonschema.Draft202012Validator
    return judge(schema).is_valid(value)


def fitting(schema: Any, *values: Any) -> st.SearchStrategy[tuple[Any, Any]]:
    """A schema with each of the values that fit it."""
    return st.sampled_from([(schema, value) for value in values])


pair_leaves = (
    fitting({"type": "integer", "minimum": 2, "maximum": 9}, 2, 5, 9)
    | fitting({"type": "number", "exclusiveMinimum": 0}, 0.5, 3, 10**25)
    | fitting({"type": "string", "minLength": 1, "maxLength": 3}, "a", "STR", "ü\u2028z")
    | fitting({"type": "string", "pattern": "^a[0-9]{1,3}$"}, "a1", "a987")
    | fitting({"type": ["boolean", "null"]}, True, False, None)
    | fitting({"enum": ["STRING", 1, None, {"type": "NULL"}]}, "STRING", {"type": "NULL"})
    | fitting({"const": [10**25]}, [10**25])
)


def pair_holders(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    fields = st.dictionaries(st.sampled_from("abc"), inner, min_size=1, max_size=3)
    several = st.lists(inner, min_size=2, max_size=3)
    return st.builds(object_of, fields, st.booleans()) | inner.map(array_of) | several.map(any_of)


def object_of(fields: dict[str, Any], is_open: bool) -> tuple[Any, Any]:
    properties = {name: schema for name, (schema, _) in fields.items()}
    schema = {"type": "object", "properties": properties, "required": sorted(fields)[:2]}
    value = {name: value for name, (_, value) in fields.items()}
    return {**schema, "additionalProperties": is_open}, value


def array_of(item: tuple[Any, Any]) -> tuple[Any, Any]:
    return {"type": "array", "items": item[0], "maxItems": 3}, [item[1]] * 2


def any_of(several: list[tuple[Any, Any]]) -> tuple[Any, Any]:
    return {"anyOf": [schema for schema, _ in several]}, several[-1][1]


pairs = st.recursive(pair_leaves, pair_holders, max_leaves=5)
"""Schemas, each with a value that fits it."""


# --- tasks in this process ------------------------------------------------------------------------


class Reporting(Conversation):
    """A model that makes one turn after another of tool calls, as it was told to."""

    def __init__(self, turns: Sequence[Sequence[tuple[str, str]]]) -> None:
        self._turns = iter(turns)

    async def request(self, *_: object) -> ModelReply:
        calls = [ModelCall(name, name, args) for name, args in next(self._turns)]
        return ModelReply(ModelAnswer(calls=calls), Usage(turns=1))


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
    return TaskExecutor("0", turn)


def arguments(schema: Any, value: Any) -> str:
    wrapped = load_schema(schema).is_wrapped
    return json.dumps({"result": value} if wrapped else value)


def reports(schema: Any, given: Sequence[Any]) -> list[list[tuple[str, str]]]:
    return [[(REPORT_BACK, arguments(schema, value))] for value in given]


@pytest.fixture(scope="module")
def loop() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


def is_judged_alike(schema: Any, value: Any) -> bool:
    """Whether a value fits, which all judges agree on, as does what the model is offered."""
    loaded, fits = load_schema(schema), plain_verdict(schema, value)
    sent = {"result": value} if loaded.is_wrapped else value
    verdict = loaded.judge(sent)
    assert verdict.is_valid is fits
    assert jsonschema_rs.validator_for(schema).is_valid(value) is fits
    assert jsonschema_rs.validator_for(loaded.parameters).is_valid(sent) is fits
    assert verdict.value == value
    for fault in verdict.faults:
        assert fault.path.startswith("$")
        assert 0 < len(fault.message) <= 300
    return fits


def holds(finish: TaskFinishEvent, schema: Any, given: Sequence[Any]) -> None:
    """The first value that a plain validator takes is the result; where it takes none, none is."""
    good = [value for value in given if is_judged_alike(schema, value)]
    if good:
        assert finish.outcome is Outcome.COMPLETED, finish
        assert json.dumps(finish.structured_output) == json.dumps(good[0])
        assert json.loads(finish.task_result) == good[0]
    else:
        assert finish.outcome is Outcome.SCHEMA_FAILED, finish
        assert not finish.has_structured_output
        assert json.dumps(finish.last_report) == json.dumps(given[-1])
        assert finish.schema_faults


@pytest.mark.usefixtures("unmeasured")
@settings(STEADY, max_examples=150)
@given(schemas, st.lists(values, min_size=1, max_size=4))
def test_any_schema_with_any_values(loop: asyncio.Runner, schema: Any, given: list[Any]) -> None:
    holds(loop.run(executor(schema, reports(schema, given)).run()), schema, given)


@pytest.mark.usefixtures("unmeasured")
@settings(STEADY, max_examples=80)
@given(pairs, pairs)
def test_values_made_to_fit_and_values_made_for_another_schema(
    loop: asyncio.Runner, pair: tuple[Any, Any], other: tuple[Any, Any]
) -> None:
    (schema, good), (_, foreign) = pair, other
    assert is_judged_alike(schema, good)
    for sent in ([good], [foreign], [foreign, good]):
        holds(loop.run(executor(schema, reports(schema, sent)).run()), schema, sent)


def drawn(count: int) -> list[tuple[Any, list[Any]]]:
    """Return schemas, each with values that don't all fit it."""
    made: list[tuple[Any, list[Any]]] = []

    @settings(STEADY, max_examples=count * 2, phases=[Phase.generate])
    @given(pairs, pairs)
    def collect(pair: tuple[Any, Any], other: tuple[Any, Any]) -> None:
        made.append((pair[0], [other[1], pair[1]] if len(made) % 2 else [other[1]]))

    collect()
    return made[-count:]


async def test_real_children_come_to_the_same_verdicts(world: Path) -> None:
    assert await hosted_fork_server("lean").ready()
    outcomes: set[Outcome] = set()
    for schema, sent in drawn(12):
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
