"""`outrider run`: what a script gets on stdout, on stderr and as exit code."""

import json
import os
import subprocess
from contextlib import closing

import pytest

from cli_door import COMMAND, PATIENCE_SECONDS, Door
from outrider.models.local_servers import probe_local_servers
from outrider.testing import ScriptedModel, answer, fail, silence, tool_call

SCHEMA = {"type": "object", "properties": {"line": {"type": "integer"}}, "required": ["line"]}


@pytest.fixture
def door(tmp_path, warm_runtime):
    with closing(Door(tmp_path, warm_runtime)) as door:
        yield door


def ask(door, server, *options, agent="explorer", task="Where is it?", stdin=b""):
    arguments = ("run", agent, task, "--model", server.model, *options)
    return door.run(*arguments, env=server.environment, stdin=stdin)


def test_stdout_holds_the_answer_alone(door):
    with ScriptedModel([answer("In watch.py, line 7.")]) as server:
        ended = ask(door, server)
    assert (ended.code, ended.out) == (0, "In watch.py, line 7.\n")
    *warnings, first, last = ended.err.splitlines()
    assert all("warning: explorer works without " in line for line in warnings)
    assert server.model in first
    assert last.startswith("outrider: completed · 1 turn · 0 tool calls · 15 tokens · ")


def test_json_is_the_tool_result(door):
    with ScriptedModel([answer("Here.")]) as server:
        ended = ask(door, server, "--json")
    details = ended.json["details"]
    assert ended.code == 0
    assert ended.json["content"] == [{"type": "text", "text": "Here."}]
    assert details["results"][0]["outcome"] == "completed"
    assert (door.runs / details["runId"] / "result.json").is_file()


def test_task_comes_from_stdin_as_utf8(door):
    with ScriptedModel([answer("Yes.")]) as server:
        ended = ask(door, server, task="-", stdin="\ufeffWo liegt die Größe? 大小".encode())
    assert ended.code == 0
    assert "Wo liegt die Größe? 大小" in json.dumps(server.requests[0].body, ensure_ascii=False)
    assert "\ufeff" not in json.dumps(server.requests[0].body, ensure_ascii=False)


@pytest.mark.parametrize("inline", [True, False])
def test_schema_is_taken_from_a_file_or_as_it_is(door, inline):
    (door.project / "line.json").write_text(json.dumps(SCHEMA))
    given = json.dumps(SCHEMA) if inline else "line.json"
    with ScriptedModel([tool_call("report_back", {"line": 7})]) as server:
        ended = ask(door, server, "--schema", given)
    assert ended.code == 0
    assert json.loads(ended.out) == {"line": 7}


def test_cwd_is_where_the_child_works(door, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "only-here.txt").write_text("x")
    with ScriptedModel([tool_call("ls", {}), answer("Done.")]) as server:
        ask(door, server, "--cwd", str(elsewhere))
    assert "only-here.txt" in json.dumps(server.requests[1].body)


def test_failed_run_exits_with_1_and_says_why(door):
    with ScriptedModel([fail(401)]) as server:
        ended = ask(door, server)
    assert (ended.code, ended.out) == (1, "")
    assert "outrider: failed: " in ended.err
    assert "key" in ended.err
    assert "--events" in ended.err
    assert "Traceback" not in ended.err


def test_failed_run_is_a_result_in_json_too(door):
    with ScriptedModel([fail(401)]) as server:
        ended = ask(door, server, "--json")
    assert ended.code == 1
    assert ended.error_code == "SUBAGENT_FAILED"
    assert ended.json["details"]["results"][0]["exitCode"] == 1


def test_timed_out_run_exits_with_124(door):
    with ScriptedModel([silence()], repeat=True) as server:
        ended = ask(door, server, "--set", "subagents.timeoutMs=300")
    assert (ended.code, ended.out) == (124, "")
    assert "outrider: timed_out: " in ended.err
    door.assert_nothing_left()


def test_model_cannot_steer_the_terminal_through_the_answer(door):
    with ScriptedModel([answer("\x1b]0;owned\x07 a\u009b2Jb \u202egnp\r\nc\rd\te")]) as server:
        ended = ask(door, server)
    assert ended.out == "␛]0;owned␇ a\ufffd2Jb \ufffdgnp\nc␍d\te\n"


def test_json_escapes_what_steers_and_loses_nothing(door):
    said = "\x1b[2J \u009b2J \u202e \x7f"
    with ScriptedModel([answer(said)]) as server:
        ended = ask(door, server, "--json")
    assert ended.json["details"]["results"][0]["output"] == said
    assert not any(char in ended.out for char in "\x1b\u009b\u202e\x7f")


def test_ignored_setting_is_told(door):
    door.write_config({"subagents": {"timoutMs": 5}})
    with ScriptedModel([answer("Fine.")]) as server:
        ended = ask(door, server)
    assert ended.out == "Fine.\n"
    assert "unknown key subagents.timoutMs; did you mean subagents.timeoutMs?" in ended.err


