"""`outrider agents`, `config`, `runs` and `show`: what there is, for people and for programs."""

import json
from contextlib import closing

import pytest

from cli_door import Door
from outrider.settings.keys import KEYS
from outrider.testing import ScriptedModel, answer, fail, silence, tool_call

KEY = {"OPENAI_API_KEY": "sk-not-a-real-key-000000", "OPENAI_BASE_URL": ""}
FIVE_LINES = "one\ntwo\nthree\nfour\nfive"


@pytest.fixture
def door(tmp_path, warm_runtime):
    with closing(Door(tmp_path, warm_runtime)) as door:
        yield door


@pytest.fixture(scope="module")
def told(tmp_path_factory, warm_runtime):
    """A door behind which one run has said five lines, and the id of that run."""
    with closing(Door(tmp_path_factory.mktemp("told"), warm_runtime)) as door:
        yield door, say_five_lines(door)


def say_five_lines(door):
    steps = [tool_call("ls", {}), answer(FIVE_LINES, usage=(100, 20))]
    with ScriptedModel(steps) as server:
        arguments = ("run", "explorer", "Count.\nThen stop.", "--model", server.model, "--json")
        ended = door.run(*arguments, env=server.environment)
    return ended.json["details"]["runId"]


# agents


def test_agents_tell_name_source_tools_and_model(door):
    door.write_agent("local", "description: Knows: this place.", "tools: read, write")
    ended = door.run("agents", env=KEY)
    assert ended.code == 0
    assert "local        Knows: this place.\n" in ended.out
    assert "  project, asks first · read · openai:" in ended.out
    assert "explorer" in ended.out and "  builtin · read, grep" in ended.out


def test_agents_tell_which_listed_tools_are_not_given_and_why(door):
    door.write_agent("local", "tools: read, write, edit, teleport")
    out = door.run("agents", env=KEY).out
    assert "  without write, edit: subagents.allowWrite is off; teleport: no tool " in out


def test_agent_that_gets_none_of_its_tools_is_listed_as_off(door):
    door.write_agent("writer", "tools: write")
    door.write_agent("thinker", "tools: []")
    out = door.run("agents", env=KEY).out
    assert "  project, off: gets none of its tools · openai:" in out
    assert "  project, asks first · no tools · openai:" in out
    listing = door.run("agents", "--json", env=KEY).json["agents"]
    agents = {agent["name"]: agent for agent in listing}
    assert agents["writer"]["mayRun"] == "refuse"
    assert "write: subagents.allowWrite is off" in agents["writer"]["mayRunReason"]
    assert agents["thinker"]["mayRun"] == "ask"
    assert door.run("run", "writer", "x", "--json", env=KEY).error_code == "SUBAGENT_DISABLED"


def test_agents_in_json_hold_the_reasons(door):
    door.write_agent("local", "tools: read, write")
    door.write_config({"subagents": {"disabled": ["tester"]}})
    listing = door.run("agents", "--json", env=KEY).json
    agents = {agent["name"]: agent for agent in listing["agents"]}
    assert agents["local"]["tools"] == ["read"]
    assert agents["local"]["withheld"] == [
        {"tool": "write", "reason": "subagents.allowWrite is off"}
    ]
    assert agents["local"]["mayRun"] == "ask"
    assert agents["tester"]["mayRun"] == "refuse"
    assert agents["explorer"]["mayRun"] == "run"
    assert agents["explorer"]["modelReason"] == "OPENAI_API_KEY is set"


def test_faulty_and_shadowed_agent_files_are_named(door):
    broken = door.write_agent("no name")
    typo = door.write_agent("typo", "desciption: x")
    own = door.write_agent("explorer")
    ended = door.run("agents", env=KEY)
    assert f"{broken}:2: error: " in ended.out
    assert f"{typo}:3: warning: unknown key desciption, ignored; did you mean" in ended.out
    assert f"not used; {own} defines explorer too" in ended.out
    listing = door.run("agents", "--json", env=KEY).json
    assert {note["path"] for note in listing["diagnostics"]} == {str(broken), str(typo)}
    assert [lost["source"] for lost in listing["shadowed"]] == ["builtin"]


def test_agent_file_cannot_steer_the_terminal(door):
    door.write_agent("evil", "description: a\x1b[2Jb\u202e", "desc\x1bription: x")
    ended = door.run("agents", env=KEY)
    assert "evil" in ended.out
    assert not {"\x1b", "\u202e"} & set(ended.out + ended.err)


# config


