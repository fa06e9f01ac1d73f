"""Over MCP: runs that go on without their host, messages for them, and follow-ups."""

import json
import signal
from contextlib import suppress

import pytest

from conftest import wait_until
from mcp_door import RawClient
from outrider.testing import ScriptedModel, answer
from test_background import door, model  # noqa: F401  (fixtures)

pytestmark = pytest.mark.usefixtures("unmeasured")
TASK = {"agent": "explorer", "task": "Tell me."}


def host(door, server):  # noqa: F811
    soon = {"OUTRIDER_MCP__REPLY_WITHIN_MS": "100"}
    client = RawClient(door, {**server.environment, "OUTRIDER_MODEL": server.model, **soon})
    client.initialize()
    return client


def test_a_background_run_survives_its_host_and_any_later_server_finds_it(door, model):  # noqa: F811
    first = host(door, model)
    foreground = first.call("subagent", TASK)["structuredContent"]
    background = first.call("subagent", {**TASK, "background": True})
    run_id = background["structuredContent"]["runId"]
    assert background["structuredContent"]["outcome"] == "running"
    assert "it goes on by itself" in background["content"][0]["text"]
    wait_until(lambda: len(model.requests) > 3, "both")
    first.process.send_signal(signal.SIGKILL)
    first.process.wait()
    states = {}

    def only_one_runs():
        runs = door.run("runs", "--json").json["runs"]
        states.update({one["runId"]: one["state"] for one in runs})
        return list(states.values()).count("running") == 1

    wait_until(only_one_runs, "the end of the foreground run")
    assert states[run_id] == "running" and len(states) == 2
    assert foreground["outcome"] in ("running", "waiting")
    later = host(door, model)
    waiting = later.call("subagent_result", {"runId": run_id, "waitMs": 1})["structuredContent"]
    assert (waiting["outcome"], waiting["runId"]) == ("running", run_id)
    told = later.call(
        "subagent_result", {"runId": run_id, "tell": "Hurry", "waitMs": 60_000}, progressToken=1
    )
    assert "read in turn" in told["content"][0]["text"]
    assert model.requests[-1].messages[-1]["content"] == "Hurry" or any(
        one["content"] == "Hurry" for one in model.requests[-1].messages
    )
    model.may_answer.set()
    ended = {"outcome": "running"}
    while ended["outcome"] == "running":  # on a busy machine an answer may come before the end
        asked = {"runId": run_id, "waitMs": 60_000}
        ended = later.call("subagent_result", asked, progressToken=2)["structuredContent"]
    assert ended["outcome"] == "completed" and "Done." in ended["answer"]
    assert later.close() == 0
    door.assert_nothing_left()


def test_a_message_for_a_run_that_has_ended_is_a_follow_up(door):  # noqa: F811
    with ScriptedModel([answer("First."), answer("Second.")]) as server:
        client = host(door, server)
        first = client.call("subagent", TASK, progressToken=1)["structuredContent"]
        words = {"runId": first["runId"], "tell": "And then?"}
        second = client.call("subagent_result", words, progressToken=2)["structuredContent"]
        assert client.close() == 0
        texts = [one["content"] for one in server.requests[-1].messages[1:]]
    assert "Second." in second["answer"] and second["runId"] != first["runId"]
    assert texts == ["Tell me.", "First.", "And then?"]


def test_a_run_of_another_process_can_be_stopped(door, model):  # noqa: F811
    client = host(door, model)
    run_id = client.call("subagent", {**TASK, "background": True})["structuredContent"]["runId"]
    stopped = client.call("subagent_result", {"runId": run_id, "stop": True})
    assert stopped["structuredContent"]["outcome"] == "cancelled"
    assert client.call("subagent", {**TASK, "background": 1})["isError"]
    assert client.close() == 0


def test_the_tools_grew_by_at_most_60_tokens(door):  # noqa: F811
    """With four bytes for a token: what they say of background runs is all that is new."""
    with ScriptedModel([answer("x")]) as server:
        client = host(door, server)
        tools = {one["name"]: one for one in client.ask("tools/list")["result"]["tools"]}
        client.close()
    subagent, reader = tools["subagent"], tools["subagent_result"]
    assert list(subagent["inputSchema"]["properties"]) == [
        "agent", "task", "output_schema", "background",
    ]  # fmt: skip
    new = [{"background": subagent["inputSchema"]["properties"]["background"]}]
    new += [{"tell": reader["inputSchema"]["properties"]["tell"]}]
    sentence = [one for one in reader["description"].split(". ") if "`tell`" in one]
    assert len(json.dumps([*new, *sentence])) / 4 <= 60
    with suppress(KeyError):
        assert "background" not in tools["Task"]["inputSchema"]["properties"]
