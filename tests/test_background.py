"""Runs that go on by themselves: whoever started them may end, and nothing is left behind."""

import asyncio
import stat
import sys
import threading
from contextlib import closing, suppress

import psutil
import pytest

from cli_door import PATIENCE_SECONDS, Door
from conftest import look_around, wait_until
from outrider.delegation.background import start_background
from outrider.delegation.perform import Caller
from outrider.delegation.request import Request
from outrider.delegation.run_handle import RunHandle
from outrider.testing import ScriptedModel, answer, tool_call

pytestmark = pytest.mark.usefixtures("unmeasured")


@pytest.fixture
def door(tmp_path):
    with closing(Door(tmp_path)) as door:
        yield door
        door.run("stop", "--all")


def background(door, server, *options, agent="explorer"):
    """Start a background run, and return its id."""
    words = ("run", agent, "Tell me.", "--model", server.model, "--bg", *options)
    ended = door.run(*words, env=server.environment)
    assert ended.code == 0, ended.err
    return ended.out.strip()


def supervisor_of(door, run_id):
    """Return the process that holds the lock of a run."""
    session = str(door.runs / run_id / "session.jsonl")
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if any(file.path == session for file in process.open_files()):
                return process
    raise AssertionError("nobody supervises the run")


def test_bg_prints_the_id_and_wait_prints_the_answer(door):
    with ScriptedModel([answer("Done.")]) as server:
        run_id = background(door, server)
        ended = door.run("wait", run_id)
    assert (ended.code, ended.out) == (0, "Done.\n")
    assert "completed · 1 turn" in ended.err
    assert door.run("wait", run_id, "--json").json["details"]["runId"] == run_id


def test_bg_as_json_is_a_tool_result_with_the_id(door):
    with ScriptedModel([answer("Done.")]) as server:
        words = ("run", "explorer", "Tell me.", "--model", server.model, "--bg", "--json")
        details = door.run(*words, env=server.environment).json["details"]
        assert details["results"] == []
        assert door.run("wait", details["runId"]).out == "Done.\n"


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("nobody", "Do it."), "UNKNOWN_AGENT"),
        (("explorer", "Do it.", "--set", "subagents.enabled=false"), "SUBAGENTS_DISABLED"),
        (("explorer", "Do it.", "--model", "nonsense"), "INVALID_INPUT"),
    ],
)
def test_a_refusal_is_told_in_the_foreground(door, words, code):
    refused = door.run("run", *words, "--bg", "--json")
    assert (refused.code, refused.error_code) == (2, code)
    assert door.run("runs", "--json").json["runs"] == []
    door.assert_nothing_left()


def test_a_person_is_asked_about_a_repositorys_agent_before_it_goes_on_alone(door):
    door.write_agent("helper", "tools: read")
    with ScriptedModel([answer("Done.")]) as server:
        words = ("run", "helper", "Tell me.", "--model", server.model, "--bg")
        for said, code in (("y", 0), ("n", 2)):
            terminal = door.terminal(*words, env=server.environment)
            terminal.see(r"Run it\? \[y/N\]")
            terminal.type(f"{said}\n")
            assert terminal.end() == code
        assert door.run("wait", "last").out == "Done.\n"


class Patient:
    """A model that looks around, a step at a time, until it may answer."""

    def __init__(self):
        self.may_answer = threading.Event()

    def __call__(self, request):
        if self.may_answer.is_set():
            return answer("Done.")
        return look_around(request, 0.05)


@pytest.fixture
def model():
    script = Patient()
    with ScriptedModel(script) as server:
        server.may_answer = script.may_answer
        yield server


