"""The main agent in a real terminal: what a person sees, types and stops."""

import json
import os
import re
import signal
import threading
import time
from contextlib import closing, contextmanager
from dataclasses import replace

import pytest

from cli_door import Door, wait_until
from conftest import look_around
from outrider.surfaces.chat.prompt import MAX_HISTORY_BYTES, MaskedHistory
from outrider.testing import (
    ScriptedModel,
    answer,
    drip,
    silence,
    silence_after,
    tool_call,
    tool_calls,
)
from test_ask import delegate, main_requests, scripted
from tmux_door import Screen

PROMPT = r"(?m)^> *$"
COLOUR = re.compile(r"\x1b\[([0-9;]*;)?[349][0-8][;m]")


@pytest.fixture
def door(tmp_path, warm_runtime):
    with closing(Door(tmp_path, warm_runtime)) as door:
        yield door


@contextmanager
def chatting(door, server, *arguments, **options):
    env = {**server.environment, **options.pop("env", {})}
    with closing(
        Screen(door, "chat", "--model", server.model, *arguments, env=env, **options)
    ) as screen:
        screen.see_now(PROMPT)
        yield screen


def leave(screen):
    screen.see_now(PROMPT)
    screen.type("", "C-d")
    return screen.end()


def test_an_answer_is_streamed_as_markdown_and_a_second_turn_knows_the_first(door):
    text = "# Title\n\nIt **is** in `a.py`.\n\n```python\nx = 1\n\ny = 2\n```\n\nLast words."

    with scripted(drip(text, 0.1), answer("Indeed.")) as server, chatting(door, server) as screen:
        screen.enter("Where is it?")
        screen.see_now(r"main · turn 1 ·")
        screen.see_now(r"Title")
        assert "Last words." not in screen.screen  # it comes in pieces
        screen.see(r"Last words\. *\n\nmain [0-9a-f]{8}: completed · 1 turn")
        assert screen.screen.count("> Where is it?") == 1
        assert "**" not in screen.all and "```" not in screen.all
        screen.see_now(PROMPT)
        screen.enter("Sure?")
        screen.see(r"Indeed\.")
        roles = [message["role"] for message in server.requests[-1].messages]
        assert roles == ["system", "user", "assistant", "user"]
        assert server.requests[-1].messages[2]["content"] == text
        assert leave(screen) == 0
    [run] = door.runs.glob("????????")
    assert json.loads((run / "result.json").read_text())["content"][0]["text"] == "Indeed."
    door.assert_nothing_left()


def test_two_delegations_at_once_are_shown_live_folded_and_opened_again(door):
    go_on = threading.Event()

    def child(request):
        if go_on.is_set():
            return answer(f"All about {request.last_user_text}.")
        call = tool_call("grep", {"pattern": f"of-{request.last_user_text}"}, usage=(1000, 1))
        return replace(call, delay=0.1)

    lines = answer("".join(f"- item {number}\n" for number in range(40)))
    both = tool_calls([delegate(task="one"), delegate("reviewer", "two")])
    with (
        scripted(lines, both, answer("Both."), child=child) as server,
        chatting(door, server) as screen,
    ):
        screen.enter("Fill the screen.")  # as a terminal is in which somebody works
        screen.see(r"item 39")
        screen.see_now(PROMPT)
        screen.enter("Go.")
        screen.see_now(
            r"explorer [0-9a-f]{8} · turn \d+ · grep of-one · [\d,]{5,} tokens · \d:\d\d(.|\n)*"
            r"reviewer [0-9a-f]{8} · turn \d+ · grep of-two · [\d,]{5,} tokens · \d:\d\d(.|\n)*"
            r"main · turn 1 · subagent"
        )
        screen.resize(50, 20)
        screen.see_now(
            r"(?m)^. explorer [0-9a-f]{8} · turn \d+ · grep of-one.*…\n"
            r"^. reviewer [0-9a-f]{8} · turn \d+ · grep of-two.*…\n"
            r"^. main · turn 1 · subagent"
        )
        go_on.set()
        screen.see(r"Both\.")
        screen.see_now(PROMPT)
        # Nothing moves any more, and nothing of it is left.
        assert not re.search("[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]|(?m:^  subagent)", screen.all)
        [run] = re.findall(r"explorer ([0-9a-f]{8}): completed", screen.all)
        assert "plus 2 subagents: " in screen.all
        complete(screen, f"/show {run[:3]}", run, f"/show {run}")
        screen.type("", "Enter")
        screen.see_now(rf"Run {run}(.|\n)*· grep .*of-one(.|\n)*All about one\.")
        screen.type("q")
        screen.see_now(PROMPT)
        assert leave(screen) == 0