def test_config_tells_every_key_and_where_its_value_came_from(door):
    path = door.write_config({"subagents": {"maxDepth": 2, "typo": 1}})
    env = {"OUTRIDER_LIMITS__EVENTS": "500"}
    values = door.run("config", "--json", env=env).json["values"]
    assert list(values) == list(KEYS)
    assert values["subagents.maxDepth"] == {"value": 2, "origin": f"user {path}"}
    assert values["limits.events"] == {"value": 500, "origin": "OUTRIDER_LIMITS__EVENTS"}
    assert values["subagents.tools"] == {"value": ["subagent"], "origin": "default"}
    ended = door.run("config", env=env)
    assert [line.split()[0] for line in ended.out.splitlines()] == list(KEYS)
    assert "warning: " in ended.err and "subagents.typo" in ended.err


def test_config_looks_at_the_folder_it_is_told_to(door, tmp_path):
    other = tmp_path / "other/.outrider"
    other.mkdir(parents=True)
    (other / "config.json").write_text('{"subagents": {"enabled": false}}')
    ended = door.run("config", "--json", "--cwd", str(other.parent)).json
    assert ended["values"]["subagents.enabled"]["value"] is False
    assert ended["files"]["project"] == str(other / "config.json")


# runs


def test_no_runs_yet_is_no_failure(door):
    assert (door.run("runs").code, door.run("runs").out) == (0, "")
    assert door.run("runs", "--json").json == {"runs": []}


def test_runs_are_listed_newest_first_with_their_ends(door):
    five_lines = say_five_lines(door)
    with ScriptedModel([fail(401)]) as server:
        arguments = ("run", "tester", "Fail, please.", "--model", server.model)
        door.run(*arguments, env=server.environment)
    ended = door.run("runs")
    newest, oldest = ended.out.splitlines()
    assert " failed " in newest and "tester" in newest and "Fail, please." in newest
    assert oldest.startswith(five_lines) and oldest.endswith("Count.")
    assert " completed " in oldest and " 135 " in oldest
    runs = door.run("runs", "--json").json["runs"]
    assert [run["state"] for run in runs] == ["failed", "completed"]
    assert runs[1]["usage"]["turns"] == 2
    assert runs[0]["exitCode"] == 1


def test_run_under_way_is_listed_as_running_and_can_be_read(door):
    with ScriptedModel([silence()], repeat=True) as server:
        arguments = ("run", "explorer", "Take your time.", "--model", server.model)
        door.start(*arguments, env=server.environment)
        server.wait_for_requests(1)
        (run,) = door.run("runs", "--json").json["runs"]
        events = door.run("show", run["runId"], "--events").out.splitlines()
    assert (run["state"], run["task"]) == ("running", "Take your time.")
    assert json.loads(events[0])["type"] == "run"
    assert "has no output" in door.run("show", run["runId"]).err


def test_listing_prints_no_task_that_steers(door):
    arguments = ("run", "explorer", "a\x1b[2Jb", "--model", "embedded")
    door.run(*arguments)
    assert "a␛[2Jb" in door.run("runs").out


# show


def test_show_prints_the_whole_output(told):
    door, five_lines = told
    ended = door.run("show", five_lines)
    assert (ended.code, ended.out) == (0, FIVE_LINES + "\n")


@pytest.mark.parametrize(
    ("lines", "shown"),
    [
        ("2:3", "two\nthree\n"),
        ("4:", "four\nfive\n"),
        (":2", "one\ntwo\n"),
        ("3", "three\n"),
        (":", FIVE_LINES + "\n"),
        ("5:99", "five\n"),
        ("6:", ""),
    ],
)
def test_show_prints_the_lines_asked_for(told, lines, shown):
    door, five_lines = told
    ended = door.run("show", five_lines[:6], "--lines", lines)
    assert (ended.code, ended.out) == (0, shown)
    assert ("ends with line 5" in ended.err) == (shown == "")


def test_show_in_json_holds_the_result_and_the_range(told):
    door, five_lines = told
    shown = door.run("show", five_lines, "--json", "--lines", "2:2").json
    assert shown["output"] == "two\n"
    assert shown["lines"] == {"first": 2, "shown": 1, "total": 5}
    assert shown["result"]["details"]["results"][0]["output"] == FIVE_LINES


def test_events_are_json_lines_in_a_pipe_and_readable_on_a_terminal(told):
    door, five_lines = told
    events = [
        json.loads(line) for line in door.run("show", five_lines, "--events").out.splitlines()
    ]
    kinds = [event["type"] for event in events]
    assert kinds[0] == "run" and kinds[-1] == "end"
    assert {"session", "turn_start", "tool_start", "tool_result_end", "task_finish"} <= set(kinds)
    terminal = door.terminal("show", five_lines, "--events")
    assert terminal.end() == 0
    assert "tool_start       ls" in terminal.screen
    assert "completed" in terminal.screen.splitlines()[-1]


def test_reader_of_a_listing_may_leave_early(told):
    door, five_lines = told
    ended = door.shell(f'"$0" -m outrider show {five_lines} --events | head -n 1')
    assert len(ended.out.splitlines()) == 1
    assert ended.err == ""