def test_a_background_run_survives_its_shell_and_terminal_and_a_foreground_run_does_not(
    door, model
):
    run = f"{sys.executable} -m outrider run explorer x --model {model.model}"
    # The shell is a session's leader with a terminal, and runs both commands in that.
    shell = door.terminal(program=("sh", "-c", f"{run} --bg; {run}"), env=model.environment)
    wait_until(lambda: len(list(door.runs.glob("*/control.sock"))) == 2, "both runs")
    shell.process.kill()
    shell.hang_up()  # SIGHUP for what has this terminal
    shell.process.wait()
    states = []

    def one_is_left():
        runs = door.run("runs", "--json").json["runs"]
        states[:] = [run["state"] for run in runs]
        return states.count("running") == 1

    wait_until(one_is_left, "the end of the foreground run")
    assert states[0] == "running" and states[1] in ("cancelled", "interrupted")
    model.may_answer.set()
    running = door.run("runs", "--running", "--json").json["runs"]
    assert [door.run("wait", one["runId"]).out for one in running] in (["Done.\n"], [])
    assert "completed" in [one["state"] for one in door.run("runs", "--json").json["runs"]]
    door.assert_nothing_left()


def test_without_its_supervisor_a_run_and_all_it_started_are_gone(door, model):
    run_id = background(door, model)
    wait_until(lambda: len(model.requests) > 1, "the child at work")
    supervisor_of(door, run_id).kill()
    door.assert_nothing_left()
    waited = door.run("wait", run_id)
    assert waited.code == 1
    assert "The run was interrupted" in waited.err
    (run,) = door.run("runs", "--json").json["runs"]
    assert (run["runId"], run["state"]) == (run_id, "interrupted")
    result = door.run("wait", run_id, "--json").json["details"]["results"][0]
    assert (result["outcome"], result["exitCode"]) == ("failed", 1)


def test_stop_ends_runs_of_any_process(door, model):
    ids = [background(door, model) for _ in range(2)]
    other = background(door, model, agent="reviewer")
    foreground = door.start("run", "tester", "x", "-m", model.model, env=model.environment)
    wait_until(lambda: len(list(door.runs.glob("*/control.sock"))) == 4, "all four")
    assert door.run("stop", ids[0][:6]).code == 0
    assert door.run("wait", ids[0]).code == 130
    assert door.run("stop", "--agent", "explorer", "--json").json == {
        "runs": [{"runId": ids[1], "state": "cancelled"}]
    }
    assert door.run("stop", "--all").code == 0
    assert foreground.wait(PATIENCE_SECONDS) == 130
    assert door.run("wait", other, "--json").json["details"]["error"]["code"] == (
        "SUBAGENT_CANCELLED"
    )
    assert "nothing is running" in door.run("stop", "--all").err
    assert door.run("stop").code == 2
    door.assert_nothing_left()


def test_runs_shows_what_is_running_first_and_how_far_it_is(door, model):
    running = background(door, model)
    wait_until(lambda: len(model.requests) > 2, "some turns")
    with ScriptedModel([answer("Done.")]) as server:
        ended = background(door, server)
        door.run("wait", ended)
    runs = door.run("runs", "--json").json["runs"]
    assert [run["runId"] for run in runs] == [running, ended]
    assert runs[0]["turn"] >= 2 and runs[0]["step"] == "ls ." and runs[0]["usage"]["input"] > 0
    assert [run["runId"] for run in door.run("runs", "--running", "--json").json["runs"]] == [
        running
    ]
    listed = door.run("runs").out
    assert listed.index(running) < listed.index(ended)
    assert "ls ." in listed


def test_wait_for_any_for_all_and_for_so_long(door, model):
    slow = background(door, model)
    with ScriptedModel([answer("Quick.")]) as server:
        quick = background(door, server)
        assert door.run("wait", slow, quick, "--any").out == "Quick.\n"
    late = door.run("wait", slow, quick, "--timeout", "100ms")
    assert (late.code, late.out) == (124, "Quick.\n")
    assert f"Still running after 100ms: {slow}" in late.err
    assert door.run("wait", slow, "--timeout", "0.1s", "--json").error_code == "SUBAGENT_TIMEOUT"
    model.may_answer.set()
    both = door.run("wait", slow, quick)
    assert (both.code, both.out) == (0, "Done.\nQuick.\n")
    assert door.run("wait", "00000000").code == 2