def test_ctrl_c_stops_the_children_then_the_turn_then_the_program(door):
    with (
        scripted(tool_call(*delegate()), silence_after("Hm. " * 200), child=silence()) as server,
        chatting(door, server) as screen,
    ):
        screen.enter("Go.")
        server.wait_for_requests(2)
        screen.type("", "C-c")
        screen.see(r"explorer [0-9a-f]{8}: cancelled")
        screen.see_now(r"Hm\. Hm\.")
        screen.type("", "C-c")
        screen.see(r"main [0-9a-f]{8}: cancelled")
        screen.see_now(PROMPT)
        assert "(cancelled)" in main_requests(server)[1].messages[-1]["content"]
        screen.type("half a thought", "C-c")
        screen.see_gone("half a thought")
        screen.type("", "C-c")
        screen.see_now(r"press Ctrl-C again to leave")
        screen.type("", "C-c")
        assert screen.end() == 130
    door.assert_nothing_left()


def test_the_first_line_says_which_model_where_and_how_to_get_help(door):
    with scripted(answer("Yes.")) as server, chatting(door, server, columns=200) as screen:
        screen.see_now(rf"{server.model} \(flag\) in {door.project} · /help")
        screen.enter("Go.")
        screen.see(r"Yes\.")
        screen.see_now(PROMPT)
        assert screen.all.count("/help") == 1
        assert leave(screen) == 0


def test_a_change_of_a_file_is_shown_as_a_diff_before_it_is_allowed(door):
    (door.project / "a.py").write_text("one\ntwo\nthree\n")
    edit = {"path": "a.py", "edits": [{"oldText": "two", "newText": "2\n2"}]}
    steps = [
        tool_call("write", {"path": "a.py", "content": "one\nzwei\nthree\n"}),
        tool_call("edit", edit),
        answer("Done."),
    ]
    with scripted(*steps) as server, chatting(door, server) as screen:
        screen.enter("Go.")
        screen.see(r"to use write:\n  a\.py\n  @@ .* @@\n   one\n  -two\n  \+zwei\n   three\nAllow")
        screen.enter("n")
        screen.see(r"to use edit:\n  a\.py\n  @@ .* @@\n  -two\n  \+2\n  \+2\nAllow")
        screen.enter("o")
        screen.see(r"Done\.")
        assert leave(screen) == 0
    assert (door.project / "a.py").read_text() == "one\n2\n2\nthree\n"


def test_a_change_of_a_long_file_of_like_lines_is_asked_about_at_once(door):
    """To compare them line by line would take minutes, in which Ctrl-C did nothing."""
    like = [f"line {number % 150}\n" for number in range(100_000)]
    (door.project / "a.txt").write_text("".join(like))
    write = tool_call("write", {"path": "a.txt", "content": "".join(like[::-1])})
    with scripted(write, answer("Done.")) as server, chatting(door, server) as screen:
        screen.enter("Go.")
        screen.see(r"to use write:\n  a\.txt\n  -line 0\n  -line 1\n")
        screen.enter("n")
        screen.see(r"Done\.")
        assert leave(screen) == 0


def test_ctrl_c_ends_the_program_even_when_neither_children_nor_the_turn_end(door):
    with (
        scripted(tool_call(*delegate()), child=silence()) as server,
        chatting(door, server) as screen,
    ):
        screen.enter("Go.")
        server.wait_for_requests(2)
        names = ("outrider-main", "outrider-child")
        children = [one for one in door.processes() if one.name() in names]
        assert len(children) == 2
        for child in children:
            child.suspend()  # it hears of no end, until its guardian's patience is over
        screen.type("", "C-c")
        screen.see(r"stopping the subagents; press Ctrl-C again")
        assert screen.interrupt() == 130
        assert "cancelled" not in screen.all  # no turn ended before the program
    door.assert_nothing_left()


