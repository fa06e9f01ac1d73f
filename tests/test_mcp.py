"""The MCP server, as third-party clients see it: the SDK's in both eras, and fastmcp's."""

import json
import sys
from contextlib import closing

import mcp_types as types
import pytest
from fastmcp import Client as FastClient
from fastmcp.client.transports import StdioTransport
from mcp import Client, MCPError, StdioServerParameters

from cli_door import Door
from outrider.testing import ScriptedModel, answer, tool_call

TASK = {"agent": "explorer", "task": "Where is main?"}
ERAS = pytest.mark.parametrize("mode", ["legacy", "2026-07-28", "auto"])


@pytest.fixture
def door(tmp_path):
    with closing(Door(tmp_path)) as door:
        (door.project / "app.py").write_text("def main():\n    pass\n")
        yield door
        door.assert_nothing_left()


def server(door, **env):
    return StdioServerParameters(
        command=sys.executable,
        args=["-m", "outrider", "mcp"],
        env=door.environment(env),
        cwd=door.project,
    )


@ERAS
async def test_the_sdk_lists_the_tools_in_every_era(door, mode):
    async with Client(server(door), mode=mode) as client:
        modern = mode != "legacy"
        assert client.protocol_version == ("2026-07-28" if modern else "2025-11-25")
        if mode != "2026-07-28":  # there nobody asks for it
            assert "# Delegation" in client.instructions
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert list(tools) == ["subagent", "subagent_result"]
        assert tools["subagent"].annotations.read_only_hint is True
        assert set(tools["subagent"].input_schema["properties"]) == {
            "agent",
            "task",
            "output_schema",
        }


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_call_tells_its_progress_and_says_the_same_in_text_and_structure(door, mode):
    told = []

    async def on_progress(progress, total, message):
        told.append((progress, message))

    script = [tool_call("grep", {"pattern": "main"}), answer("In app.py, line 1.")]
    with ScriptedModel(script) as model:
        env = {**model.environment, "OUTRIDER_MODEL": model.model}
        async with Client(server(door, **env), mode=mode) as client:
            result = await client.call_tool("subagent", TASK, progress_callback=on_progress)
    said = result.structured_content
    assert not result.is_error
    assert said["outcome"] == "completed"
    assert said["usage"]["turns"] == 2
    quoted = f'<subagent-output agent="explorer" run="{said["runId"]}" outcome="completed">'
    assert said["answer"] == f"{quoted}\nIn app.py, line 1.\n</subagent-output>"
    text = result.content[0].text
    assert said["answer"] in text and said["runId"] in text and "2 turns" in text
    assert [number for number, _ in told] == sorted({number for number, _ in told})
    messages = " ".join(message for _, message in told)
    assert "turn 1" in messages and "grep" in messages and "turn 2" in messages


async def test_structured_output_is_there_as_data_and_as_text(door):
    schema = {"type": "object", "properties": {"line": {"type": "integer"}}, "required": ["line"]}
    with ScriptedModel([tool_call("report_back", {"line": 7})]) as model:
        env = {**model.environment, "OUTRIDER_MODEL": model.model}
        async with Client(server(door, **env)) as client:
            result = await client.call_tool("subagent", {**TASK, "output_schema": schema})
    assert result.structured_content["structuredOutput"] == {"line": 7}
    assert '"line": 7' in result.content[0].text


async def test_what_did_not_complete_is_an_error_with_the_reason(door):
    async with Client(server(door)) as client:
        result = await client.call_tool("subagent", {"agent": "nobody", "task": "Hm."})
        assert result.is_error
        assert result.structured_content["outcome"] == "refused"
        assert result.structured_content["error"]["code"] == "UNKNOWN_AGENT"
        assert "explorer" in result.content[0].text
        result = await client.call_tool("subagent", {**TASK, "more": 1})
        assert result.structured_content["error"]["code"] == "INVALID_INPUT"
        result = await client.call_tool("subagent_result", {"runId": "00000000"})
        assert result.is_error and "No run" in result.content[0].text
        with pytest.raises(MCPError, match="no tool 'nothing'"):
            await client.call_tool("nothing", {})