def test_notify_runs_a_command_with_the_id_and_the_outcome(door):
    told = door.home / "told"
    command = f"echo $OUTRIDER_RUN_ID $OUTRIDER_RUN_OUTCOME > {told}.new && mv {told}.new {told}"
    with ScriptedModel([answer("Done.")]) as server:
        run_id = background(door, server, "--notify", command)
        wait_until(told.exists, "the command")
    assert told.read_text().split() == [run_id, "completed"]
    door.assert_nothing_left()
    assert door.run("run", "explorer", "x", "--notify", "true").code == 2


async def test_a_hundred_at_once_never_exceed_their_places_and_all_end(tmp_path, warm_runtime):
    """Some are killed while they run or wait. Who has had both answers may be gone already."""
    at_work, seen, lock = set(), [frozenset()], threading.Lock()

    def script(request):
        task = request.messages[1]["content"]
        with lock:
            if request.turn:
                at_work.discard(task)
                return answer(f"{task} is done.")
            at_work.add(task)
            seen.append(frozenset(at_work))
        return look_around(request, 0.01)

    with closing(Door(tmp_path, warm_runtime)) as door, ScriptedModel(script) as server:
        env = door.environment(server.environment)
        caller = Caller(env, {"subagents.maxConcurrent": 3})

        def kill_some():
            for number, process in enumerate(door.processes()):
                with suppress(psutil.NoSuchProcess):
                    if number % 10 == 9 and "outrider.delegation.background" in process.cmdline():
                        process.kill()

        async def start(number):
            request = Request("explorer", f"Task {number}", None, server.model, door.project)
            return await start_background(request, caller)

        ids = await asyncio.gather(*map(start, range(100)))
        kill_some()
        handles = [RunHandle(door.runs / one) for one in ids]
        results = await asyncio.gather(*(one.result() for one in handles))
        door.assert_nothing_left()
    outcomes = [one.result.outcome for one in results]
    killed = [one for one in results if one.result.error]
    # Of a supervisor that was killed, the child may ask once more before it ends.
    dead = {f"Task {number}" for number, one in enumerate(results) if one.result.error}
    assert max(len(tasks - dead) for tasks in seen) <= 3
    assert 0 < len(killed) < 20 and outcomes.count("completed") == 100 - len(killed)
    assert all("interrupted" in one.result.error for one in killed)


@pytest.mark.parametrize("isolation", ["auto", "none"])
def test_a_run_below_a_run_needs_no_place_and_ends_with_that(door, isolation):
    """There is one place, and whoever has it waits for the run below."""
    door.write_agent("doer", "tools: bash")
    inner = []

    def script(request):
        if request.messages[1]["content"] == "Inner":
            inner.append(request)
            return look_around(request, 0.02)
        if request.turn == 0:
            env = " ".join(f"{name}='{value}'" for name, value in server.environment.items())
            run = f"{sys.executable} -m outrider run explorer Inner -m {server.model} --bg"
            return tool_call("bash", {"command": f"env {env} {run}"})
        if len(inner) < 3:
            return tool_call("bash", {"command": f"sleep 0.1; echo {request.turn}"})
        return answer("Done.")

    options = {
        "allowWrite": True, "trustedProjects": "/", "network": "host", "isolation": isolation,
        "maxDepth": 2, "maxConcurrent": 1,
    }  # fmt: skip
    given = [word for name in options for word in ("--set", f"subagents.{name}={options[name]}")]
    with ScriptedModel(script) as server:
        run_id = background(door, server, *given, agent="doer")
        assert door.run("wait", run_id).out == "Done.\n"
        door.assert_nothing_left()


def test_a_home_of_any_length_has_room_for_the_socket(tmp_path, model):
    with closing(Door(tmp_path / ("long" * 40) / ("longer" * 30))) as door:
        run_id = background(door, model)
        wait_until(lambda: model.requests, "the child")
        assert door.run("stop", run_id).code == 0
        door.assert_nothing_left()


def test_the_socket_is_the_users_alone_and_goes_with_the_run(door, model):
    run_id = background(door, model)
    wait_until(lambda: model.requests, "the child")
    socket = door.runs / run_id / "control.sock"
    assert stat.S_IMODE(socket.stat().st_mode) == 0o600
    door.run("stop", run_id)
    assert not socket.exists()