def test_a_resize_a_narrow_terminal_and_100_kb_pasted(door):
    pasted = "".join(f"line {number}: {'x' * 60}\n" for number in range(1400))
    with scripted(answer("Got it. " * 20)) as server, chatting(door, server) as screen:
        screen.type("See ")
        screen.paste(pasted)
        screen.see_now(r"> See \[paste 1: [\d,]+ characters\]")
        screen.resize(40, 20)
        screen.type("", "Enter")
        screen.see(r"Got it\.")
        screen.see_now(PROMPT)
        assert server.requests[0].last_user_text == f"See {pasted.strip()}"
        assert len(server.requests) == 1
        assert screen.widest <= 40
        assert leave(screen) == 0


def test_several_lines_are_one_input_and_earlier_inputs_come_back_masked(door):
    secret = "sk-proj-" + "a1B2c3D4e5" * 4
    with scripted(answer("One."), answer("Two.")) as server, chatting(door, server) as screen:
        screen.type("first", "C-j")
        screen.enter(f"second {secret}")
        screen.see(r"One\.")
        assert server.requests[0].last_user_text == f"first\nsecond {secret}"
        assert leave(screen) == 0
        history = door.home / ".local/state/outrider/chat-history"
        assert secret not in history.read_text() and "+first" in history.read_text()
        assert history.stat().st_mode & 0o777 == 0o600
    with scripted(answer("Two.")) as server, chatting(door, server) as screen:
        screen.type("", "Up")
        screen.see_now(r"> first\n +second \[masked")
        screen.type("", "C-c")
        assert leave(screen) == 0


def complete(screen, typed, offered, whole):
    """Type until the menu offers something (agents are loaded while one types), and take it."""
    *most, last = typed
    screen.type("".join(most))

    def is_offered():
        screen.type(last)
        time.sleep(0.2)
        if re.search(rf"> .*\n.*{offered}", screen.screen):
            return True
        screen.type("", "BSpace")
        return False

    wait_until(is_offered)
    screen.type("", "Tab")
    screen.see_now(f"> {whole}")


def test_commands_agents_and_paths_are_completed(door):
    (door.project / "source").mkdir()
    (door.project / "source/engine.py").write_text("")
    with scripted(answer("Yes.")) as server, chatting(door, server) as screen:
        complete(screen, "/to", "reports: agents", "/toolkit")
        complete(screen, " lo", "logs", "/toolkit logs")
        complete(screen, " --li", "--limit", "/toolkit logs --limit")
        screen.type("", "C-c")
        complete(screen, "ask @expl", "explorer", "ask @explorer")
        path = "source/engine.py"
        complete(screen, " about @source/en", path, f"ask @explorer about @{path}")
        screen.type("", "C-c")
        assert leave(screen) == 0


def test_a_permission_is_answered_each_way_and_files_are_no_commands(door):
    def touch(name):
        return tool_call("bash", {"command": f"touch {name}"})

    def write(name):
        return tool_call("write", {"path": name, "content": "x"})

    def answer_each(screen, tool, shown, keys):
        for name, key in keys.items():
            screen.see(rf"main wants to use {tool}:\n  {shown % name}\nAllow it\?")
            screen.enter(key)

    steps = [*map(write, "abc"), answer("Files."), write("d"), *map(touch, "efg"), answer("Both.")]
    with (
        scripted(*steps, touch("h"), answer("All.")) as server,
        chatting(door, server) as screen,
    ):
        screen.enter("Go.")
        answer_each(screen, "write", r"%s\n  @@ .* @@\n  \+x", {"a": "n", "b": "o", "c": "s"})
        screen.see(r"Files\.")
        screen.see_now(PROMPT)
        screen.enter("Again.")  # files are allowed for the session: the first to ask is a command
        answer_each(screen, "bash", "touch %s", {"e": "n", "f": "o", "g": "s"})
        screen.see(r"Both\.")
        screen.see_now(PROMPT)
        screen.enter("Once more.")
        screen.see(r"All\.")
        assert screen.all.count("Allow it?") == 6
        assert leave(screen) == 0
    assert "".join(sorted(path.name for path in door.project.glob("?"))) == "bcdfgh"