@pytest.mark.skipif(probe_local_servers() is not None, reason="a model server runs here")
def test_without_a_key_the_embedded_model_answers_and_says_so(door):
    (door.project / "watch.py").write_text("def enforce_idle_timeout(): ...\n")
    ended = door.run("run", "explorer", "Where is the idle timeout enforced?")
    assert ended.code == 0
    assert "watch.py:1" in ended.out
    *_, first, _ = ended.err.splitlines()
    assert "the embedded model answers (no key and no server)" in first


def test_embedded_model_asked_for_by_name_needs_no_excuse(door):
    ended = door.run("run", "explorer", "Where is x?", "--model", "embedded")
    assert ended.code == 0
    assert "no key" not in ended.err


@pytest.mark.parametrize(("policy", "code"), [("allow", 0), ("deny", 2)])
def test_repository_agent_where_nobody_can_be_asked_follows_the_policy(door, policy, code):
    door.write_agent("local")
    setting = f"subagents.nonInteractivePolicy={policy}"
    with ScriptedModel([answer("Ran.")]) as server:
        ended = ask(door, server, "--set", setting, "--json", agent="local")
    assert ended.code == code
    assert len(server.requests) == (1 if code == 0 else 0)
    if code:
        assert ended.error_code == "SUBAGENT_DISABLED"


def test_repository_agent_that_nobody_was_asked_about_cannot_write(door):
    door.write_agent("local", "tools: read, bash")
    door.write_agent("shell", "tools: bash")
    options = ("--set", "subagents.allowWrite=true", "--json")
    with ScriptedModel([tool_call("bash", {"command": "touch made"}), answer("Ran.")]) as server:
        ended = ask(door, server, *options, agent="local")
        [withheld] = ended.json["details"]["results"][0]["withheld"]
        assert withheld["tool"] == "bash"
        assert "nobody could be asked" in withheld["reason"]
        refused = ask(door, server, *options, agent="shell")
    assert (refused.code, refused.error_code) == (2, "SUBAGENT_DISABLED")
    assert not (door.project / "made").exists()


def test_repository_agent_of_a_trusted_project_writes_as_the_user_allows(door):
    door.write_agent("local", "tools: bash")
    door.write_config({"subagents": {"allowWrite": True, "trustedProjects": [str(door.project)]}})
    with ScriptedModel([tool_call("bash", {"command": "touch made"}), answer("Ran.")]) as server:
        assert ask(door, server, agent="local").code == 0
    assert (door.project / "made").exists()


def test_command_of_a_child_cannot_read_the_keys_of_the_command_above_it(door):
    door.write_agent("local", "tools: bash")
    door.write_config({"subagents": {"allowWrite": True, "trustedProjects": ["/"]}})
    canary = f"canary-{os.urandom(8).hex()}"
    look = f"grep -l {canary} /proc/[0-9]*/environ 2>/dev/null; echo done"
    with ScriptedModel([tool_call("bash", {"command": look}), answer("Ran.")]) as server:
        arguments = ("run", "local", "Look.", "--model", server.model)
        ended = door.run(*arguments, env={**server.environment, "SOME_API_TOKEN": canary})
    assert ended.code == 0
    told = server.requests[1].messages[-1]["content"]
    assert told.startswith("done")


def test_reader_who_has_left_gets_no_traceback(door):
    with ScriptedModel([answer("word " * 50_000, chunk_size=4096)]) as server:
        arguments = ("run", "explorer", "Much.", "--model", server.model)
        process = door.start(*arguments, env=server.environment)
        process.stdout.close()
        _, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 141
    assert b"Traceback" not in err and b"BrokenPipe" not in err
    door.assert_nothing_left()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
def test_full_disk_behind_stdout_is_told_in_one_line(door):
    with open("/dev/full", "wb") as full:
        process = door.start("config", stdout=full)
        _, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 1
    assert err.decode() == "outrider: the output can't be written: No space left on device.\n"


def test_closed_standard_streams_do_no_harm(door):
    with ScriptedModel([answer("Heard by nobody.")]) as server:
        script = 'exec "$@" <&- >&- 2>&-'
        command = [*COMMAND, "run", "explorer", "x"]
        done = subprocess.run(
            ["sh", "-c", script, "sh", *command, "--model", server.model],
            cwd=door.project,
            env=door.environment(server.environment),
            timeout=PATIENCE_SECONDS,
        )
    assert done.returncode == 0
    assert door.output_file().read_text() == "Heard by nobody."


def test_latin1_terminal_still_gets_an_answer(door):
    with ScriptedModel([answer("Größe: 大")]) as server:
        env = {**server.environment, "PYTHONIOENCODING": "latin-1"}
        process = door.start("run", "explorer", "x", "--model", server.model, env=env)
        out, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0
    assert out.decode("latin-1") == "Größe: \\u5927\n"


def test_run_that_cannot_be_recorded_is_refused_with_1(door):
    (door.home / ".local").write_text("not a folder")
    with ScriptedModel([silence()]) as server:
        ended = ask(door, server)
    assert ended.code == 1
    assert len(ended.err.splitlines()) == 1
    assert "can't be recorded" in ended.err
