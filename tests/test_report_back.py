"""Structured output, with real children: the caller's shape exactly, or a failure that says why."""

import asyncio
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from cli_door import Door
from conftest import MAY_WRITE
from outrider.delegation.api import subagent
from outrider.protocol.errors import ErrorCode
from outrider.protocol.outcomes import Outcome
from outrider.protocol.results import SingleResult, ToolResult
from outrider.runtimes.native.fork_client import hosted_fork_server
from outrider.testing import (
    ModelRequest,
    ScriptedModel,
    Step,
    answer,
    empty,
    fail,
    refusal,
    tool_call,
    tool_calls,
)

FINDINGS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "findings": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"file": {"type": "string"}, "line": {"type": "integer"}},
                "required": ["file", "line"],
            },
        }
    },
    "required": ["findings"],
}
GOOD = {"findings": [{"file": "a.py", "line": 3}]}
BAD = {"findings": [{"file": "a.py", "line": "twelve"}, {"line": 1}]}
RULE = "You must end by calling the tool `report_back`"


@pytest.fixture(autouse=True)
async def children(world: Path) -> None:
    """Real children, forked from the warm process: each test can afford several."""
    assert await hosted_fork_server("lean").ready()


async def reported(
    *steps: Step,
    schema: Any = FINDINGS,
    agent: str = "explorer",
    config: dict[str, object] | None = None,
    repeat: bool = False,
) -> tuple[ToolResult, ScriptedModel]:
    with ScriptedModel(list(steps), repeat=repeat) as server:
        os.environ.update(server.environment)
        result = await subagent(
            agent, "Find the thing.", schema, model=server.model, config=config or {}
        )
        assert not server.faults
        return result, server


def single(result: ToolResult) -> SingleResult:
    assert len(result.details.results) == 1, result.text
    return result.details.results[0]


def events(result: ToolResult, kind: str) -> list[dict[str, Any]]:
    lines = Path(single(result).session_file or "").read_bytes().splitlines()
    return [event for event in map(json.loads, lines) if event["type"] == kind]


def report_tool(request: ModelRequest) -> dict[str, Any]:
    [tool] = [t["function"] for t in request.tools if t["function"]["name"] == "report_back"]
    return tool


def answers(request: ModelRequest) -> list[str]:
    return [str(m["content"]) for m in request.messages if m["role"] == "tool"]


def assert_completed(result: ToolResult, value: Any) -> None:
    run = single(result)
    assert run.outcome is Outcome.COMPLETED, run.error
    assert run.exit_code == 0
    assert run.structured_output == value
    assert json.loads(run.output) == value
    assert json.loads(result.text) == value
    assert run.schema_faults is None
    assert not run.has_last_report
    shown = result.to_dict()["details"]["results"][0]
    assert "structuredOutput" in shown and shown["structuredOutput"] == value
    [finish] = events(result, "task_finish")
    assert finish["structuredOutput"] == value
    assert json.loads(finish["taskResult"]) == value
    kept = Path(run.session_file or "").with_name("result.json")
    assert json.loads(kept.read_text())["details"]["results"][0]["structuredOutput"] == value
    assert json.loads(Path(run.output_file or "").read_text()) == value


def assert_schema_failed(result: ToolResult, *words: str) -> SingleResult:
    run = single(result)
    assert run.outcome is Outcome.SCHEMA_FAILED
    assert run.exit_code == 1
    assert result.details.error is not None
    assert result.details.error.code is ErrorCode.SUBAGENT_OUTPUT_INVALID
    assert not run.has_structured_output
    assert "structuredOutput" not in result.to_dict()["details"]["results"][0]
    assert run.schema_faults
    for word in words:
        assert word in (run.error or "")
    return run


# --- the report ----------------------------------------------------------------------------------


async def test_a_valid_report_is_the_result_and_ends_the_task() -> None:
    result, server = await reported(tool_call("report_back", GOOD, text="Here it is."))
    assert_completed(result, GOOD)
    assert len(server.requests) == 1
    assert RULE in server.requests[0].messages[0]["content"]