REPORTS = ("agents", "doctor", "modules", "logs", "activity", "lsp", "runs", "help")


def test_toolkit_shows_each_report_in_a_panel_that_can_be_searched(door):
    with scripted(answer("Yes.")) as server, chatting(door, server) as screen:
        for name in REPORTS:
            screen.enter(f"/toolkit {name}")
            screen.see_now(rf"^ ?{name} · / search · n next · q close")
            screen.type("q")
            screen.see_now(PROMPT)
        screen.enter("/toolkit")
        screen.see_now(r"Toolkit · / search")
        screen.see_now(r"(?m)^doctor +")
        screen.type("q")
        screen.see_now(PROMPT)
        screen.resize(80, 12)
        screen.enter("/toolkit config")
        first, last = r"(?m)^model +null", r"(?m)^mcp\.resultBytes "
        screen.see_now(first)
        screen.type("", "PageDown")
        screen.see_gone(first)
        screen.type("", "PageUp")
        screen.see_now(first)
        screen.type("/RESULTbytes", "Enter")
        screen.see_now(r"(?m)^limits\.resultBytes ")
        assert not re.search(last, screen.screen)
        screen.type("n")
        screen.see_now(last)
        screen.type("q")
        screen.see_now(PROMPT)
        screen.enter("/nonsense")
        screen.see(r"is not a command")
        assert not server.requests
        assert leave(screen) == 0


def test_a_session_that_was_killed_is_resumed_without_losing_more_than_its_last_turn(door):
    with (
        scripted(
            tool_call(*delegate(), id="call-1"), answer("Noted."), silence_after("Half an ans")
        ) as server,
        chatting(door, server) as screen,
    ):
        screen.enter("Remember seven.")
        screen.see(r"Noted\.")
        screen.see_now(PROMPT)
        screen.enter("And this?")
        server.wait_for_requests(4)
        os.kill(screen.pid, signal.SIGKILL)
        screen.end()
    door.assert_nothing_left()
    sessions = door.runs.glob("*/session.jsonl")
    [session] = [one.parent for one in sessions if b'"agent":"main"' in one.read_bytes()]
    with (
        scripted(answer("Seven.")) as server,
        chatting(door, server, "--resume", session.name) as screen,
    ):
        screen.see(rf"continuing session {session.name}: Remember seven\.")
        screen.enter("Which number?")
        screen.see(r"Seven\.")
        messages = server.requests[0].messages
        assert [message["role"] for message in messages] == [
            "system", "user", "assistant", "tool", "assistant", "user", "user",
        ]  # fmt: skip
        assert '<subagent-output agent="explorer"' in messages[3]["content"]
        assert "Found it." in messages[3]["content"]
        assert [message["content"] for message in messages[4:]] == [
            "Noted.",
            "And this?",
            "Which number?",
        ]
        assert leave(screen) == 0
    with scripted(answer("Eight.")) as server, chatting(door, server, "--continue") as screen:
        screen.enter("And now?")
        screen.see(r"Eight\.")
        assert server.requests[0].messages[-2]["content"] == "Seven."
        assert leave(screen) == 0


def test_a_dumb_terminal_gets_plain_lines_and_no_colour_is_honoured(door):
    with scripted(answer("**Plain.**")) as server:
        arguments = ("chat", "--model", server.model)
        terminal = door.terminal(*arguments, env=server.environment, term="dumb")
        terminal.see("> ")
        terminal.type("Go.\r")
        terminal.see(r"Plain\.")
        terminal.see(r"main [0-9a-f]{8}: completed")
        terminal.type("\x04")
        assert terminal.end() == 0
    assert "\x1b[" not in terminal.raw.replace("\x1b[6n", "")
    plain = {"NO_COLOR": "1"}
    for env in ({}, plain):
        with scripted(answer("`Plain`.")) as server, chatting(door, server, env=env) as screen:
            screen.enter("Go.")
            screen.see(r"Plain\.")
            screen.see_now(PROMPT)
            assert bool(COLOUR.search(screen.coloured)) is (env is not plain)
            assert leave(screen) == 0


