"""`outrider agents`, `config`, `runs` and `show`: what there is, for people and for programs."""

import json
import re
import time
from contextlib import closing

import pytest

from cli_door import Door
from outrider.agents.definitions import AGENT_FIELDS
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
    assert "  without write, edit: subagents.allowWrite is off; teleport: unknown tool" in out


def test_agent_that_gets_none_of_its_tools_is_listed_as_off(door):
    door.write_agent("writer", "tools: write")
    door.write_agent("thinker", "tools: []")
    out = door.run("agents", env=KEY).out
    assert "  project, off: none of its tools are available · openai:" in out
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
    assert f"not used; {own} also defines explorer" in ended.out
    listing = door.run("agents", "--json", env=KEY).json
    assert {note["path"] for note in listing["diagnostics"]} == {str(broken), str(typo)}
    assert [lost["source"] for lost in listing["shadowed"]] == ["builtin"]


def test_agent_file_cannot_steer_the_terminal(door):
    door.write_agent("evil", "description: a\x1b[2Jb\u202e", "desc\x1bription: x")
    ended = door.run("agents", env=KEY)
    assert "evil" in ended.out
    assert not {"\x1b", "\u202e"} & set(ended.out + ended.err)


def test_one_agent_is_shown_in_full(door):
    path = door.write_agent("local", "tools: read, write", body="Look\n  - closely\x1b[2J.")
    ended = door.run("agents", "local", env=KEY)
    assert ended.code == 0 and "\x1b" not in ended.out
    for shown in (str(path), "read", "write: subagents.allowWrite is off", "- closely␛[2J."):
        assert shown in ended.out
    agent = door.run("agents", "local", "--json", env=KEY).json["agent"]
    assert agent["systemPrompt"] == "Look\n  - closely\x1b[2J."
    assert agent["tools"] == ["read"] and agent["withheld"][0]["tool"] == "write"


def test_new_agent_is_a_commented_file_that_works(door):
    path = door.home / ".config/outrider/agents/my-agent.md"
    made = door.run("agents", "new", "my-agent", "--json").json
    assert made == {"name": "my-agent", "path": str(path)}
    text = path.read_text()
    assert all(f"{name}:" in text and meaning in text for name, _, meaning in AGENT_FIELDS)
    listing = door.run("agents", "--json", env=KEY).json
    (agent,) = (one for one in listing["agents"] if one["name"] == "my-agent")
    assert agent["readonly"] and agent["tools"] == ["read", "grep", "find", "ls"]
    assert listing["diagnostics"] == []
    again = door.run("agents", "new", "my-agent")
    assert again.code == 2 and f"my-agent exists already: {path}" in again.err
    assert "exists already" in door.run("agents", "new", "explorer").err
    assert path.read_text() == text


# modules, lsp


def test_modules_tell_what_is_on_and_why(door):
    door.write_config({"web": {"provider": "brave"}, "tools": {"modules": ["no_such_tools"]}})
    env = {**KEY, "BRAVE_SEARCH_API_KEY": "x", "EXA_API_KEY": "x", "OUTRIDER_MODEL": "embedded"}
    modules = door.run("modules", "--json", env=env).json["modules"]
    found = {(one["kind"], one["name"]): (one["on"], one["why"]) for one in modules}
    assert found["tools", "read"] == (True, "built in")
    assert found["tools", "write"] == (False, "subagents.allowWrite is off")
    assert "no_such_tools" in found["tools", "?"][1]
    assert found["search", "brave"] == (True, "BRAVE_SEARCH_API_KEY is set")
    assert found["search", "exa"] == (False, "not used: web.provider is brave")
    assert found["search", "tavily"] == (False, "not used: TAVILY_API_KEY is not set")
    assert found["models", "embedded"] == (True, "used by default: OUTRIDER_MODEL, embedded wire")
    assert ("models", "openai:gpt-6.1-terra") in found
    assert found["converter", "markitdown"][0]
    assert found["hosts", "Codex"] == (False, "not registered: outrider mcp install codex")
    terminal = door.terminal("modules", columns=60, env=env)
    assert terminal.end() == 0
    assert max(map(len, terminal.screen.splitlines())) <= 60
    assert found["servers", "ty"][0]
    servers = door.run("lsp", "--json").json["servers"]
    assert [one["on"] for one in servers if one["name"] == "ty"] == [True]


# models


def test_models_tell_what_could_answer_and_which_one_does(door):
    env = {**KEY, "ANTHROPIC_API_KEY": "x", "XAI_API_KEY": "x"}
    models = door.run("models", "--json", env=env).json["models"]
    assert [one["answers"] for one in models] == [True, *[False] * (len(models) - 1)]
    found = {one["model"]: one for one in models}
    assert models[0]["model"] == "openai:gpt-6.1-terra"
    assert found["anthropic:claude-sonnet-5-5"]["why"] == "ANTHROPIC_API_KEY is set"
    assert found["xai:"]["problem"]
    assert {found[name]["wire"] for name in ("openai:gpt-6.1-terra", "xai:")} == {"sdk"}
    named = ("models", "--json")
    lean = {**env, "OUTRIDER_MODEL": "openai-chat:mine"}
    assert door.run(*named, env=lean).json["models"][0]["wire"] == "lean"
    for variable, value in {"OUTRIDER_MODELS__WIRE": "sdk", "HTTPS_PROXY": "http://p"}.items():
        other = door.run(*named, env={**lean, variable: value}).json["models"][0]
        assert other["wire"] == "sdk", variable
    assert models[-1]["model"] == "embedded"
    named = door.run("models", env={**env, "OUTRIDER_MODEL": "embedded"})
    assert named.out.splitlines()[0].split() == ["embedded", "used", "embedded", "OUTRIDER_MODEL"]
    terminal = door.terminal("models", columns=50, env=env)
    assert terminal.end() == 0
    assert max(map(len, terminal.screen.splitlines())) <= 50


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


