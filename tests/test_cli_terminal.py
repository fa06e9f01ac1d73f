"""What a person sees on a real terminal: the live view, questions, Ctrl-C."""

import re
import shlex
import subprocess
from contextlib import closing
from dataclasses import replace
from threading import Event

import pytest

from cli_door import COMMAND, PATIENCE_SECONDS, Door
from outrider.surfaces.terminal.progress import Row
from outrider.testing import (
    ScriptedModel,
    answer,
    drip,
    fail,
    silence,
    silence_after,
    tool_call,
)
from tmux_door import Screen


@pytest.fixture
def door(tmp_path, warm_runtime):
    with closing(Door(tmp_path, warm_runtime)) as door:
        yield door


def start(door, server, *, agent="explorer", env=None, **options):
    arguments = ("run", agent, "Where is it?", "--model", server.model)
    return door.terminal(*arguments, env={**server.environment, **(env or {})}, **options)


def test_live_view_shows_turns_tool_calls_tokens_and_time_then_only_the_answer_stays(door):
    calls = replace(tool_call("grep", {"pattern": "idle_timeout"}, usage=(1200, 34)), delay=0.3)
    slowly = answer("It is in watch.py.", chunk_size=6, delay=1)
    with ScriptedModel([calls, slowly]) as server:
        terminal = start(door, server)
        # How long a child starts is not the test's to say: it may have begun before it is drawn.
        terminal.see(r"[⠋-⠿] explorer · (?:starting|turn 1) · 0 tokens · \d+:\d\d")
        terminal.see(r"grep idle_timeout")
        terminal.see(r"explorer · turn 2 · grep idle_timeout · 1,2\d\d tokens · \d+:\d\d")
        code = terminal.end()
    assert code == 0
    # What follows the restored cursor is what stays on the screen.
    rest = terminal.raw.rpartition("\x1b[?25h")[2]
    lines = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", rest).strip().splitlines()
    assert lines[0] == "It is in watch.py."
    assert lines[1].startswith("outrider: completed · 2 turns · 1 tool call")


def test_an_agent_that_has_not_begun_is_starting():
    assert Row("explorer").line() == "explorer · starting · 0 tokens · 0:00"


MARKDOWN = """# Where

It **is** in `watch.py`, see <Watcher> and [the notes](https://example.org/notes): {words}.

```python
x = 1
```

Last words."""


def test_answer_is_drawn_as_markdown_while_it_comes_and_when_it_is_there(door):
    text = MARKDOWN.format(words=" ".join(["word"] * 30))
    with ScriptedModel([drip(text, 0.2)]) as server:
        arguments = ("run", "explorer", "Where?", "--model", server.model)
        with closing(Screen(door, *arguments, env=server.environment, columns=60)) as screen:
            screen.see_now(r"It is in watch\.py(.*\n)+.*explorer · ")
            assert "Last words." not in screen.screen
            assert screen.end() == 0
            screen.see_now(r"completed · 1 turn")
            shown, ended, widest = screen.screen, screen.all, screen.widest
    assert "It is in watch.py, see <Watcher> and the notes" in shown
    assert "https://example.org/notes" in shown
    assert not re.search(r"\*\*|```|^# |word +$", shown, re.MULTILINE)  # drawn, without padding
    assert widest <= 60
    assert ended.count("Last words.") == 1
    assert "turn 1 ·" not in ended  # nothing of what moved stays
    piped = door.run("show", "last")
    assert piped.out == f"{text}\n"


def test_structured_answer_is_shown_as_it_is(door):
    with ScriptedModel([tool_call("report_back", {"text": "**a** _b_"})]) as server:
        schema = '{"type": "object", "properties": {"text": {"type": "string"}}}'
        arguments = ("run", "explorer", "x", "--model", server.model, "--schema", schema)
        terminal = door.terminal(*arguments, env=server.environment)
        assert terminal.end() == 0
    assert '"text": "**a** _b_"' in terminal.screen


def test_retry_is_counted_down_and_attempts_are_in_the_last_line(door):
    with ScriptedModel([fail(429, retry_after=3), answer("At last.")]) as server:
        terminal = start(door, server)
        for left in (3, 2, 1):
            terminal.see(rf"retrying in {left} s, attempt 2 · ")
        assert terminal.end() == 0
    assert re.search(r"completed · 1 turn .* · 2 attempts · run", terminal.screen)


def test_what_is_typed_during_the_live_view_is_kept_for_the_shell(door):
    seen = Event()

    def script(request):
        assert seen.wait(PATIENCE_SECONDS)
        return answer("Done.")

    with ScriptedModel(script) as server:
        terminal = start(door, server)
        terminal.see(r"explorer · .* · 0:00")
        terminal.type("git status\n")
        terminal.see(r"explorer · .* · 0:0[1-9]")
        seen.set()
        terminal.see(r"completed · 1 turn")
        assert "git status" not in terminal.screen
        terminal.type("echoed")
        assert terminal.end() == 0
    assert "echoed" in terminal.screen  # the terminal is as it was


def test_live_view_of_a_job_in_the_background_does_not_stop_it(door):
    with ScriptedModel([answer("Done.")]) as server:
        arguments = ("run", "explorer", "x", "--model", server.model)
        with closing(Screen(door, program=["bash", "--norc", "-i"])) as screen:
            env = "".join(f"{key}={value} " for key, value in server.environment.items())
            screen.enter(f"{env} {shlex.join((*COMMAND, *arguments))} < /dev/null &")
            screen.see(r"completed · 1 turn")


