"""Ctrl-C and its like: the child is stopped, and what there is gets printed."""

import os
import signal
from contextlib import closing

import pytest

from cli_door import PATIENCE_SECONDS, Door
from outrider.surfaces.cli.main import COMMANDS
from outrider.testing import ScriptedModel, silence, silence_after

pytestmark = pytest.mark.usefixtures("unmeasured")

# Long enough for its beginning to be let through: the last words could be half a secret.
TEXT = "So far, so good. " * 50


@pytest.fixture
def door(tmp_path):
    with closing(Door(tmp_path)) as door:
        yield door


def interrupted(door, *signals, options=()):
    """Start a run whose model stops talking, send it signals, and return what it leaves."""
    with ScriptedModel([silence_after(TEXT)]) as server:
        arguments = ("run", "explorer", "Tell me.", "--model", server.model, *options)
        process = door.start(*arguments, env=server.environment)
        door.wait_for_output("So far, so good.")
        for number in signals:
            process.send_signal(number)
        out, err = process.communicate(timeout=PATIENCE_SECONDS)
    door.assert_nothing_left()
    return process.returncode, out.decode(), err.decode()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signal_stops_the_child_and_prints_what_there_is(door, number):
    code, out, err = interrupted(door, number)
    assert code == 130
    assert out.startswith("So far, so good. So far")
    assert "stopping …" in err
    assert "cancelled: " in err
    assert "Traceback" not in err


def test_impatient_second_signal_leaves_no_child_either(door):
    code, out, _ = interrupted(door, signal.SIGINT, signal.SIGINT, signal.SIGTERM)
    assert code == 130
    assert out.startswith("So far, so good. So far")


def test_interrupted_run_is_a_whole_result_in_json(door):
    code, out, _ = interrupted(door, signal.SIGINT, options=("--json",))
    assert code == 130
    assert '"outcome":"cancelled"' in out
    assert '"code":"SUBAGENT_CANCELLED"' in out


def test_killed_command_leaves_a_run_that_says_so(door):
    code, _, _ = interrupted(door, signal.SIGKILL)
    assert code == -signal.SIGKILL
    (run,) = door.run("runs", "--json").json["runs"]
    assert (run["state"], run["agent"], run["task"]) == ("interrupted", "explorer", "Tell me.")
    assert door.run("show", run["runId"]).out.startswith("So far, so good. ")


@pytest.mark.parametrize("module", ["argparse", "asyncio", "outrider.delegation.perform"])
def test_ctrl_c_while_the_command_is_being_loaded_shows_no_traceback(door, module):
    """Python tells of each module that it has imported: at that moment the signal comes."""
    with ScriptedModel([silence()], repeat=True) as server:
        env = {**server.environment, "PYTHONPROFILEIMPORTTIME": "1"}
        process = door.start("run", "explorer", "x", "-m", server.model, env=env)
        assert any(line.split()[-1].decode() == module for line in process.stderr)
        process.send_signal(signal.SIGINT)
        _, rest = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode in (130, -signal.SIGINT)  # a shell says 130 of both
    assert b"Traceback" not in rest and b"KeyboardInterrupt" not in rest
    door.assert_nothing_left()


# Nobody reads: a command that has something to write, or would have, ends with 128 + SIGPIPE.

READERLESS = {
    "--version": 141, "-V": 141, "--help": 141, "": 141, "nonsense": 2,
    "run explorer Look. --model embedded": 141, "run nobody x": 2, "run nobody x --json": 141,
    "ask Why? --model embedded": 141, "chat": 2, "runs": 0, "runs --json": 141, "show last": 2,
    "logs": 0, "activity": 0, "find main": 141, "agents": 141, "models": 141, "lsp": 141,
    "web fetch http://127.0.0.1:1": 1, "modules": 141, "config": 141, "doctor": 141, "help": 141,
    "help run": 141, "pi": 2, "mcp": 0, "mcp install cursor --print": 141, "warm --status": 141,
    "completion bash": 141, "resume last x": 2, "watch": 2, "tell last x": 2, "wait last": 2,
    "stop --all": 0, "stop --all --json": 141, "diff last": 2, "land last": 2, "undo last": 2,
    "discard last": 2,
    "map explorer -": 141, "map nobody - --json": 141, "view --port 99999 --no-open": 2,
}  # fmt: skip


def test_every_command_is_tried_without_a_reader():
    assert set(COMMANDS) <= {call.partition(" ")[0] for call in READERLESS}


@pytest.mark.parametrize("call", READERLESS)
def test_a_command_ends_with_its_own_code_where_nobody_reads(door, call):
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "wb", buffering=0) as pipe:
        # Each of them has something to say on stderr.
        env = {"OUTRIDER_BOGUS": "1"}
        process = door.start(*call.split(), env=env, stdout=pipe, stderr=pipe)
        code = process.wait(PATIENCE_SECONDS)
    assert code == READERLESS[call]


def test_a_command_completes_where_only_its_messages_have_no_reader(door):
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "wb", buffering=0) as pipe:
        process = door.start("agents", env={"OUTRIDER_BOGUS": "1"}, stderr=pipe)
        out, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0
    assert b"explorer" in out
