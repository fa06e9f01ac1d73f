"""Writers that go on: they land by themselves, and a resumed one works on the files as they are."""

from contextlib import closing

import pytest

from cli_door import Door
from conftest import wait_until
from outrider.surfaces.reports import report
from outrider.testing import ScriptedModel, answer, tool_call
from test_background import supervisor_of

pytestmark = pytest.mark.usefixtures("unmeasured")
AUTO = ("--write", "--set", "subagents.land=auto")


@pytest.fixture
def door(tmp_path, warm_runtime):
    with closing(Door(tmp_path, warm_runtime)) as door:
        (door.project / "a.py").write_text("x = 1\n")
        yield door
        door.run("stop", "--all")


def writing(*commands):
    return [*(tool_call("bash", {"command": one}) for one in commands), answer("Done.")]


def in_background(door, steps, *options):
    """Return how waiting for a coder ends that goes on by itself, and its id."""
    with ScriptedModel(steps) as server:
        words = ("run", "coder", "Go.", "--model", server.model, "--bg", *options)
        begun = door.run(*words, env=server.environment)
        assert begun.code == 0, begun.err
        return door.run("wait", begun.out.strip(), "--json"), begun.out.strip()


def resumed(door, run_id, steps, *options):
    """Return the run that goes on with another, and what its model was asked at first."""
    with ScriptedModel(steps) as server:
        words = ("resume", run_id, "Go on.", "--json", *options)
        ended = door.run(*words, env=server.environment)
        assert ended.code == 0, ended.err
        return ended.json["details"]["results"][0], server.requests[0].last_user_text


def test_whoever_waits_for_it_sees_what_has_landed(door):
    check = ("--set", "subagents.landCheck=sleep 0.5; grep -q y a.py")
    ended, run_id = in_background(door, writing("echo y = 2 >> a.py"), *AUTO, *check)
    assert ended.json["details"]["results"][0]["changes"]["state"] == "landed"
    assert (door.project / "a.py").read_text() == "x = 1\ny = 2\n"
    assert f"landed: outrider undo {run_id} takes it back" in ended.json["content"][0]["text"]
    assert f"landed: outrider undo {run_id} takes it back" in ended.err


def test_a_run_that_lands_is_listed_while_nobody_answers_for_it(door, monkeypatch):
    check = "subagents.landCheck=sleep 600"
    with ScriptedModel(writing("echo y = 2 >> a.py")) as server:
        words = ("run", "coder", "Go.", "--model", server.model, "--bg", *AUTO, "--set", check)
        run_id = door.run(*words, env=server.environment).out.strip()
        folder = door.runs / run_id
        wait_until((folder / "landing.json").exists, "the end of the child")
        wait_until(lambda: not (folder / "control.sock").exists(), "the landing")
        monkeypatch.setenv("OUTRIDER_HOME", str(door.runs.parent))
        listed = report("runs", []).lines(200)
        supervisor_of(door, run_id).kill()
        door.assert_nothing_left()
    assert [line for line in listed if run_id in line and "landing" in line]


def test_whoever_waits_for_it_is_told_why_it_did_not_land(door):
    check = ("--set", "subagents.landCheck=exit 7")
    ended, run_id = in_background(door, writing("echo y = 2 >> a.py"), *AUTO, *check)
    why = "not landed by itself: the check failed with exit code 7"
    changes = ended.json["details"]["results"][0]["changes"]
    assert (changes["state"], changes["conflicts"]) == ("pending", [{"path": ".", "reason": why}])
    assert f"{why}: outrider diff {run_id}" in ended.err
    assert door.run("land", run_id).code == 0
    assert f"landed: outrider undo {run_id} takes it back" in door.run("wait", run_id).err


def test_its_answer_has_to_pass_its_check_and_its_options_are_named(door):
    ended, _ = in_background(door, lambda _: answer("Done."), "--check", "test -f b.py", "--write")
    assert ended.json["details"]["results"][0]["outcome"] == "check_failed"
    ended, _ = in_background(door, writing("sleep 60"), "--write", "--timeout", "1s")
    assert ended.json["details"]["error"]["message"].endswith("longer than --timeout 1s allows.")


def test_a_resumed_writer_and_its_model_are_told_what_is_not_in_the_files(door):
    _, first = in_background(door, writing("echo y = 2 >> a.py"), "--write")
    look = writing("cat a.py; echo z > b.py")
    unseen = f"what run {first} changed isn't in the files now: it hasn't landed"
    run, asked = resumed(door, first, look, "--write")
    assert unseen in run["warnings"] and asked == f"Go on.\n\n[{unseen}]"
    assert [one["path"] for one in run["changes"]["files"]] == ["b.py"]
    second = run["sessionFile"].split("/")[-2]
    assert door.run("land", first).code == 0
    assert door.run("discard", second).code == 0
    run, asked = resumed(door, second, writing("cat a.py"), "--write")
    assert (
        asked == f"Go on.\n\n[what run {second} changed isn't in the files now: it was discarded]"
    )
    assert not [one for one in run["warnings"] if first in one and "landed" in one]


def test_a_resumed_run_has_no_option_of_the_earlier_command(door):
    """Its check, its limits and its leave to write are for one task, and are given anew."""
    options = ("--check", "test -f b.py", "--write", "--max-turns", "2", "--timeout", "1m")
    _, first = in_background(door, writing("echo z > b.py"), *options)
    run, _ = resumed(door, first, [*writing("ls", "cat b.py", "ls -a")], "--write")
    assert run["outcome"] == "completed" and "check" not in run, "b.py isn't in the files"
    assert run["usage"]["turns"] == 4
    run, _ = resumed(door, first, writing("ls"), "--write", "--check", "test -f a.py")
    assert run["check"]["command"] == "test -f a.py"
    refused = door.run("resume", first, "Go on.")
    assert refused.code == 2 and "subagents.allowWrite" in refused.err


def test_a_run_that_only_read_is_not_resumed_as_a_writer(door):
    with ScriptedModel([answer("Done.")]) as server:
        words = ("run", "helper", "Look.", "--model", server.model)
        door.write_agent("helper", "tools: read, bash")
        trust = ("--set", "subagents.trustedProjects=/")
        ended = door.run(*words, *trust, "--json", env=server.environment)
        assert ended.code == 0, ended.err
    run, _ = resumed(door, "last", [answer("Again.")], "--write", *trust)
    assert run.get("changes") is None
    assert any("it doesn't get bash" in one for one in run["warnings"])