def test_answer_alone_goes_to_a_redirected_stdout(door):
    with ScriptedModel([answer("Only this.")]) as server, (door.home / "out").open("wb") as out:
        terminal = start(door, server, stdout=out.fileno())
        terminal.see(r"explorer · .* · 0:00")
        assert terminal.end() == 0
    assert (door.home / "out").read_text() == "Only this.\n"
    assert "Only this." not in terminal.raw.rpartition("\x1b[?25h")[2]


def test_model_cannot_steer_the_terminal(door):
    evil = "\x1b]0;owned\x07\x1b[2J\u009b2J\u202e"
    call = tool_call("grep", {"pattern": f"a{evil}b"}, text=f"{evil}look " * 60)
    seen = Event()

    def script(request):
        if request.number == 0:
            return call
        assert seen.wait(PATIENCE_SECONDS)
        return answer(f"{evil}done")

    with ScriptedModel(script) as server:
        terminal = start(door, server)
        terminal.see(r"grep a␛\]0;owned␇")
        seen.set()
        terminal.see(r"completed ·")
        assert terminal.end() == 0
    for steering in ("\x1b]", "\x07", "\x1b[2J", "\u009b", "\u202e"):
        assert steering not in terminal.raw


def test_no_color_is_honoured(door):
    with ScriptedModel([answer("`Plain`.")], repeat=True) as server:
        for env in ({}, {"NO_COLOR": "1"}):
            terminal = start(door, server, env=env)
            assert terminal.end() == 0
            has_colour = re.search(r"\x1b\[([0-9;]*;)?[349][0-8][;m]", terminal.raw)
            assert bool(has_colour) is not bool(env)


def test_narrow_terminal_is_never_overrun(door):
    call = tool_call("grep", {"pattern": "long " * 40})
    with ScriptedModel([call, answer("x", delay=0.3)]) as server:
        terminal = start(door, server, columns=30)
        terminal.see(r"grep long")
        assert terminal.end() == 0
    moving = re.search("[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏](.*)[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]", terminal.screen, re.DOTALL)
    assert moving is not None
    assert max(len(line) for line in re.split(r"[\r\n]+", moving[1])) <= 30


def test_dumb_terminal_gets_plain_lines(door):
    with ScriptedModel([answer("Plain.")]) as server:
        terminal = start(door, server, term="dumb")
        assert terminal.end() == 0
    assert "\x1b" not in terminal.raw
    assert "Plain." in terminal.raw


def test_ctrl_c_stops_the_child_and_leaves_the_terminal_usable(door):
    with ScriptedModel([silence_after("So far. " * 60)]) as server:
        terminal = start(door, server)
        terminal.see(r"So far\.")
        terminal.type("\x03")
        code = terminal.end()
    assert code == 130
    assert "cancelled: " in terminal.screen
    assert "So far. So far." in terminal.raw.rpartition("\x1b[?25h")[2]
    assert "Traceback" not in terminal.raw
    door.assert_nothing_left()


@pytest.mark.parametrize(
    ("key", "code", "requests"),
    [("y\n", 0, 1), ("\n", 2, 0), ("\x04", 2, 0), ("\x03", 130, 0)],
)
def test_repository_agent_runs_only_when_the_person_says_yes(door, key, code, requests):
    door.write_agent("local")
    with ScriptedModel([answer("Ran.")]) as server:
        terminal = start(door, server, agent="local")
        terminal.see(r"local is defined by this repository .*\[y/N\]")
        terminal.type(key)
        assert terminal.end() == code
        assert len(server.requests) == requests
    assert "Traceback" not in terminal.raw
    # Whatever comes next on the terminal begins a line.
    assert re.search(r"\[y/N\] \S*\r?\n", terminal.screen)


def test_repository_agent_that_a_person_agrees_to_writes_as_the_user_allows(door):
    door.write_agent("local", "tools: bash")
    door.write_config({"subagents": {"allowWrite": True, "isolation": "none"}})
    with ScriptedModel([tool_call("bash", {"command": "touch made"}), answer("Ran.")]) as server:
        terminal = start(door, server, agent="local")
        terminal.see(r"\[y/N\]")
        terminal.type("y\n")
        assert terminal.end() == 0
    assert (door.project / "made").exists()


def test_person_without_a_task_on_stdin_is_told_how_to_end_it(door):
    with ScriptedModel([answer("Read.")]) as server:
        arguments = ("run", "explorer", "-", "--model", server.model)
        terminal = door.terminal(*arguments, env=server.environment)
        terminal.see("then press Ctrl-D")
        terminal.type("Where is it?\n\x04")
        assert terminal.end() == 0


def test_closed_terminal_takes_its_child_along(door):
    with ScriptedModel([silence()], repeat=True) as server:
        terminal = start(door, server)
        server.wait_for_requests(1)
        terminal.hang_up()
        terminal.process.wait(PATIENCE_SECONDS)
    door.assert_nothing_left()


def test_listing_is_cut_to_the_terminal_and_coloured(door):
    terminal = door.terminal("config", columns=80)
    assert terminal.end() == 0
    assert "\x1b[36m" in terminal.raw
    lines = terminal.screen.splitlines()
    assert lines[0].split() == ["key", "value", "from"]
    assert max(len(line) for line in lines) <= 80
    piped = subprocess.run(
        terminal.process.args, env=door.environment(), capture_output=True, check=True
    )
    assert b"\x1b" not in piped.stdout
    assert max(len(line) for line in piped.stdout.splitlines()) > 80