@pytest.mark.parametrize(
    ("mode", "action"), [("legacy", "accept"), ("auto", "accept"), ("auto", "decline")]
)
async def test_a_repository_s_agent_runs_when_the_person_says_so(door, mode, action):
    door.write_agent("local", "description: Of this repository.")
    asked = []

    async def on_question(context, params):
        asked.append(params.message)
        return types.ElicitResult(action=action, content={} if action == "accept" else None)

    with ScriptedModel([answer("Done.")]) as model:
        env = {**model.environment, "OUTRIDER_MODEL": model.model}
        async with Client(
            server(door, **env), mode=mode, elicitation_callback=on_question
        ) as client:
            result = await client.call_tool("subagent", {"agent": "local", "task": "Go."})
    assert len(asked) == 1 and "local is defined by this repository" in asked[0]
    if action == "accept":
        assert "Done." in result.structured_content["answer"]
    else:
        assert result.structured_content["error"]["code"] == "SUBAGENT_DISABLED"


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_the_first_root_is_where_a_subagent_works(door, tmp_path, mode):
    other = tmp_path / "a folder"
    (other / ".git").mkdir(parents=True)

    async def on_roots(context):
        return types.ListRootsResult(roots=[types.Root(uri=other.as_uri())])

    with ScriptedModel([answer("Here.")]) as model:
        env = {**model.environment, "OUTRIDER_MODEL": model.model}
        async with Client(server(door, **env), mode=mode, list_roots_callback=on_roots) as client:
            await client.list_tools()
            result = await client.call_tool("subagent", TASK)
    session = door.runs / result.structured_content["runId"] / "session.jsonl"
    assert json.loads(session.read_text().splitlines()[0])["project"].endswith("a folder")


async def test_a_client_that_listens_is_told_when_agents_change(door):
    async with Client(server(door)) as client:
        before = await client.list_tools()
        async with client.listen(tools_list_changed=True) as listening:
            door.write_agent("newcomer", "description: New here.")
            async for _event in listening:
                break
        after = await client.list_tools()
    assert "newcomer" not in before.tools[0].description
    assert '- newcomer: "New here."' in after.tools[0].description


async def test_reports_are_prompts(door):
    async with Client(server(door)) as client:
        prompts = [prompt.name for prompt in (await client.list_prompts()).prompts]
        assert {"agents", "doctor", "runs"} <= set(prompts)
        got = await client.get_prompt("agents", {"options": "explorer"})
        assert "explorer" in got.messages[0].content.text
        with pytest.raises(MCPError):
            await client.get_prompt("nothing")


async def test_fastmcp_lists_and_calls(door):
    with ScriptedModel([answer("In app.py.")]) as model:
        env = door.environment({**model.environment, "OUTRIDER_MODEL": model.model})
        transport = StdioTransport(
            sys.executable,
            ["-m", "outrider", "mcp"],
            env=env,
            cwd=str(door.project),
            keep_alive=False,
        )
        async with FastClient(transport) as client:
            assert next(tool.name for tool in await client.list_tools()) == "subagent"
            result = await client.call_tool("subagent", TASK)
    assert "In app.py." in result.structured_content["answer"]


async def test_tools_follow_the_settings(door):
    async with Client(server(door, OUTRIDER_SUBAGENTS__ENABLED="false")) as client:
        assert (await client.list_tools()).tools == []
        assert not client.instructions
    door.write_config({"subagents": {"tools": ["Task", "Explore"], "allowWrite": True}})
    async with Client(server(door, OUTRIDER_SUBAGENTS__INJECT_DELEGATION_POLICY="false")) as client:
        tools = (await client.list_tools()).tools
        assert [tool.name for tool in tools] == ["Task", "Explore", "subagent_result"]
        # The general agent behind `Task` may write now.
        assert tools[0].annotations.read_only_hint is False
        assert not client.instructions


async def test_settings_that_cannot_be_read_are_told_and_the_tool_is_there(door):
    door.write_config("{")
    async with Client(server(door)) as client:
        assert "can't be used" in client.instructions
        assert (await client.list_tools()).tools[0].name == "subagent"
        result = await client.call_tool("subagent", TASK)
    assert result.is_error and "config.json" in result.content[0].text


async def test_descriptions_stay_under_300_tokens_however_many_agents_there_are(door):
    for number in range(60):
        door.write_agent(f"agent-{number}", f"description: {'Does much and says how. ' * 9}")
    async with Client(server(door)) as client:
        tools = (await client.list_tools()).tools
    assert all(len(tool.description.encode()) / 4 < 300 for tool in tools)
    assert '- agent-0: "Does much' in tools[0].description
