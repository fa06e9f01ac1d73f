"""Delegation as a tool of a host: which are offered, what their text costs, what a call does."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from outrider.agents.discovery import discover
from outrider.delegation import profiles
from outrider.delegation.perform import Caller
from outrider.delegation.profiles import (
    SubAgentManager,
    SubAgentProfile,
    SubAgentState,
    SubAgentTool,
    offered_tools,
    register_sub_agent,
    sub_agent_profile,
)
from outrider.protocol.errors import ErrorCode
from outrider.protocol.outcomes import Outcome
from outrider.runtimes.native.fork_client import hosted_fork_server
from outrider.settings.files import load_settings
from outrider.testing import ModelRequest, ScriptedModel, answer, tool_call

NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
READ_ONLY = {"read", "grep", "find", "ls"}


@pytest.fixture
async def server(world: Path) -> "Iterator[ScriptedModel]":
    """A model that reports a number where it can, and else says so in words."""
    assert await hosted_fork_server("lean").ready()

    def script(request: ModelRequest) -> Any:
        can_report = "report_back" in request.tool_names
        return tool_call("report_back", {"n": 7}) if can_report else answer("Seven.")

    with ScriptedModel(script) as server:
        os.environ.update(server.environment)
        os.environ["OUTRIDER_MODEL"] = server.model
        yield server


@pytest.fixture
def own_profiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Profiles that a test registers are forgotten after it."""
    monkeypatch.setattr(profiles, "_profiles", dict(profiles._profiles))


def tools(env: dict[str, str] | None = None, agents: tuple[str, ...] = ()) -> list[SubAgentTool]:
    settings = load_settings(Path.cwd(), {**os.environ, **(env or {})}, None)
    return offered_tools(settings.config, SubAgentManager(), agents)


def tool(name: str) -> SubAgentTool:
    return SubAgentTool(sub_agent_profile(name), SubAgentManager())


# --- what is offered -----------------------------------------------------------------------------


def test_only_subagent_is_offered_by_default(world: Path) -> None:
    assert [one.name for one in tools()] == ["subagent"]


@pytest.mark.parametrize("names", ["Task", "subagent,Task,Explore", "Explore,subagent"])
def test_the_configuration_decides_what_is_offered(world: Path, names: str) -> None:
    offered = tools({"OUTRIDER_SUBAGENTS__TOOLS": names})
    assert [one.name for one in offered] == names.split(",")


def test_nothing_is_offered_where_delegation_is_off(world: Path) -> None:
    assert tools({"OUTRIDER_SUBAGENTS__ENABLED": "false"}) == []


@pytest.mark.parametrize("name", ["subagent", "Task", "Explore"])
def test_the_text_of_a_tool_costs_less_than_300_tokens(world: Path, name: str) -> None:
    agents = (*discover(Path.cwd(), os.environ).agents, *(f"{'x' * 60}{n}" for n in range(40)))
    [one] = tools({"OUTRIDER_SUBAGENTS__TOOLS": name}, agents)
    text = json.dumps([one.name, one.description, one.parameters], ensure_ascii=False)
    assert len(text.encode()) / 4 < 300
    assert one.parameters["additionalProperties"] is False


def test_the_agents_are_named_where_one_is_to_be_chosen(world: Path) -> None:
    [one] = tools(agents=tuple(discover(Path.cwd(), os.environ).agents))
    described = one.parameters["properties"]["agent"]["description"]
    assert "explorer" in described and "reviewer" in described
    assert one.profile.parameters["properties"]["agent"]["description"] == "Who does it."


def test_the_profiles_have_the_arguments_that_models_know() -> None:
    assert list(tool("subagent").parameters["properties"]) == ["agent", "task", "output_schema"]
    for name in ("Task", "Explore"):
        parameters = tool(name).parameters
        assert list(parameters["properties"]) == ["description", "prompt", "output_schema"]
        assert parameters["required"] == ["description", "prompt"]
        assert sub_agent_profile(name).output_schema_arg == "output_schema"


@pytest.mark.parametrize("name", ["subagent", "Task", "Explore"])
def test_the_description_says_what_an_output_schema_does(name: str) -> None:
    described = tool(name).description
    assert "With `output_schema` it has a tool `report_back`" in described
    assert "returns data that fits the schema" in described


# --- what a call does ----------------------------------------------------------------------------

CALLS = {
    "subagent": ({"agent": "reviewer", "task": "How many?"}, "reviewer"),
    "Task": ({"description": "Count them", "prompt": "How many?"}, "general"),
    "Explore": ({"description": "Count them", "prompt": "How many?"}, "explorer"),
}


@pytest.mark.parametrize("name", CALLS)
async def test_a_call_with_a_schema_returns_a_value_of_it(server: ScriptedModel, name: str) -> None:
    arguments, agent = CALLS[name]
    result = await tool(name).call({**arguments, "output_schema": NUMBER})
    assert result.result is not None
    assert result.result.agent == agent
    assert result.result.structured_output == {"n": 7}
    assert server.requests[0].last_user_text == "How many?"


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("schema", [{}, {"output_schema": None}], ids=["absent", "null"])
async def test_a_call_without_a_schema_returns_text(
    server: ScriptedModel, name: str, schema: dict[str, None]
) -> None:
    result = await tool(name).call(json.dumps({**CALLS[name][0], **schema}))
    assert result.text == "Seven."
    assert result.result is not None and not result.result.has_structured_output
    assert "report_back" not in server.requests[0].tool_names


