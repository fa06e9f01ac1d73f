"""Every bad call: one clear line, the right code, exit 2, and never a traceback."""

import os
import re
from contextlib import closing

import pytest

from cli_door import Door
from outrider.surfaces.cli.main import COMMANDS, GROUPS

pytestmark = pytest.mark.usefixtures("unmeasured")

TASK_LIMIT = 4 << 20
INVALID = "INVALID_INPUT"

# The arguments, what the line has to say, and its code.
CALLS = {
    "unknown command": (("rnu",), "did you mean run?", INVALID),
    "strange command": (("xyzzy",), "the commands are run, map", INVALID),
    "option first": (("--jsonn", "run"), "options come after the command", INVALID),
    "nothing to run": (("run",), "run needs TASK", INVALID),
    "no task": (("run", "explorer"), "run needs TASK: 'explorer' looks like the agent", INVALID),
    "no task, and a typo": (("run", "Explorr"), "looks like the agent explorer", INVALID),
    "time that is none": (("run", "Where is x?", "--timeout", "soon"), "write 90s", INVALID),
    "turns in words": (("run", "Where is x?", "--max-turns", "few"), "maxTurns", INVALID),
    "size that is none": (
        ("run", "Where is x?", "--set", "limits.resultBytes=1 YB"),
        "10 MB",
        INVALID,
    ),
    "file that isn't there": (
        ("run", "Where is x?", "--file", "nowhere"),
        "can't be read",
        INVALID,
    ),
    "no shell": (("completion",), "completion needs SHELL", INVALID),
    "empty agent": (("run", "", "x"), "agent is empty. Name one", INVALID),
    "empty task": (("run", "explorer", "  "), "task is empty", INVALID),
    "no run": (("show",), "show needs RUN", INVALID),
    "unknown option": (("run", "explorer", "x", "--modle", "y"), "did you mean --model?", INVALID),
    "task without quotes": (("run", "explorer", "where", "is", "it"), "in quotes", INVALID),
    "value forgotten": (("run", "explorer", "x", "--model"), "expected one argument", INVALID),
    "unknown agent": (("run", "explorr", "x"), "Did you mean explorer?", "UNKNOWN_AGENT"),
    "setting without value": (("run", "explorer", "x", "--set", "model"), "KEY=VALUE", INVALID),
    "unknown setting": (
        ("run", "explorer", "x", "--set", "subagents.timeout=5"),
        "did you mean subagents.timeoutMs?",
        INVALID,
    ),
    "bad setting": (
        ("run", "explorer", "x", "--set", "subagents.timeoutMs=soon"),
        "subagents.timeoutMs",
        INVALID,
    ),
    "missing folder": (("run", "explorer", "x", "--cwd", "nowhere"), "nowhere", INVALID),
    "missing schema file": (
        ("run", "explorer", "x", "--schema", "nowhere.json"),
        "neither JSON nor a file",
        INVALID,
    ),
    "broken schema": (("run", "explorer", "x", "--schema", "{"), "isn't JSON", INVALID),
    "impossible schema": (
        ("run", "explorer", "x", "--schema", '{"type": "strnig"}'),
        "output_schema can't be used",
        INVALID,
    ),
    "bad model": (("run", "explorer", "x", "--model", "gpt"), "provider:name", INVALID),
    "too few runs": (("show", "-3"), "too few", INVALID),
    "agent that isn't there": (("agents", "explorr"), "Did you mean explorer?", "UNKNOWN_AGENT"),
    "agent of no name": (("agents", "new", "../x"), "isn't a valid name", INVALID),
    "agent of a name and more": (("agents", "new", "x\ntools: bash"), "isn't a valid", INVALID),
    "time in words": (("runs", "--since", "soon"), "'soon' is not a time", INVALID),
    "delete everything": (("runs", "--delete"), "--delete needs", INVALID),
    "unknown run": (("show", "ffffffff"), "`outrider runs` lists", INVALID),
    "lines backwards": (("show", "ffffffff", "--lines", "9:3"), "selects no line", INVALID),
    "lines in words": (("show", "ffffffff", "--lines", "a:b"), "write A:B", INVALID),
    "config elsewhere": (("config", "--cwd", "/dev/null"), "isn't a folder", INVALID),
}


@pytest.fixture
def door(tmp_path):
    with closing(Door(tmp_path)) as door:
        yield door


def test_without_arguments_it_shows_its_help(door):
    ended = door.run()
    assert ended.code == 2 and ended.out == door.run("help").out and ended.err == ""


def assert_one_line(ended, says):
    assert ended.code == 2
    assert ended.out == ""
    (line,) = ended.err.splitlines()
    assert line.startswith("outrider: ")
    assert says in line


def assert_refused_in_json(ended, says, code):
    assert ended.code == 2
    assert ended.err == ""
    assert ended.error_code == code
    assert says in ended.json["details"]["error"]["message"]
    assert ended.json["details"]["results"] == []


@pytest.mark.parametrize("name", CALLS)
def test_bad_call_is_one_clear_line_and_a_code(door, name):
    arguments, says, code = CALLS[name]
    assert_one_line(door.run(*arguments), says)
    if arguments:
        assert_refused_in_json(door.run(*arguments, "--json"), says, code)