EMPTY_LOOKING = {
    "null": ({"type": "null"}, None),
    "false": ({"type": "boolean"}, False),
    "zero": ({"type": "integer"}, 0),
    "no text": ({"type": "string"}, ""),
    "an empty list": ({"type": "array"}, []),
    "an empty object": ({"anyOf": [{"type": "object"}]}, {}),
}


@pytest.mark.parametrize("name", EMPTY_LOOKING)
async def test_a_value_that_looks_like_nothing_is_not_dropped(name: str) -> None:
    schema, value = EMPTY_LOOKING[name]
    result, _ = await reported(tool_call("report_back", {"result": value}), schema=schema)
    assert_completed(result, value)
    assert type(single(result).structured_output) is type(value)


async def test_an_object_with_nothing_in_it_may_come_without_arguments() -> None:
    result, _ = await reported(tool_call("report_back", ""), schema={"type": "object"})
    assert_completed(result, {})


async def test_large_numbers_and_foreign_text_survive_exactly() -> None:
    value = {"n": [2**70, -(2**64) - 1, 1.5, 1e300], "text": "大小 🦊 \u2028 \x7f", "ключ": None}
    result, _ = await reported(tool_call("report_back", value), schema={"type": "object"})
    assert_completed(result, value)


async def test_a_report_of_five_megabytes_arrives_whole() -> None:
    value = ["word " * 8] * 120_000
    report = replace(tool_call("report_back", {"result": value}), chunk_size=1 << 16)
    result, _ = await reported(report, schema={"type": "array"})
    run = single(result)
    assert run.outcome is Outcome.COMPLETED, run.error
    assert run.structured_output == value
    assert json.loads(run.output) == value
    assert len(result.text) < 300_000
    assert result.details.error is not None
    assert result.details.error.code is ErrorCode.SUBAGENT_OUTPUT_TRUNCATED


# --- what the model is told ----------------------------------------------------------------------


async def test_every_fault_is_named_by_its_path_and_the_model_tries_again() -> None:
    result, server = await reported(tool_call("report_back", BAD), tool_call("report_back", GOOD))
    assert_completed(result, GOOD)
    told = answers(server.requests[1])[0]
    assert '$.findings[0].line: "twelve" is not of type "integer"' in told
    assert '$.findings[1]: "file" is a required property' in told
    assert "tries left: 2" in told
    rejected, accepted = (event["envelope"] for event in events(result, "tool_result_end"))
    assert rejected["code"] == 1002 and len(rejected["data"]["faults"]) == 2
    assert accepted["code"] == 0
    fields = {"execution_time_ms", "tool", "resource_type", "session_id", "temporary_session"}
    assert set(rejected["meta"]) == set(accepted["meta"]) == fields


async def test_a_model_that_never_gets_it_right_fails_after_its_tries() -> None:
    result, server = await reported(
        tool_call("report_back", GOOD | {"findings": 1}, text="First words."),
        tool_call("report_back", BAD),
        tool_call("report_back", BAD),
    )
    run = assert_schema_failed(result, "None of 3 reports")
    assert run.last_report == BAD
    assert [fault["path"] for fault in run.schema_faults or ()] == [
        "$.findings[0].line",
        "$.findings[1]",
    ]
    assert '$.findings[0].line: "twelve" is not of type "integer"' in result.text
    assert run.output == "First words."
    assert "tries left: 1" in answers(server.requests[2])[1]
    last = events(result, "tool_result_end")[-1]["envelope"]["message"]
    assert "no tries left" in last and "again" not in last


@pytest.mark.parametrize("tries", [1, 5])
async def test_the_number_of_tries_is_a_setting(tries: int) -> None:
    result, server = await reported(
        tool_call("report_back", BAD),
        config={"subagents.reportBackAttempts": tries},
        repeat=True,
    )
    assert_schema_failed(result, f"None of {tries} reports")
    assert len(server.requests) == tries


