"""Watching runs: whoever started them, from their first event to their answer."""

import signal

import pytest

from cli_door import PATIENCE_SECONDS
from conftest import wait_until
from test_background import background, door, model  # noqa: F401  (fixtures)

pytestmark = pytest.mark.usefixtures("unmeasured")


def test_watch_replays_a_run_and_follows_it_to_its_answer(door, model):  # noqa: F811
    run_id = background(door, model)
    wait_until(lambda: len(model.requests) > 2, "some turns")
    watching = door.start("watch", run_id)
    seen = [watching.stderr.readline().decode() for _ in range(2)]
    model.may_answer.set()
    out, err = watching.communicate(timeout=PATIENCE_SECONDS)
    assert seen == ["outrider: turn 1 · ls .\n", "outrider: turn 2 · ls .\n"]
    assert out == b"Done.\n" and b"completed" in err
    assert watching.returncode == 0


def test_watch_draws_the_run_on_a_terminal_with_its_text_as_it_comes(door, model):  # noqa: F811
    foreground = door.start("run", "explorer", "x", "-m", model.model, env=model.environment)
    wait_until(lambda: len(model.requests) > 1, "the child")
    terminal = door.terminal("watch")
    terminal.see(r"explorer [0-9a-f]{8} · turn \d+ · ls \. · [\d,]+ tokens · \d:\d\d")
    model.may_answer.set()
    terminal.see("Done.")
    assert terminal.end() == 0
    assert foreground.wait(PATIENCE_SECONDS) == 0


def test_several_runs_get_a_row_each(door, model):  # noqa: F811
    ids = [background(door, model), background(door, model, agent="reviewer")]
    wait_until(lambda: len(model.requests) > 3, "both")
    terminal = door.terminal("watch")
    terminal.see(rf"explorer {ids[0]} · turn \d+")
    terminal.see(rf"reviewer {ids[1]} · turn \d+")
    model.may_answer.set()
    terminal.see("completed")
    assert terminal.end() == 0


def test_ctrl_c_stops_watching_and_never_the_run(door, model):  # noqa: F811
    run_id = background(door, model)
    watching = door.start("watch")
    assert b"turn 1" in watching.stderr.readline()
    watching.send_signal(signal.SIGINT)
    assert watching.wait(PATIENCE_SECONDS) == 130
    model.may_answer.set()
    assert door.run("wait", run_id).out == "Done.\n"


def test_with_nothing_to_watch_it_says_so(door):  # noqa: F811
    ended = door.run("watch")
    assert ended.code == 2 and "No run is running" in ended.err