EVIL = "\x1b]0;owned\x07\x1b[2Jx\u202ey\u200bz"


def test_neither_a_model_nor_a_child_can_steer_the_terminal_and_code_is_no_html(door):
    steps = iter([tool_call("grep", {"pattern": EVIL}), answer(EVIL)])
    told = answer(f"{EVIL} List<String>, not <b>bold</b>.")
    with (
        scripted(tool_call(*delegate()), told, child=lambda _: next(steps)) as server,
        chatting(door, server) as screen,
    ):
        screen.enter("Go.")
        screen.see(r"main [0-9a-f]{8}: completed")
        assert "␛" in screen.all and r"x\u202ey\u200bz" in screen.all
        assert not {"\u202e", "\u200b"} & set(screen.all)
        assert "List<String>, not <b>bold</b>." in screen.all
        screen.see_now(PROMPT)
        [run] = re.findall(r"explorer ([0-9a-f]{8}): completed", screen.all)
        screen.enter(f"/show {run}")
        screen.see_now(r"· grep .*u001b(.|\n)*␛\]0;owned")
        assert "\u202e" not in screen.all
        screen.type("q")
        assert leave(screen) == 0


def test_ctrl_c_ends_the_wait_for_a_report_and_nothing_else(door):
    """Nobody has to wait for a check that hangs, here for a tool module that doesn't load."""
    folder = door.home / "modules"
    folder.mkdir()
    code = f"import pathlib, time\nhere = pathlib.Path({str(folder)!r})\n(here / 'began').touch()\n"
    (folder / "slow_tools.py").write_text(f"{code}time.sleep(600)\n")
    door.write_config({"tools": {"modules": ["slow_tools"]}})
    env = {"PYTHONPATH": str(folder)}
    with scripted() as server, chatting(door, server, env=env) as screen:
        screen.enter("/toolkit modules")
        wait_until((folder / "began").exists)
        screen.type("", "C-c")
        screen.see_now(PROMPT)
        assert leave(screen) == 0


def test_inputs_are_kept_whole_masked_and_not_without_end(tmp_path):
    secret = "sk-proj-" + "a1B2c3D4e5" * 4
    history = MaskedHistory(tmp_path / "state/chat-history")
    history.pastes["[paste 1]"] = "pasted\ntext"
    for number in range(30):
        history.store_string(f"{number} {'x' * 100_000}")
    history.store_string(f"{secret} [paste 1]")
    assert (tmp_path / "state/chat-history").stat().st_size < 2 * MAX_HISTORY_BYTES
    newest, before, *_ = MaskedHistory(tmp_path / "state/chat-history").load_history_strings()
    assert newest.endswith(" pasted\ntext") and secret not in newest
    assert before == f"29 {'x' * 100_000}"


def test_chat_needs_a_terminal(door):
    ended = door.run("chat")
    assert ended.code == 2 and "use 'outrider ask'" in ended.err


def test_any_run_can_be_listed_watched_told_something_and_stopped(door):
    """Of another process, which here is a background run."""
    with ScriptedModel(lambda request: look_around(request, 0.05)) as server:
        words = ("run", "explorer", "Look.", "-m", server.model, "--bg", "--max-turns", "10000")
        run_id = door.run(*words, env=server.environment).out.strip()
        with chatting(door, server) as screen:
            screen.enter(f"/tell {run_id} Leave the tests alone")
            screen.see_now(r"read in turn \d+")
            screen.see_now(PROMPT)
            screen.enter(f"/watch {run_id}")
            screen.see_now(rf"explorer {run_id} · turn \d+")
            screen.type("", "C-c")
            screen.see_now(PROMPT)
            screen.enter("/runs --running")
            screen.see_now(rf"{run_id} .*ls \.")
            screen.type("q")
            screen.see_now(PROMPT)
            screen.enter(f"/stop {run_id}")
            screen.see_now(f"run {run_id}: cancelled")
            leave(screen)
        said = [one["content"] for one in server.requests[-1].messages if one["role"] == "user"]
        assert said == ["Look.", "Leave the tests alone"]
    door.assert_nothing_left()