async def test_plain_text_is_answered_once_and_then_only_the_report_is_offered() -> None:
    result, server = await reported(
        answer("It is in a.py."), tool_call("report_back", BAD), tool_call("report_back", GOOD)
    )
    assert_completed(result, GOOD)
    first, second, third = server.requests
    assert second.tool_names == ["report_back"]
    assert first.tool_names == third.tool_names
    assert {"read", "report_back"} < set(first.tool_names)
    assert "plain text" in second.last_user_text and "`report_back`" in second.last_user_text


async def test_a_model_that_only_talks_fails_and_its_words_are_kept() -> None:
    said = answer("I said: in a.py.")
    result, server = await reported(answer("It is in a.py."), said, said)
    run = assert_schema_failed(result, "without calling report_back")
    assert len(server.requests) == 3
    assert run.output == "I said: in a.py."
    assert not run.has_last_report
    [fault] = run.schema_faults or ()
    assert fault["path"] == "$" and "never called" in fault["message"]


async def test_a_model_that_talks_after_a_bad_report_keeps_that_report() -> None:
    result, _ = await reported(
        tool_call("report_back", BAD),
        answer("Well."),
        answer("No."),
        answer("I give up.", finish_reason="length"),
    )
    run = assert_schema_failed(result, "without calling report_back", "token limit")
    assert run.last_report == BAD
    assert len(run.schema_faults or ()) == 2


async def test_an_empty_answer_is_reminded_like_plain_text() -> None:
    result, server = await reported(empty(), tool_call("report_back", GOOD))
    assert_completed(result, GOOD)
    assert server.requests[1].tool_names == ["report_back"]


async def test_a_refusal_is_a_failure_and_no_reason_to_insist() -> None:
    result, server = await reported(refusal("I won't."))
    assert single(result).outcome is Outcome.FAILED
    assert len(server.requests) == 1


async def test_a_failure_of_the_provider_stays_one_and_the_last_report_is_kept() -> None:
    result, _ = await reported(tool_call("report_back", BAD), fail(401))
    run = single(result)
    assert run.outcome is Outcome.FAILED
    assert run.last_report == BAD
    assert len(run.schema_faults or ()) == 2
    assert not run.has_structured_output


@pytest.mark.parametrize("calls", [[BAD], [BAD, GOOD]], ids=["invalid", "valid too"])
async def test_the_last_turn_of_a_budget_is_enough_for_a_report(calls: list[Any]) -> None:
    result, _ = await reported(
        tool_calls([("report_back", call) for call in calls]),
        config={"subagents.budget.maxTurns": 1},
    )
    run = single(result)
    if GOOD in calls:
        assert_completed(result, GOOD)
    else:
        assert run.outcome is Outcome.OVER_BUDGET
        assert run.last_report == BAD


# --- arguments that are no JSON ------------------------------------------------------------------

WHOLE = json.dumps(GOOD)
BROKEN = {"cut in the middle": (WHOLE[:-12], WHOLE[:-12]), "a list": ("[1, 2]", [1, 2])}


@pytest.mark.parametrize("name", BROKEN)
async def test_broken_arguments_are_an_invalid_call_and_never_mended(name: str) -> None:
    """`test_schemas.py` has what is said of each way to break them."""
    raw, kept = BROKEN[name]
    result, server = await reported(
        tool_call("report_back", raw), config={"subagents.reportBackAttempts": 1}
    )
    run = assert_schema_failed(result)
    assert run.last_report == kept
    assert "token limit" not in result.text
    assert len(server.requests) == 1


@pytest.mark.parametrize("raw", [WHOLE[:-12], ""], ids=["in the middle", "before it began"])
async def test_a_report_cut_at_the_token_limit_is_named_as_that(raw: str) -> None:
    schema = FINDINGS if raw else {"type": "object"}
    result, server = await reported(
        tool_calls([("report_back", raw)], finish_reason="length"),
        tool_call("report_back", GOOD),
        schema=schema,
    )
    assert_completed(result, GOOD)
    assert "cut at the model's token limit" in answers(server.requests[1])[0]


