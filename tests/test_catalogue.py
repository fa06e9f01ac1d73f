"""One catalogue says which tools there are; a tool that isn't there is withheld, and told."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli_door import Door
from outrider import ErrorCode, Outcome, subagent
from outrider.testing import ScriptedModel, answer

MISSING = "lsp.enabled is off"


def write_agent(world: Path, name: str, tools: str) -> None:
    folder = Path(os.environ["HOME"]) / ".config/outrider/agents"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.md").write_text(f"---\nname: {name}\ntools: {tools}\n---\nDo it.\n")


async def test_a_missing_tool_is_told_in_the_result_and_the_transcript(world: Path) -> None:
    write_agent(world, "mine", "read, teleport")
    with ScriptedModel([answer("Done.")]) as server:
        os.environ.update(server.environment)
        result = await subagent("mine", "Go.", model=server.model)
    run = result.to_dict()["details"]["results"][0]
    assert [one["tool"] for one in run["withheld"]] == ["teleport"]
    assert "tools.modules" in run["withheld"][0]["reason"]
    opening = json.loads(Path(run["sessionFile"]).read_text().splitlines()[0])
    assert (opening["tools"], opening["withheld"]) == (["read"], run["withheld"])


@pytest.mark.parametrize("tools", ["bash, write", "teleport", "subagent"])
async def test_an_agent_left_with_none_of_its_tools_is_refused(world: Path, tools: str) -> None:
    write_agent(world, "mine", tools)
    result = await subagent("mine", "Go.", model="embedded")
    assert result.details.results == ()
    assert result.details.error is not None
    assert result.details.error.code is ErrorCode.SUBAGENT_DISABLED
    for tool in tools.split(", "):
        assert f"{tool}: " in result.text


async def test_the_refusal_names_the_setting_that_would_give_the_tool(world: Path) -> None:
    write_agent(world, "mine", "bash")
    result = await subagent("mine", "Go.", model="embedded")
    assert "subagents.allowWrite" in result.text


async def test_an_agent_that_lists_an_empty_list_runs_without_tools(world: Path) -> None:
    write_agent(world, "mine", "[]")
    with ScriptedModel([answer("Done.")]) as server:
        os.environ.update(server.environment)
        result = await subagent("mine", "Go.", model=server.model)
    assert result.details.results[0].outcome is Outcome.COMPLETED
    assert server.requests[0].tools == []


@pytest.fixture
def door(tmp_path: Path) -> Iterator[Door]:
    door = Door(tmp_path)
    yield door
    door.close()


def test_a_missing_tool_is_told_on_stderr_and_in_the_listing(door: Door) -> None:
    absent = "lsp"
    door.write_config({"lsp": {"enabled": False}})
    door.write_agent("mine", f"tools: read, {absent}")
    ran = door.run("run", "mine", "Where is main?", "--model", "embedded")
    assert f"mine runs without {absent}: {MISSING}" in ran.err
    listed = door.run("agents", "--json").json["agents"]
    mine = next(agent for agent in listed if agent["name"] == "mine")
    assert mine["tools"] == ["read"]
    assert mine["withheld"] == [{"tool": absent, "reason": MISSING}]


def test_a_refusal_for_want_of_tools_ends_with_exit_code_2(door: Door) -> None:
    door.write_agent("mine", "tools: bash")
    ran = door.run("run", "mine", "Go.", "--model", "embedded")
    assert ran.code == 2
    assert "gets none of the tools it lists" in ran.err
