"""`outrider doctor` really tries things: it notices what is broken, and tells what works."""

import os
import sys
from contextlib import closing

import pytest

from cli_door import Door
from outrider.protocol.catalogue import CATALOGUE
from outrider.testing import ScriptedModel, answer


@pytest.fixture
def door(tmp_path):
    with closing(Door(tmp_path)) as door:
        yield door


def findings(door, env=None):
    ended = door.run("doctor", "--json", env=env)
    assert ended.code == 0
    return {check["name"]: (check["status"], check["message"]) for check in ended.json["checks"]}


def test_healthy_machine_is_found_healthy_and_left_as_it_was(door, tmp_path):
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    env = {"TMPDIR": str(temporary), "OUTRIDER_MODEL": "embedded"}
    found = findings(door, env)
    # How much room the machine's disk has is its own affair, and which servers it has beside ty.
    own = {name for name in found if name == "disk" or name.startswith("language server")}
    assert {status for name, (status, _) in found.items() if name not in own} == {"ok"}
    assert found["language server ty"][0] == "ok" and "answers" in found["language server ty"][1]
    assert "did a small task in" in found["child"][1]
    assert found["ripgrep"][1].startswith("ripgrep ")
    assert f"Python {sys.version.split()[0]}" in found["platform"][1]
    assert list(temporary.iterdir()) == []
    assert list(door.runs.iterdir()) == []
    door.assert_nothing_left()


def test_report_for_people_begins_every_line_with_the_finding(door):
    door.write_agent("no name")
    ended = door.run("doctor", env={"OUTRIDER_MODEL": "embedded"})
    assert ended.code == 0
    lines = ended.out.splitlines()
    assert all(line.split()[0] in ("ok", "warn", "fail") for line in lines)
    assert any(line.startswith("fail  agents: ") and "no name.md:2" in line for line in lines)


def test_broken_things_are_findings_not_failures(door, tmp_path):
    path = door.write_config("{")
    (door.home / ".local").write_text("in the way")
    found = findings(door, {"OUTRIDER_MODEL": "embedded"})
    assert found["configuration"][0] == "fail" and str(path) in found["configuration"][1]
    assert found["state folder"][0] == "fail"
    assert found["child"][0] == "ok"


def test_tools_that_are_there_and_those_that_are_not_are_named(door):
    status, message = findings(door, {"OUTRIDER_MODEL": "embedded"})["tools"]
    there, *absent = message.split("; without ")
    assert status == "ok"
    assert there.split(", ") == [name for name, tool in CATALOGUE.items() if not tool.missing]
    for name, tool in CATALOGUE.items():
        if tool.missing:
            (line,) = (line for line in absent if name in line.partition(":")[0].split(", "))
            assert line.endswith(f": {tool.missing}")


def test_each_trouble_is_noticed_and_named(door, tmp_path):
    door.write_config({"modell": "x"})
    door.runs.mkdir(parents=True)
    door.runs.chmod(0o755)
    program = tmp_path / "bin/rg"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\nexit 3\n")
    program.chmod(0o755)
    path = f"{program.parent}:{os.environ['PATH']}"
    found = findings(door, {"PATH": path, "OUTRIDER_MODEL": "anthropic:claude-x"})
    assert_found(found, "configuration", "warn", "did you mean model?")
    assert_found(found, "state folder", "warn", "chmod 700")
    assert_found(found, "ripgrep", "fail", "doesn't run")
    assert_found(found, "model", "fail", "ANTHROPIC_API_KEY")


def assert_found(found, name, status, words):
    assert found[name][0] == status
    assert words in found[name][1]


def test_model_s_own_server_is_asked(door):
    with ScriptedModel([answer("x")]) as server:
        env = {**server.environment, "OUTRIDER_MODEL": server.model}
        status, message = findings(door, env)["model"]
        assert status == "ok" and message.endswith("answers")
        assert server.environment["OPENAI_API_KEY"] not in message
    status, message = findings(door, env)["model"]
    assert status == "fail" and "gives no answer" in message


def test_tool_of_ones_own_that_cannot_be_loaded_is_named(door):
    door.write_config({"tools": {"modules": ["no_such_tools"]}})
    found = findings(door, {"OUTRIDER_MODEL": "embedded"})
    assert found["tools of your own"][0] == "warn"
    assert "no_such_tools" in found["tools of your own"][1]