async def test_a_whole_report_counts_though_the_model_was_cut_after_it() -> None:
    result, _ = await reported(tool_calls([("report_back", GOOD)], finish_reason="length"))
    assert_completed(result, GOOD)


@pytest.mark.parametrize("raw", ["", "   ", "\n"])
async def test_a_call_that_was_cut_before_its_arguments_is_no_empty_report(raw: str) -> None:
    result, server = await reported(
        tool_calls([("report_back", raw)], finish_reason="length"),
        tool_call("report_back", {"a": 1}),
        schema={"type": "object", "properties": {"a": {"type": "integer"}}},
    )
    assert_completed(result, {"a": 1})
    assert "cut at the model's token limit" in answers(server.requests[1])[0]


@pytest.mark.parametrize("reason", ["content_filter", "sensitive", "error", "abort", 7])
async def test_a_report_in_a_turn_that_was_filtered_or_failed_is_not_accepted(
    reason: object,
) -> None:
    result, server = await reported(tool_call("report_back", GOOD, finish_reason=reason))
    run = single(result)
    assert run.outcome is Outcome.FAILED and run.exit_code == 1
    assert not run.has_structured_output
    assert len(server.requests) == 1


async def test_json_after_a_thought_is_a_report() -> None:
    said = f"<think>Which file?</think>\n{json.dumps(GOOD)}"
    result, _ = await reported(answer("In text."), answer("In text."), answer(said))
    assert_completed(result, GOOD)


# --- several calls in one turn -------------------------------------------------------------------


async def test_the_first_valid_report_of_a_turn_counts_and_later_ones_are_ignored() -> None:
    other = {"findings": []}
    result, server = await reported(
        tool_calls([("report_back", call) for call in (BAD, GOOD, other, BAD)])
    )
    assert_completed(result, GOOD)
    assert len(server.requests) == 1
    codes = [event["envelope"]["code"] for event in events(result, "tool_result_end")]
    assert codes == [1002, 0, 1006, 1006]
    assert "Ignored" in events(result, "tool_result_end")[-1]["envelope"]["message"]


SIBLINGS: dict[str, Sequence[tuple[str, Any]]] = {
    "after": [("report_back", GOOD), ("write", {"path": "new.txt", "content": "x"})],
    "before": [("write", {"path": "new.txt", "content": "x"}), ("report_back", GOOD)],
}


@pytest.mark.parametrize("order", SIBLINGS)
async def test_other_tools_of_the_turn_run_and_are_recorded(world: Path, order: str) -> None:
    (world / ".outrider" / "agents").mkdir(parents=True)
    (world / ".outrider" / "agents" / "writer.md").write_text(
        "---\nname: writer\ndescription: Writes.\nreadonly: false\ntools: write\n---\nWrite."
    )
    result, _ = await reported(tool_calls(SIBLINGS[order]), agent="writer", config=MAY_WRITE)
    assert_completed(result, GOOD)
    assert (world / "new.txt").read_text() == "x"
    assert [entry["path"] for entry in single(result).receipt["filesWritten"]] == ["new.txt"]


async def test_tools_that_fail_cannot_undo_a_valid_report() -> None:
    result, _ = await reported(
        tool_calls(
            [
                ("nosuch", {}),
                ("bash", {"command": "true"}),
                ("read", "{broken"),
                ("report_back", GOOD),
                ("read", {"path": "missing"}),
            ]
        )
    )
    assert_completed(result, GOOD)
    assert single(result).receipt["toolErrors"] == 4
    assert len(events(result, "tool_result_end")) == 5