def test_runs_are_listed_newest_last_with_their_ends(door):
    five_lines = say_five_lines(door)
    with ScriptedModel([fail(401)]) as server:
        arguments = ("run", "tester", "Fail, please.", "--model", server.model)
        door.run(*arguments, env=server.environment)
    ended = door.run("runs")
    oldest, newest = ended.out.splitlines()
    assert " failed " in newest and "tester" in newest and "Fail, please." in newest
    assert oldest.startswith(five_lines) and oldest.endswith("Count.")
    assert " completed " in oldest and " 135 " in oldest and " project " in oldest
    runs = door.run("runs", "--json").json["runs"]
    assert [run["state"] for run in runs] == ["failed", "completed"]
    assert runs[1]["usage"]["turns"] == 2
    assert runs[1]["project"] == str(door.project)
    assert runs[0]["exitCode"] == 1


@pytest.fixture
def recorded(door):
    """A door behind which there are 25 runs, the newest one last."""
    for number in range(25):
        folder = door.runs / f"{number:08x}"
        folder.mkdir(parents=True)
        about = {"agent": "tester" if number % 5 else "explorer", "task": f"task {number}"}
        began = {"startedAt": time.time() - 3600.0 * (24 - number), "project": f"/p/{number % 2}"}
        events = (about | began, {"type": "end"})
        (folder / "session.jsonl").write_text("\n".join(map(json.dumps, events)))
        outcome = {"outcome": "failed" if number % 4 == 0 else "completed", **about}
        outcome |= {"model": "openai-chat:m", "durationMs": 1234, "usage": {"input": 100_000}}
        result = {"details": {"results": [outcome]}}
        (folder / "result.json").write_text(json.dumps(result))
    return door


def ids(door, *options):
    return [int(run["runId"], 16) for run in door.run("runs", "--json", *options).json["runs"]]


def test_runs_are_limited_for_people_and_whole_for_programs(recorded):
    ended = recorded.run("runs")
    assert [int(line[:8], 16) for line in ended.out.splitlines()] == list(range(5, 25))
    assert "the newest 20 of 25 runs" in ended.err
    assert len(recorded.run("runs", "--limit", "30").out.splitlines()) == 25
    assert ids(recorded) == list(range(24, -1, -1))


def test_runs_are_filtered(recorded, tmp_path):
    assert ids(recorded, "--agent", "explorer") == [20, 15, 10, 5, 0]
    assert ids(recorded, "--agent", "explorer", "--outcome", "failed") == [20, 0]
    assert ids(recorded, "--since", "150m") == [24, 23, 22]
    assert ids(recorded, "--since", "2000-01-01", "--limit", "2") == [24, 23]
    assert ids(recorded, "last", "-2", "00000007") == [24, 23, 7]
    assert ids(recorded, "--project", ".") == []
    assert "no runs match" in recorded.run("runs", "--project", ".").err


def test_runs_are_found_by_their_project(door):
    run_id = say_five_lines(door)
    below = door.project / "below"
    below.mkdir()
    assert ids(door, "--project", str(below)) == [int(run_id, 16)]
    assert ids(door, "--project", "/") == []


def test_runs_are_deleted_by_id_and_by_filter(recorded):
    ended = recorded.run("runs", "--delete", "00000018", "00000001", "--json")
    assert {run["runId"] for run in ended.json["deleted"]} == {"00000018", "00000001"}
    ended = recorded.run("runs", "--delete", "--outcome", "failed")
    assert ended.code == 0 and "6 runs deleted" in ended.err
    assert all(number % 4 and number != 1 for number in ids(recorded))
    assert len(ids(recorded)) == len(list(recorded.runs.iterdir())) == 17


def test_run_that_is_running_is_not_deleted(door):
    with ScriptedModel([silence()], repeat=True) as server:
        arguments = ("run", "explorer", "Take your time.", "--model", server.model)
        door.start(*arguments, env=server.environment)
        server.wait_for_requests(1)
        ended = door.run("runs", "--delete", "last")
        assert "0 runs deleted" in ended.err and "1 run not deleted" in ended.err
        assert door.run("runs", "--json").json["runs"][0]["state"] == "running"


@pytest.mark.parametrize("columns", [80, 40])
def test_runs_fit_the_terminal(recorded, columns):
    terminal = recorded.terminal("runs", columns=columns)
    assert terminal.end() == 0
    lines = [line for line in terminal.screen.splitlines() if "outrider: " not in line]
    assert max(map(len, lines)) <= columns
    text = " ".join(terminal.screen.split())
    for shown in ("00000018", "failed", "explorer", "tester", "task 24"):
        assert shown in text
    if columns == 80:
        heading = lines[0].split()
        assert heading[:5] == ["run", "started", "state", "agent", "project"]
        assert heading[-1] == "task" and "model" not in heading
    else:
        assert re.search(r"00000018 · [\d-]+ [\d:]+ · failed ·\s+tester\s+task 24", terminal.screen)


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


def test_show_takes_the_newest_run_and_those_before_it(recorded):
    for number, name in ((24, "last"), (24, "-1"), (22, "-3")):
        assert recorded.run("show", name, "--json").json["runId"] == f"{number:08x}"


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
