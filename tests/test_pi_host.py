"""pi's users delegate: the extension in the real pi, with JSON events and in a terminal."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from cli_door import PATIENCE_SECONDS, Door, wait_until
from outrider.testing import ModelRequest, ScriptedModel, Step, answer, silence, tool_call
from pi_door import Pi, installed_pi, write_agent, write_models
from tmux_door import Screen

pytestmark = pytest.mark.timeout(400)
CHILD = "You find things."


@pytest.fixture
def pi() -> Pi:
    return installed_pi("0.87.1")


@pytest.fixture
def door(tmp_path: Path, pi: Pi) -> Iterator[Door]:
    with closing(Door(tmp_path)) as door:
        write_agent(door.home, "finder", "model: mine/scripted")
        done = door.run("pi", "install")
        assert done.code == 0, done.err
        yield door
        door.assert_nothing_left()


def environment(door: Door, pi: Pi) -> dict[str, str]:
    return {**door.environment(), "PATH": pi.path, "PI_OFFLINE": "1"}


def is_child(request: ModelRequest) -> bool:
    return CHILD in json.dumps(request.messages[0])


def parent_and_child(calls: dict[str, Any], child: Step) -> Callable[[ModelRequest], Step]:
    """A parent that delegates once and then answers, and a child."""

    def step(request: ModelRequest) -> Step:
        if is_child(request):
            return child
        has_result = any(message["role"] == "tool" for message in request.messages)
        return answer("The parent is done.") if has_result else tool_call("subagent", calls)

    return step


OPTIONS = ("--provider", "mine", "--model", "scripted", "--no-session")


def start_pi(
    door: Door, pi: Pi, server: ScriptedModel, *words: str, **variables: str
) -> subprocess.Popen[str]:
    write_models(door.home, {"mine": server.base_url})
    return subprocess.Popen(
        ["pi", "--mode", "json", *OPTIONS, *words],
        cwd=door.project,
        env={**environment(door, pi), **variables},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def events_of(process: subprocess.Popen[str]) -> list[dict[str, Any]]:
    out, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0, err
    return [json.loads(line) for line in out.split("\n") if line]


def result_in(events: list[dict[str, Any]]) -> dict[str, Any]:
    (result,) = (one["result"] for one in events if one["type"] == "tool_execution_end")
    return result


def test_a_delegation_shows_progress_and_brings_its_result(door: Door, pi: Pi) -> None:
    calls = {"agent": "finder", "task": "Find it.", "output_schema": {"type": "object"}}
    script = parent_and_child(calls, answer('{"where": "here"}', chunk_size=4, delay=0.1))
    with ScriptedModel(script) as server:
        events = events_of(start_pi(door, pi, server, "Delegate."))
    details = result_in(events)["details"]
    assert details["results"][0]["outcome"] == "completed"
    assert details["results"][0]["structuredOutput"] == {"where": "here"}
    updates = [one["partialResult"] for one in events if one["type"] == "tool_execution_update"]
    assert updates and all("streaming" in one["details"] for one in updates)
    parents = [one for one in server.requests if not is_child(one)]
    children = [one for one in server.requests if is_child(one)]
    for own, others in ((parents, True), (children, False)):
        names = {tool["function"]["name"] for one in own for tool in one.body.get("tools", ())}
        prompt = json.dumps([one.messages[0] for one in own])
        assert ("subagent" in names) is others
        assert ("# Delegation" in prompt and "- finder:" in prompt) is others
    assert '\\"where\\"' in json.dumps(parents[-1].messages[-1])


def test_an_unknown_agent_is_a_result_with_its_code(door: Door, pi: Pi) -> None:
    script = parent_and_child({"agent": "nobody", "task": "Find it."}, answer("never"))
    with ScriptedModel(script) as server:
        result = result_in(events_of(start_pi(door, pi, server, "Delegate.")))
    assert result["details"]["error"]["code"] == "UNKNOWN_AGENT"
    assert "finder" in result["content"][0]["text"]


def offered(server: ScriptedModel) -> list[tuple[bool, bool]]:
    """Whether each request has the tool, and whether it has the policy."""
    return [
        (
            "subagent" in [tool["function"]["name"] for tool in request.body["tools"]],
            "# Delegation" in json.dumps(request.messages),
        )
        for request in server.requests
    ]


def test_in_a_child_nothing_is_registered(door: Door, pi: Pi) -> None:
    with ScriptedModel([answer("Alone.")] * 2) as server:
        events_of(start_pi(door, pi, server, "Hello."))
        events_of(start_pi(door, pi, server, "Hello.", PI_SUBAGENT_CHILD="1"))
    assert offered(server) == [(True, True), (False, False)]


def test_the_policy_alone_or_all_of_it_can_be_switched_off(door: Door, pi: Pi) -> None:
    with ScriptedModel([answer("Alone.")] * 2) as server:
        for settings in ({"injectDelegationPolicy": False}, {"enabled": False}):
            door.write_config({"subagents": settings})
            events_of(start_pi(door, pi, server, "Hello."))
    assert offered(server) == [(True, False), (False, False)]


def by_the_last_words(request: ModelRequest) -> Step:
    """A parent that delegates to whom it is told to, and a child that never ends if it waits."""
    words = json.dumps(request.messages)
    if is_child(request):
        return silence() if "Find it slowly" in words else answer("It is in the attic.")
    if request.messages[-1]["role"] == "tool":
        return answer("The parent is done.")
    last = json.dumps(request.messages[-1])
    called = [name for name in ("nobody", "finder") if name in last]
    how = "slowly" if "slowly" in last else "fast"
    return tool_call("subagent", {"agent": called[0], "task": f"Find it {how}."})


def test_in_a_terminal_a_run_is_shown_cancelled_and_reported_on(door: Door, pi: Pi) -> None:
    with ScriptedModel(by_the_last_words) as server:
        write_models(door.home, {"mine": server.base_url}, quietStartup=True)
        screen = Screen(door, *OPTIONS, env=environment(door, pi), program=["pi"])
        with closing(screen):
            screen.see(r"scripted")
            screen.enter("/toolkit agents")
            # Until it has started, pi keeps what is entered in its input, and says so.
            while not re.search("finder", screen.all):
                screen.see(r"finder|still in progress")
                screen.type("", "Enter")
            screen.enter("/toolkit doctor")
            screen.see(r"system: \d+ ok")
            screen.enter("Ask nobody.")
            screen.see(r"(?i)nobody.*finder|UNKNOWN_AGENT")
            screen.see(r"The parent is done\.")
            screen.enter("Ask finder.")
            screen.see(r"subagent finder: Find it fast\.")
            screen.see(r"It is in the attic\.")
            before = len(server.requests)
            screen.enter("Ask finder slowly.")
            screen.see(r"subagent finder: Find it slowly\.")
            screen.see(r"turn 1 ·")
            wait_until(lambda: any(map(is_child, server.requests[before:])))
            screen.type("", "Escape")
            screen.see(r"(?i)abort|cancel")
            wait_until(lambda: not any("pi/launch" in one for one in commands(door)))


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_a_pi_that_is_stopped_ends_its_child(door: Door, pi: Pi, stop: signal.Signals) -> None:
    script = parent_and_child({"agent": "finder", "task": "Find it."}, silence())
    with ScriptedModel(script) as server:
        process = start_pi(door, pi, server, "Delegate.")
        wait_until(lambda: any(map(is_child, server.requests)))
        process.send_signal(stop)
        process.communicate(timeout=PATIENCE_SECONDS)
        door.assert_nothing_left()


def by_a_coder(request: ModelRequest) -> Step:
    """A parent that delegates to the coder, which makes a file."""
    names = {tool["function"]["name"] for tool in request.body.get("tools", ())}
    has_result = request.messages[-1]["role"] == "tool"
    if "subagent" in names:
        calls = {"agent": "coder", "task": "Write it."}
        return answer("The parent is done.") if has_result else tool_call("subagent", calls)
    made = tool_call("write", {"path": "new.py", "content": "x = 1\n"})
    return answer("Written.") if has_result else made


def test_what_a_writer_changed_is_shown_and_told_to_the_model(door: Door, pi: Pi) -> None:
    changed = r"1 file, \+1 −0, not landed: outrider diff [0-9a-f]{8}"  # noqa: RUF001
    with ScriptedModel(by_a_coder) as server:
        may_write = {"OUTRIDER_MODEL": server.model, "OUTRIDER_SUBAGENTS__ALLOW_WRITE": "true"}
        variables = {**server.environment, **may_write}
        events_of(start_pi(door, pi, server, "Delegate.", **variables))
        assert re.search(changed, json.dumps(server.requests[-1].messages[-1], ensure_ascii=False))
        write_models(door.home, {"mine": server.base_url}, quietStartup=True)
        env = {**environment(door, pi), **variables}
        with closing(Screen(door, *OPTIONS, "Go.", env=env, program=["pi"])) as screen:
            screen.see(r"The parent is done\.")
            screen.see(changed)
    assert not (door.project / "new.py").exists()


def commands(door: Door) -> list[str]:
    return [" ".join(process.cmdline()) for process in door.processes()]


def test_install_says_what_it_did_and_leaves_other_files_alone(tmp_path: Path) -> None:
    with closing(Door(tmp_path)) as door:
        place = door.home / ".pi/agent/extensions/outrider.ts"
        assert str(place) in door.run("pi", "install").out
        assert json.dumps(sys.executable) in place.read_text()
        assert "replaced" in door.run("pi", "install").out
        assert door.run("pi", "uninstall", "--json").json["done"] == "removed"
        assert not place.exists()
        assert "not there" in door.run("pi", "uninstall").out
        place.write_text("// mine")
        refused = door.run("pi", "install")
        assert refused.code == 2 and "isn't Outrider's" in refused.err
        assert place.read_text() == "// mine"


def test_updates_come_one_a_line_before_the_result(tmp_path: Path) -> None:
    with closing(Door(tmp_path)) as door, ScriptedModel([answer("x " * 40, delay=0.1)]) as server:
        words = ("run", "explorer", "Look.", "--model", server.model, "--json", "--updates")
        lines = door.run(*words, env=server.environment).out.splitlines()
        *updates, last = map(json.loads, lines)
    assert updates and all("streaming" in one["details"] for one in updates)
    assert last["details"]["results"][0]["outcome"] == "completed"


def test_a_run_ends_when_nobody_reads_its_updates_any_more(tmp_path: Path) -> None:
    slowly = answer("x" * 4_000, chunk_size=40, delay=0.1)
    with closing(Door(tmp_path)) as door, ScriptedModel([slowly]) as server:
        words = ("run", "explorer", "Look.", "--model", server.model, "--json", "--updates")
        process = door.start(*words, env=server.environment)
        assert process.stdout is not None
        assert process.stdout.readline()
        process.stdout.close()
        assert process.wait(PATIENCE_SECONDS) == 141
        door.assert_nothing_left()


def test_the_extension_is_one_file_that_needs_nothing_but_pi() -> None:
    source = (Path(__file__).parent.parent / "integrations/pi/outrider.ts").read_text()
    imported = set(re.findall(r'^import (type )?.* from "([^"]+)";', source, re.MULTILINE))
    assert imported == {("", "node:child_process"), ("type ", "@earendil-works/pi-coding-agent")}
    assert len(source.splitlines()) < 350
    assert os.linesep == "\n"