@pytest.mark.parametrize("calls", [[BAD], [GOOD]], ids=["invalid", "valid"])
async def test_a_report_counts_though_its_turn_exceeds_the_tool_budget(calls: list[Any]) -> None:
    result, _ = await reported(
        tool_calls([("ls", {}), ("ls", {}), *(("report_back", call) for call in calls)]),
        config={"subagents.budget.maxToolCalls": 1},
    )
    if calls == [GOOD]:
        assert_completed(result, GOOD)
    else:
        assert single(result).outcome is Outcome.OVER_BUDGET
        assert single(result).last_report == BAD


# --- the caller's schema, before any child -------------------------------------------------------

UNUSABLE = {
    "no schema at all": ([], "is a list"),
    "a reference to the network": ({"$ref": "https://example.com/a.json"}, "leads outside"),
}


@pytest.mark.parametrize("name", UNUSABLE)
async def test_an_unusable_schema_is_refused_before_any_child(name: str) -> None:
    """`test_schemas.py` has all that makes one unusable."""
    schema, words = UNUSABLE[name]
    result, server = await reported(answer("never asked"), schema=schema)
    assert not server.requests
    assert not result.details.results
    assert result.details.error is not None
    assert result.details.error.code is ErrorCode.INVALID_INPUT
    assert words in result.details.error.message


# --- an agent's own schema -----------------------------------------------------------------------


def agent_with_schema(world: Path, schema: str) -> None:
    folder = world / ".outrider" / "agents"
    (folder / "schemas").mkdir(parents=True)
    (folder / "schemas" / "n.json").write_text(schema)
    (folder / "counter.md").write_text(
        "---\nname: counter\ndescription: Counts.\noutput_schema: schemas/n.json\n---\nCount."
    )


async def test_an_agent_brings_its_own_schema_relative_to_its_file(world: Path) -> None:
    agent_with_schema(world, '{"type": "integer"}')
    (world / "deep").mkdir()
    os.chdir(world / "deep")
    result, server = await reported(
        tool_call("report_back", {"result": "many"}),
        tool_call("report_back", {"result": 7}),
        schema=None,
        agent="counter",
    )
    assert_completed(result, 7)
    assert RULE in server.requests[0].messages[0]["content"]


async def test_the_callers_schema_replaces_the_agents_own(world: Path) -> None:
    agent_with_schema(world, '{"type": "integer"}')
    result, _ = await reported(tool_call("report_back", GOOD), agent="counter")
    assert_completed(result, GOOD)


@pytest.mark.parametrize("schema", ["{", '{"type": "number!"}'])
async def test_an_agents_unusable_schema_is_refused_before_any_child(
    world: Path, schema: str
) -> None:
    agent_with_schema(world, schema)
    result, server = await reported(answer("never asked"), schema=None, agent="counter")
    assert not server.requests
    assert result.details.error is not None
    assert result.details.error.code is ErrorCode.INVALID_INPUT


# --- on the wire ---------------------------------------------------------------------------------

NODE = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "next": {"$ref": "#/$defs/Node"}},
    "required": ["name"],
}
TREE = {"name": "a", "next": {"name": "b"}}
AS_IT_IS = {
    "a closed object": {
        "type": "object",
        "properties": {"a": {"type": "integer", "minimum": 1}, "b": {"type": ["null", "string"]}},
        "required": ["a", "b"],
        "additionalProperties": False,
    },
    "an optional property": {
        "type": "object",
        "properties": {"a": {"type": "integer", "default": 3}},
        "patternProperties": {"^x": {"type": "boolean"}},
        "minProperties": 1,
    },
    "recursive definitions": {
        "type": "object",
        "properties": {"root": {"$ref": "#/$defs/Node"}},
        "$defs": {"Node": NODE},
    },
}


@pytest.mark.parametrize("name", AS_IT_IS)
async def test_the_model_is_offered_the_callers_schema(name: str) -> None:
    schema = AS_IT_IS[name]
    _, server = await reported(refusal("Enough seen."), schema=schema)
    tool = report_tool(server.requests[0])
    assert tool["parameters"] == schema
    assert not tool.get("strict")