@pytest.mark.parametrize(
    ("task", "says"),
    [
        (b"", "task is empty"),
        (b" \n\t", "task is empty"),
        (b"nul \0 byte", "NUL"),
        (b"\xff\xfe broken", "isn't UTF-8: see byte 1"),
        (b"half a \xed\xa0\x80 character", "isn't UTF-8: see byte 8"),
        (b"x" * (TASK_LIMIT + 1), "longer than 4,194,304 bytes"),
        (b"x" * (10 << 20), "longer than 4,194,304 bytes"),
    ],
    ids=["empty", "blank", "NUL", "not UTF-8", "lone surrogate", "too long", "10 MB"],
)
def test_bad_task_on_stdin_is_refused(door, task, says):
    assert_one_line(door.run("run", "explorer", "-", stdin=task), says)


def test_task_argument_that_is_no_unicode_is_refused(door):
    task = os.fsdecode(b"caf\xe9")
    assert_one_line(door.run("run", "explorer", task), "isn't valid Unicode")


@pytest.mark.parametrize("config", ["{", "[1]", "[" * 100_000, '{"a": "\udcff'])
def test_broken_configuration_stops_every_command_that_needs_it(door, config):
    path = door.home / ".config/outrider/config.json"
    path.parent.mkdir(parents=True)
    path.write_text(config, errors="surrogateescape")
    for command in (("run", "explorer", "x"), ("config",), ("agents",)):
        assert_one_line(door.run(*command), str(path))


def test_bad_variable_is_refused(door):
    ended = door.run("run", "explorer", "x", env={"OUTRIDER_SUBAGENTS__TIMEOUT_MS": "soon"})
    assert_one_line(ended, "OUTRIDER_SUBAGENTS__TIMEOUT_MS")


def test_unusable_agent_file_is_named_when_its_agent_is_asked_for(door):
    path = door.write_agent("bro ken")
    assert_one_line(door.run("run", "broken", "x"), str(path))


def test_name_that_steers_is_shown_harmlessly(door):
    ended = door.run("run", "a\x1b[2J\nb", "x")
    assert_one_line(ended, "a␛[2J b")


def test_delegation_by_a_child_is_refused_as_management(door):
    ended = door.run("run", "explorer", "x", "--json", env={"PI_SUBAGENT_CHILD": "1"})
    assert ended.code == 2
    assert ended.error_code == "SUBAGENT_DEPTH_EXCEEDED"
    assert ended.json["details"]["mode"] == "management"


def test_folder_that_was_removed_underneath_is_refused(door):
    door.project = door.project / "gone"
    door.project.mkdir()
    command = 'rmdir "$PWD"; exec "$0" -m outrider run explorer x'
    ended = door.shell(command)
    assert_one_line(ended, "working directory")


def test_windows_is_refused_in_words(door):
    code = (
        "import sys; sys.platform = 'win32'; sys.argv = ['outrider', 'runs']; "
        "from outrider.__main__ import main; sys.exit(main())"
    )
    assert_one_line(door.shell(f'exec "$0" -c "{code}"'), "Windows isn't supported")


def test_fault_of_our_own_is_one_line_and_dev_mode_shows_the_rest(door):
    code = (
        "import sys, outrider.surfaces.reports.runs as runs; runs.recorded_runs = None; "
        "sys.argv = ['outrider', 'runs']; from outrider.__main__ import main; sys.exit(main())"
    )
    ended = door.shell(f'exec "$0" -c "{code}"')
    assert ended.code == 1
    (line,) = ended.err.splitlines()
    assert "a bug in Outrider: TypeError" in line
    assert "Traceback" in door.shell(f'exec "$0" -X dev -c "{code}"').err


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_tells_by_example_and_fits_a_screen(door, command):
    ended = door.run(*command.split(), "--help")
    assert ended.code == 0
    assert ended.err == ""
    assert re.search(rf"examples:\n(.*\n)*  .*outrider {command}", ended.out)
    assert max(map(len, ended.out.splitlines())) <= 80
    most = {"": 52, "run": 30, "map": 44}.get(command, 24)
    assert len(ended.out.splitlines()) <= most


def test_overview_reads_like_a_table_of_contents(door):
    out = door.run("--help").out
    for title, group in GROUPS.items():
        lines = [f"  {name:<10}  {said}" for name, said in group.items()]
        assert "\n".join(["", title, *lines, ""]) in out  # one line each, none of them broken


def test_help_lists_every_command_and_shows_that_of_one(door):
    ended = door.run("help")
    assert ended.out == door.run("--help").out
    listed = re.findall(r"(?m)^  (\S+)", ended.out)
    assert listed[: len(COMMANDS)] == list(COMMANDS)
    assert door.run("help", "logs").out == door.run("logs", "--help").out
    commands = door.run("help", "--json").json["commands"]
    assert {one["name"]: one["summary"] for one in commands} == COMMANDS
    assert_one_line(door.run("help", "lgos"), "did you mean logs?")