@pytest.mark.parametrize("allow_write", ["false", "true"])
async def test_task_has_the_tools_that_the_user_allows(
    server: ScriptedModel, allow_write: str
) -> None:
    os.environ["OUTRIDER_SUBAGENTS__ALLOW_WRITE"] = allow_write
    await tool("Task").call(CALLS["Task"][0])
    given = set(server.requests[0].tool_names)
    assert given >= READ_ONLY
    assert ({"write", "edit", "bash"} <= given) is (allow_write == "true")
    assert {"subagent", "Task", "Explore", "report_back"}.isdisjoint(given)


async def test_explore_never_writes_whatever_the_user_allows(server: ScriptedModel) -> None:
    os.environ["OUTRIDER_SUBAGENTS__ALLOW_WRITE"] = "true"
    await tool("Explore").call(CALLS["Explore"][0])
    assert {"write", "edit", "bash"}.isdisjoint(server.requests[0].tool_names)


BAD_CALLS: dict[str, tuple[Any, str]] = {
    "no JSON": ("{", "the arguments are not JSON"),
    "a key given twice": ('{"agent": "explorer", "agent": "tester", "task": "x"}', "twice"),
    "a list": ("[]", "aren't a JSON object"),
    "nothing": ({}, "agent and task"),
    "an empty task": ({"agent": "explorer", "task": ""}, "task"),
    "a number for a task": ({"agent": "explorer", "task": 3}, "number"),
    "one field too many": ({"agent": "explorer", "task": "x", "cwd": "/"}, "Unknown field: cwd"),
    "a schema that is text": ({"agent": "explorer", "task": "x", "output_schema": "{}"}, "str"),
    "a schema of no kind": (
        {"agent": "explorer", "task": "x", "output_schema": {"type": "text"}},
        "not a type",
    ),
}


@pytest.mark.parametrize("name", BAD_CALLS)
async def test_a_call_that_cannot_be_used_is_a_result_and_starts_no_child(
    server: ScriptedModel, name: str
) -> None:
    arguments, words = BAD_CALLS[name]
    result = await tool("subagent").call(arguments)
    assert result.details.error is not None
    assert result.details.error.code is ErrorCode.INVALID_INPUT
    assert words in result.text
    assert not result.details.results
    assert not server.requests


# --- the manager ---------------------------------------------------------------------------------


async def test_the_manager_runs_what_a_state_asks_for(server: ScriptedModel) -> None:
    state = SubAgentState(
        sub_agent_type="Task",
        sub_agent_desc="Count them",
        sub_agent_prompt="How many?",
        output_schema=NUMBER,
    )
    result = await SubAgentManager(caller=Caller(os.environ)).run_sub_agent(state)
    assert not result.error
    assert result.structured_output == {"n": 7}
    assert json.loads(result.task_result) == {"n": 7}
    assert result.session_id
    assert result.task_metadata is not None
    assert result.task_metadata.outcome is Outcome.COMPLETED


async def test_a_result_without_a_report_has_no_structured_output(server: ScriptedModel) -> None:
    state = SubAgentState("Explore", "", "How many?")
    result = await SubAgentManager().run_sub_agent(state)
    assert (result.task_result, result.structured_output) == ("Seven.", None)


async def test_a_type_that_nobody_registered_is_refused(world: Path) -> None:
    state = SubAgentState("Nope", "", "x")
    result = await SubAgentManager().run_sub_agent(state)
    assert result.error
    assert "No profile 'Nope'. Known profiles: subagent, Task, Explore" in result.task_result


# --- profiles of the host's own ------------------------------------------------------------------


def counting(**changes: Any) -> SubAgentProfile:
    what = {"type": "string", "description": "What to count."}
    fields: dict[str, Any] = {
        "name": "Count",
        "description": "Count things.",
        "parameters": {
            "type": "object",
            "properties": {"what": what, "shape": {"type": "object"}},
            "required": ["what"],
        },
        "agent": "explorer",
        "prompt_arg": "what",
        "output_schema_arg": "shape",
    }
    return SubAgentProfile(**{**fields, **changes})


async def test_a_host_adds_a_profile_of_its_own(server: ScriptedModel, own_profiles: None) -> None:
    register_sub_agent(counting())
    result = await tool("Count").call({"what": "the files", "shape": NUMBER})
    assert result.result is not None
    assert result.result.structured_output == {"n": 7}
    assert server.requests[0].last_user_text == "the files"


async def test_a_profile_without_a_schema_argument_has_no_structured_output(
    server: ScriptedModel, own_profiles: None
) -> None:
    register_sub_agent(counting(output_schema_arg=None))
    result = await tool("Count").call({"what": "the files", "shape": NUMBER})
    assert result.text == "Seven."


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"name": "Task"}, "already"),
        ({"agent": None}, "either an agent or an agent_arg"),
        ({"agent_arg": "what"}, "either an agent or an agent_arg"),
        ({"prompt_arg": "prompt"}, "argument that its parameters lack"),
        ({"output_schema_arg": "schema"}, "argument that its parameters lack"),
        ({"prompt_arg": "shape"}, "must require"),
        ({"parameters": {"type": "object"}}, "argument that its parameters lack"),
    ],
)
def test_a_profile_that_could_never_work_is_not_taken(
    own_profiles: None, changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        register_sub_agent(counting(**changes))