async def test_a_wrapped_root_is_offered_in_an_object_and_unwrapped() -> None:
    schema = {"type": "array", "items": {"$ref": "#/$defs/Node"}, "$defs": {"Node": NODE}}
    result, server = await reported(
        tool_call("report_back", {"result": [{"name": 1}]}),
        tool_call("report_back", {"result": [TREE]}),
        schema=schema,
    )
    assert_completed(result, [TREE])
    offered = report_tool(server.requests[0])["parameters"]
    assert offered["properties"]["result"]["items"] == {"$ref": "#/$defs/Node"}
    assert offered["$defs"] == {"Node": NODE}
    assert offered["required"] == ["result"]


async def test_the_last_report_of_a_wrapped_root_is_the_value_its_faults_speak_of() -> None:
    result, _ = await reported(
        tool_call("report_back", {"result": [1, "x"]}),
        schema={"type": "array", "items": {"type": "integer"}},
        config={"subagents.reportBackAttempts": 1},
    )
    run = assert_schema_failed(result)
    assert run.last_report == [1, "x"]
    assert [fault["path"] for fault in run.schema_faults or ()] == ["$[1]"]


# What providers refuse at the root of a tool's parameters, a reference among it.
ROOTS: dict[str, tuple[dict[str, Any], Any, Any]] = {
    "a reference": ({"$ref": "#/$defs/Node", "$defs": {"Node": NODE}}, TREE, {"name": 1}),
    "a reference of draft 7": (
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "$ref": "#/definitions/A~1B",
            "definitions": {
                "A/B": {
                    "type": "object",
                    "properties": {
                        "name": {"type": "string"},
                        "next": {"$ref": "#/definitions/A~1B"},
                    },
                    "required": ["name"],
                }
            },
        },
        TREE,
        {"name": 1},
    ),
    "all of several": (
        {
            "allOf": [
                {"$ref": "#/$defs/Node"},
                {"properties": {"size": {"type": "integer"}}, "required": ["size"]},
            ],
            "$defs": {"Node": NODE},
        },
        TREE | {"size": 1},
        TREE,
    ),
    "one of several": (
        {
            "type": "object",
            "oneOf": [
                {"properties": {"name": {"const": "x"}}, "required": ["name"]},
                {"properties": {"name": {"type": "integer"}, "b": True}, "required": ["b"]},
            ],
            "not": {"required": ["c"]},
        },
        {"name": "x"},
        {"c": 1, "b": 1},
    ),
}


@pytest.mark.parametrize("name", ROOTS)
async def test_what_providers_refuse_is_adapted_on_the_wire_alone(name: str) -> None:
    schema, good, bad = ROOTS[name]
    result, server = await reported(
        tool_call("report_back", bad), tool_call("report_back", good), schema=schema
    )
    assert_completed(result, good)
    offered = report_tool(server.requests[0])["parameters"]
    assert offered["type"] == "object"
    assert not {"$ref", "allOf", "anyOf", "oneOf", "not", "enum"} & offered.keys()
    assert "name" in offered["properties"]
    assert jsonschema_rs.validator_for(offered).is_valid(good)


async def test_requests_without_a_schema_know_nothing_of_reports() -> None:
    plain, without = await reported(answer("In a.py."), schema=None)
    _, with_schema = await reported(tool_call("report_back", GOOD))
    assert single(plain).output == "In a.py."
    assert "report_back" not in json.dumps(without.requests[0].body)
    assert {"structuredOutput", "schemaFaults", "lastReport", "maskedPaths"}.isdisjoint(
        plain.to_dict()["details"]["results"][0]
    )
    asked = with_schema.requests[0].body
    asked["tools"].pop()
    system = asked["messages"][0]
    kept = [line for line in system["content"].splitlines() if RULE not in line]
    system["content"] = "\n".join(kept)
    assert asked == without.requests[0].body


async def test_without_a_schema_a_report_is_a_call_of_an_unknown_tool() -> None:
    result, server = await reported(tool_call("report_back", GOOD), answer("In a.py."), schema=None)
    assert single(result).outcome is Outcome.COMPLETED
    assert single(result).output == "In a.py."
    assert not single(result).has_structured_output
    assert "no tool 'report_back'" in answers(server.requests[1])[0]


# --- secrets -------------------------------------------------------------------------------------


async def test_a_secret_in_a_report_is_masked_and_its_path_named() -> None:
    secret = "ghp_" + "a1B2c3D4e5" * 3 + "f6G7h8"
    value = {"keys": [{"name": "ci", "token": secret}], "note": "fine"}
    result, _ = await reported(tool_call("report_back", value), schema={"type": "object"})
    run = single(result)
    assert run.outcome is Outcome.COMPLETED
    assert run.masked_paths is not None
    [path] = run.masked_paths
    assert path == "$.keys[0].token"
    assert isinstance(run.structured_output, dict)
    assert run.structured_output["note"] == "fine"
    assert json.loads(run.output) == run.structured_output
    folder = Path(run.session_file or "").parent
    assert secret not in json.dumps(result.to_dict())
    assert all(secret not in path.read_text() for path in folder.iterdir())


async def test_a_secret_in_a_report_that_failed_is_masked_too() -> None:
    secret = "ghp_" + "a1B2c3D4e5" * 3 + "f6G7h8"
    result, _ = await reported(
        tool_call("report_back", {"findings": secret}), config={"subagents.reportBackAttempts": 1}
    )
    run = assert_schema_failed(result)
    assert run.has_last_report
    assert secret not in json.dumps(result.to_dict())


# --- many at once --------------------------------------------------------------------------------


async def test_a_hundred_children_never_see_one_anothers_schema() -> None:
    def script(request: ModelRequest) -> Step:
        [name] = report_tool(request)["parameters"]["properties"]
        assert name in request.last_user_text
        return tool_call("report_back", {name: name})

    async def one(server: ScriptedModel, name: str) -> Any:
        schema = {"type": "object", "properties": {name: {"const": name}}, "required": [name]}
        result = await subagent(
            "explorer",
            f"Give {name}.",
            schema,
            server.model,
            config={"subagents.maxConcurrent": 25},
        )
        return single(result).structured_output

    with ScriptedModel(script) as server:
        os.environ.update(server.environment)
        names = [f"field{number:03}" for number in range(100)]
        given = await asyncio.gather(*(one(server, name) for name in names))
        assert not server.faults
    assert given == [{name: name} for name in names]


# --- without any model ---------------------------------------------------------------------------

PLACES = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {
            "file": {"type": "string"},
            "line": {"type": "integer"},
            "text": {"type": "string"},
        },
        "required": ["file", "line", "text"],
    },
}


async def test_the_embedded_model_fills_a_schema_of_places(world: Path) -> None:
    (world / "watch.py").write_text("import os\n\n\ndef idle_timeout():\n    return 180\n")
    result = await subagent("explorer", "Where is idle_timeout?", PLACES, model="embedded")
    run = single(result)
    assert run.outcome is Outcome.COMPLETED
    assert jsonschema_rs.validator_for(PLACES).is_valid(run.structured_output)
    assert isinstance(run.structured_output, list)
    assert run.structured_output[0]["file"] == "watch.py"
    assert run.structured_output[0]["line"] == 4
    assert "def idle_timeout" in run.structured_output[0]["text"]


async def test_the_embedded_model_makes_nothing_up_to_fit_a_schema(world: Path) -> None:
    (world / "watch.py").write_text("def idle_timeout():\n    return 180\n")
    schema = {"type": "object", "properties": {"verdict": {"type": "boolean"}}}
    result = await subagent(
        "explorer", "Is idle_timeout right?", schema | {"required": ["verdict"]}, model="embedded"
    )
    run = assert_schema_failed(result)
    assert "watch.py" in run.output


# Models that can't call tools


def without_tools(
    *replies: Step, refusal: Step
) -> tuple[Callable[[ModelRequest], Step], list[Any]]:
    """A server that refuses any request with tools; the formats that it was asked for."""
    formats: list[Any] = []

    def script(request: ModelRequest) -> Step:
        if request.tools:
            return refusal
        formats.append(request.body.get("response_format"))
        return replies[len(formats) - 1]

    return script, formats


OLLAMA = fail(400, message="gemma:2b does not support tools", type="api_error")
LLAMA_CPP = fail(500, message="tools param requires --jinja flag", type="server_error")


async def asked(script: Callable[[ModelRequest], Step], schema: Any = FINDINGS) -> ToolResult:
    with ScriptedModel(script) as server:
        os.environ.update(server.environment)
        config = {"subagents.retry.enabled": False}
        return await subagent("explorer", "Find.", schema, model=server.model, config=config)


@pytest.mark.parametrize("refused", [OLLAMA, LLAMA_CPP])
async def test_a_model_that_cannot_call_tools_is_held_to_the_schema_by_its_server(
    refused: Step,
) -> None:
    script, formats = without_tools(answer(json.dumps(GOOD)), refusal=refused)
    assert_completed(await asked(script), GOOD)
    [wanted] = formats
    assert wanted["type"] == "json_schema" and wanted["json_schema"]["schema"] == FINDINGS


async def test_a_model_that_only_talks_is_held_to_the_schema_by_its_server() -> None:
    talks = [answer("In a.py."), answer("I said: in a.py.")]
    result, server = await reported(*talks, answer(json.dumps(GOOD)))
    assert_completed(result, GOOD)
    assert server.requests[2].tools == [] and server.requests[2].body["response_format"]


async def test_json_is_validated_unwrapped_and_tried_again_like_any_report() -> None:
    bad = [answer('{"result": ["x"]}'), answer('{"result": ', finish_reason="length")]
    script, formats = without_tools(*bad, answer('{"result": [3]}'), refusal=OLLAMA)
    result = await asked(script, {"type": "array", "items": {"type": "integer"}})
    assert_completed(result, [3])
    assert len(formats) == 3 and formats[0]["json_schema"]["schema"]["required"] == ["result"]
    verdicts = [one["envelope"]["code"] for one in events(result, "tool_result_end")]
    assert verdicts == [1002, 1002, 0]


async def test_json_that_never_fits_is_schema_failed_after_the_same_number_of_tries() -> None:
    script, formats = without_tools(*[answer(json.dumps(BAD))] * 3, refusal=OLLAMA)
    run = assert_schema_failed(await asked(script), "None of 3 reports fitted")
    assert len(formats) == 3 and run.last_report == BAD and len(run.schema_faults or ()) == 2


async def test_where_json_fails_too_the_first_failure_is_told() -> None:
    script, _ = without_tools(fail(400, message="no response_format"), refusal=OLLAMA)
    run = single(await asked(script))
    assert run.outcome is Outcome.FAILED and "does not support tools" in (run.error or "")


async def test_without_a_schema_nothing_is_answered_without_tools() -> None:
    script, formats = without_tools(answer("Made up."), refusal=OLLAMA)
    run = single(await asked(script, None))
    assert run.outcome is Outcome.FAILED and not formats


async def test_the_command_takes_json_from_a_model_without_tools(
    tmp_path: Path, warm_runtime: Path
) -> None:
    script, _ = without_tools(answer(json.dumps(GOOD)), refusal=OLLAMA)
    door = Door(tmp_path / "door", warm_runtime)
    with ScriptedModel(script) as server:
        flags = ("--model", server.model, "--schema", json.dumps(FINDINGS))
        ended = door.run("run", "explorer", "Find.", *flags, env=server.environment)
    assert ended.code == 0 and json.loads(ended.out) == GOOD
