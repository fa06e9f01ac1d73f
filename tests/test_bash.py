"""`bash` keeps its state, tells the truth, and leaves nothing behind."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import psutil
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from bad_arguments import bad_arguments
from outrider.processes import reaping
from outrider.tools.bash import bash
from outrider.tools.context import ToolContext
from outrider.tools.executor import ToolExecutor, ToolOutcome
from outrider.tools.registry import tool_of

TOOL = tool_of(bash)
assert TOOL is not None


def make_executor(folder: Path, **options: Any) -> ToolExecutor:
    settings = {"environment": dict(os.environ), "session_id": "task", **options}
    return ToolExecutor([TOOL], ToolContext(cwd=folder, **settings))


async def run(tools: ToolExecutor, command: str, **arguments: Any) -> dict[str, Any]:
    outcome = await tools.execute("bash", {"command": command, **arguments})
    assert outcome.envelope["code"] == 0, outcome.text
    return outcome.envelope["data"]


async def call(tools: ToolExecutor, command: str, **arguments: Any) -> ToolOutcome:
    return await tools.execute("bash", {"command": command, **arguments})


def with_mark(mark: str) -> list[psutil.Process]:
    """The living processes that have a mark among their arguments."""
    found: list[psutil.Process] = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.status() != psutil.STATUS_ZOMBIE and mark in process.cmdline():
                found.append(process)
    return found


def wait_until(condition: Callable[[], bool], what: str) -> None:
    limit = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < limit, what
        time.sleep(0.01)


@pytest.fixture
def mark() -> Iterator[str]:
    """A number that `sleep` takes and no other process has; none with it may be left."""
    mark = f"{10_000 + int.from_bytes(os.urandom(3))}.{int.from_bytes(os.urandom(3))}"
    yield mark
    left = with_mark(mark)
    for process in left:
        process.kill()
    assert not left


@pytest.fixture
async def tools(tmp_path: Path, mark: str) -> AsyncIterator[ToolExecutor]:
    async with make_executor(tmp_path, spill=tmp_path / "spill") as made:
        yield made


async def test_directory_variables_and_functions_stay(tools: ToolExecutor, tmp_path: Path):
    (tmp_path / "sub").mkdir()
    await run(tools, "cd sub; plain=1; export exported=2; list=(a b); say() { echo said $1; }")
    data = await run(tools, "echo $plain $exported ${list[1]}; say it; pwd")
    assert data["output"] == f"1 2 b\nsaid it\n{tmp_path}/sub\n"
    assert data["exitCode"] == 0 and data["cwd"] == f"{tmp_path}/sub"


async def test_exit_codes_are_told_and_do_not_fail_the_call(tools: ToolExecutor):
    outcome = await call(tools, "echo out; echo err >&2; false")
    assert outcome.envelope["data"]["exitCode"] == 1
    assert outcome.text == "out\nerr\n[exit code 1]"
    await run(tools, "kill -TERM $BASHPID | :; (exit 7)")
    commands = tools.receipt.to_dict()["commands"]
    assert [one["exitCode"] for one in commands] == [1, 7]


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("exit 3", 3),
        ("set -e\n(exit 4)\necho not reached", 4),
        ("kill -9 $$", 137),
        ("exec sh -c 'exit 5'", 5),
        ("set -u; echo $undefined", 127),
        ("break", 0),
        ("trap 'echo bye' EXIT; exit 6", 6),
    ],
)
async def test_a_command_that_ends_the_shell_does_not_end_the_session(
    tools: ToolExecutor, tmp_path: Path, command: str, code: int
):
    (tmp_path / "sub").mkdir()
    await run(tools, "cd sub; export kept=yes; say() { echo said; }")
    outcome = await call(tools, command)
    assert outcome.envelope["data"]["exitCode"] == code
    assert "not reached" not in outcome.text and "was restarted" in outcome.text
    data = await run(tools, "echo $kept; say; pwd")
    assert data["output"] == f"yes\nsaid\n{tmp_path}/sub\n"


@pytest.mark.parametrize(
    "command",
    [
        "echo 'unbalanced",
        'echo "$(',
        "cat <<EOF\nno end",
        "if",
        "}",
        ")",
        "echo $((",
        "\\",
        "#",
        " ",
        "\n",
        "return 3",
        "set -C; set -f; set -x; set -o posix",
        "IFS=abc; PATH=; unset PWD HOME; cd() { :; }; printf() { :; }; read() { :; }",
        "exec 3>&- 4>&- 5>&- >/dev/null 2>&1",
        "mkdir gone; cd gone; rmdir ../gone; cd .",
        "echo é \U0001f600 \x01 \x7f",
    ],
)
async def test_no_command_confuses_the_shell(tools: ToolExecutor, command: str):
    outcome = await call(tools, command)
    assert outcome.envelope["code"] == 0
    data = await run(tools, "builtin echo still here")
    assert "still here" in data["output"]


async def test_what_is_printed_is_never_taken_for_an_answer(tools: ToolExecutor):
    forged = r"printf 'done\0001\0000\000/\000'; printf 'gone\000\0009\000\000' >&2"
    data = await run(tools, f"{forged}; (exit 9)")
    assert data["exitCode"] == 9
    assert "done" in data["output"]
    data = await run(tools, "for fd in 3 4 5 6 7 8 9; do echo x >&$fd; done 2>/dev/null; echo end")
    assert data["output"] == "end\n"


FORGED = [r"printf '0 /\000'", r"printf 'x /\000'", r"head -c 4000000 /dev/zero | tr '\0' x"]


@pytest.mark.parametrize("forged", FORGED)
async def test_a_command_cannot_open_the_links_of_the_shell_and_its_keeper(
    tools: ToolExecutor, forged: str
):
    fds = "/proc/$PPID/fd/* /proc/$$/fd/[3-9]* /proc/$$/fd/1?"
    everywhere = f"for fd in {fds}; do ({forged} > $fd) & done 2>/dev/null; wait"
    assert (await run(tools, f"{everywhere}; (exit 9)"))["exitCode"] == 9
    assert (await run(tools, "echo still here"))["output"] == "still here\n"


# bash keeps its own copies of the links open, above 9, while a command runs.
TO_EVERY_LINK = "for fd in 10 11 12 13; do {} >&$fd; done 2>/dev/null"


@pytest.mark.parametrize("nonsense", [r"printf 'x /\000'", "printf %4000000s x"])
async def test_a_shell_that_answers_nonsense_is_replaced(tools: ToolExecutor, nonsense: str):
    outcome = await call(tools, f"{TO_EVERY_LINK.format(nonsense)}; sleep 60")
    assert outcome.envelope["code"] == 2001
    assert (await run(tools, "echo still here"))["output"] == "still here\n"


async def test_a_command_cannot_guess_its_answer(tools: ToolExecutor):
    lie = TO_EVERY_LINK.format(r"printf '0 0 /etc\000'")
    data = await run(tools, f"{lie}; (exit 9)")
    assert (data["exitCode"], data["cwd"]) == (9, str(tools.context.cwd))


async def test_what_a_command_leaves_running_cannot_answer_for_the_next(tools: ToolExecutor):
    lie = TO_EVERY_LINK.format(r"printf '%s 0 /etc\000' $__outrider_line")
    await run(tools, f"(while {lie}; do sleep 0.001; done) & for i in 1 2 3; do :; done")
    for _ in range(5):
        data = await run(tools, "sleep 0.05; (exit 9)")
        assert (data["exitCode"], data["cwd"]) == (9, str(tools.context.cwd))


async def test_who_steals_the_shells_orders_cannot_answer_in_its_place(tools: ToolExecutor):
    steal = r"while read -r line <&$fd; do printf '%s 0 /etc\000' $line >&$fd; done 2>/dev/null"
    await run(tools, f"for fd in 10 11 12 13; do ({steal}) & done")
    outcome = await call(tools, "(exit 9)", timeoutMs=1_000)
    assert outcome.envelope["data"]["exitCode"] in (9, None)


async def test_where_the_shell_is_the_kernel_says(tools: ToolExecutor, tmp_path: Path):
    data = await run(tools, "mkdir sub; cd sub; PWD=/etc; true")
    assert data["cwd"] == str(tmp_path / "sub")


async def test_a_program_inherits_none_of_the_shells_links(tools: ToolExecutor):
    assert (await run(tools, "ls /proc/self/fd"))["output"].split() == ["0", "1", "2", "3"]


async def test_a_shell_that_ends_between_commands_is_told(tools: ToolExecutor, tmp_path: Path):
    await run(tools, "export kept=1; (while [ ! -e go ]; do sleep 0.01; done; kill -9 $$) &")
    shell = int((await run(tools, "echo $$"))["output"])
    (tmp_path / "go").touch()
    wait_until(lambda: not psutil.pid_exists(shell), "the shell to be killed")
    outcome = await call(tools, "echo $kept")
    assert outcome.text.startswith("1\n") and "was restarted" in outcome.text


async def test_a_shell_whose_folder_was_removed_is_replaced(tools: ToolExecutor):
    await run(tools, f"rm -rf {tools.context.spill}/outrider-shell-*")
    assert "new one" in (await call(tools, "echo lost")).text
    assert (await run(tools, "echo here"))["output"] == "here\n"


@pytest.mark.parametrize(("command", "code"), [("echo a\0b", 1002), ("echo \ud800", 1001)])
async def test_characters_no_shell_can_take_are_refused(
    tools: ToolExecutor, command: str, code: int
):
    assert (await call(tools, command)).envelope["code"] == code


async def test_a_command_of_a_megabyte_runs(tools: ToolExecutor):
    text = "x" * 1_000_000
    data = await run(tools, f"cat > big <<'END'\n{text}\nEND\nwc -c < big")
    assert data["output"].strip() == "1000001"


async def test_there_is_no_input_to_wait_for(tools: ToolExecutor):
    data = await run(tools, "read line; echo $?; cat; head -c 5; echo done")
    assert data["output"] == "1\ndone\n"


async def test_escape_sequences_are_taken_out(tools: ToolExecutor):
    colours = r"\033[1;31mred\033[0m \033]0;title\007\033]8;;http://x\033\\link\033(B\r\n"
    data = await run(tools, f"printf '{colours}'")
    assert data["output"] == "red link\n"
    states = rf"\0337\033=a\033]0;{'x' * 999}\033\\b\033P1;1|17/ab\033\\c\0338\033]0;never ended\n"
    data = await run(tools, f"printf '{states}'")
    assert data["output"] == "abc0;never ended\n"  # nothing behind it is lost


async def test_characters_without_width_stay_in_what_a_command_prints(tools: ToolExecutor):
    text = "a\u200bb\u00adc\u2060\ufeff \U0001f469\u200d\U0001f4bb\n"
    assert (await run(tools, f"printf '{text}'"))["output"] == text


async def test_the_environment_is_what_the_context_allows(tmp_path: Path):
    environment = {"PATH": os.environ["PATH"], "GIVEN": "yes", "BASH_ENV": "/nonexistent"}
    async with make_executor(tmp_path, environment=environment) as tools:
        names = (await run(tools, "env | cut -d= -f1; echo $GIVEN"))["output"].split()
    assert names[-1] == "yes"
    assert set(names[:-1]) <= {
        "PATH", "GIVEN", "PWD", "OLDPWD", "SHLVL", "_", "TERM", "PAGER", "GIT_PAGER",
        "GIT_TERMINAL_PROMPT", "LC_CTYPE",
    }  # fmt: skip


async def test_long_output_is_cut_in_the_middle_and_kept_whole(tools: ToolExecutor):
    outcome = await call(tools, "seq 1 100000; (exit 2)")
    assert outcome.text.startswith("1\n2\n") and outcome.text.endswith("100000\n[exit code 2]")
    assert "read `outrider-result:1`" in outcome.text and len(outcome.text) < 51_000
    kept = tools.context.find_spilled("outrider-result:1")
    assert kept is not None and len(kept.read_text().splitlines()) == 100_001


async def test_a_flood_is_bounded_in_memory(tools: ToolExecutor, mark: str):
    before = psutil.Process().memory_info().rss
    outcome = await call(tools, f"yes {mark}{'y' * 1000}", timeoutMs=1_500)
    assert outcome.envelope["code"] == 2002
    assert psutil.Process().memory_info().rss - before < 150_000_000
    kept = tools.context.find_spilled("outrider-result:1")
    assert kept is not None and kept.stat().st_size < 10_000_000


async def test_a_timeout_ends_what_the_command_started(tools: ToolExecutor, mark: str):
    (tools.context.cwd / "sub").mkdir()
    await run(tools, "cd sub; export kept=1")
    slow = f"echo begun; cd /; sleep {mark} & (setsid sleep {mark} &); sleep {mark}; echo never"
    outcome = await call(tools, slow, timeoutMs=1_000)
    assert outcome.envelope["code"] == 2002
    assert "begun" in outcome.text and "never" not in outcome.text and "1000 ms" in outcome.text
    assert not with_mark(mark)
    assert (await run(tools, "echo $kept; pwd"))["output"] == f"1\n{tools.context.cwd}/sub\n"
    assert tools.receipt.to_dict()["commands"][1]["exitCode"] is None


async def test_a_timeout_spares_what_ran_before(tools: ToolExecutor, mark: str):
    data = await run(tools, f"sleep {mark} & echo $!")
    pid = int(data["output"])
    wait_until(lambda: bool(with_mark(mark)), "the process never began")
    assert (await run(tools, ":"))["background"] == [{"pid": pid, "command": f"sleep {mark}"}]
    outcome = await call(tools, "sleep 1000", timeoutMs=100)
    assert outcome.envelope["code"] == 2002
    assert [process.pid for process in with_mark(mark)] == [pid]
    assert f"in the background: {pid} sleep {mark}" in outcome.text
    await tools.aclose()
    assert not with_mark(mark)


async def test_jobs_that_escape_are_listed_and_ended_with_the_session(
    tools: ToolExecutor, mark: str
):
    escape = f"(setsid nohup sleep {mark} >/dev/null 2>&1 &); (trap '' TERM HUP; sleep {mark} &)"
    await run(tools, escape)
    wait_until(lambda: len(with_mark(mark)) == 2, "not all processes began")
    listed = (await run(tools, ":"))["background"]
    assert {one["pid"] for one in listed} == {process.pid for process in with_mark(mark)}
    await tools.aclose()
    assert not with_mark(mark)


HEADLESS = """
import ctypes, pathlib, threading, time, os
threading.Thread(target=time.sleep, args=(1000,)).start()
pathlib.Path("begun").write_text(str(os.getpid()))
ctypes.CDLL(None).pthread_exit(None)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a process ends with its main thread")
async def test_a_process_whose_first_thread_has_ended_is_ended_too(
    tools: ToolExecutor, tmp_path: Path
):
    (tmp_path / "headless.py").write_text(HEADLESS)
    await run(tools, f"setsid {sys.executable} headless.py >/dev/null 2>&1 &")
    begun = tmp_path / "begun"
    wait_until(lambda: begun.exists() and bool(begun.read_text()), "the program never began")
    process = psutil.Process(int(begun.read_text()))
    wait_until(lambda: process.status() == psutil.STATUS_ZOMBIE, "its first thread to end")
    await tools.aclose()
    assert not process.is_running()


def test_processes_are_found_without_proc_too(mark: str, monkeypatch: pytest.MonkeyPatch):
    command = ["sh", "-c", f"sleep {mark} & wait # {'and so on ' * 10}end"]
    with subprocess.Popen(command, start_new_session=True) as shell:
        try:
            wait_until(lambda: bool(with_mark(mark)), "the sleeper")
            [sleeper] = with_mark(mark)
            for has_proc in (True, False):
                monkeypatch.setattr(reaping, "HAS_PROC", has_proc)
                found = reaping.descendants()
                assert {shell.pid, sleeper.pid} <= set(found)
                assert not any(reaping.command_line(pid).startswith("ps ") for pid in found)
                assert reaping.command_line(sleeper.pid) == f"sleep {mark}"
                assert reaping.command_line(shell.pid) == " ".join(command)
                assert {shell.pid, sleeper.pid}.isdisjoint(reaping.descendants({shell.pid}))
        finally:
            os.killpg(shell.pid, signal.SIGKILL)


async def test_a_background_process_does_not_hold_the_call(tools: ToolExecutor, mark: str):
    assert (await run(tools, f"sleep {mark} & echo now"))["output"] == "now\n"


async def test_a_temporary_shell_ends_with_its_call(tmp_path: Path, mark: str):
    async with make_executor(tmp_path, session_id=None) as tools:
        outcome = await call(tools, f"x=1; sleep {mark} & echo ok")
        assert outcome.envelope["meta"]["temporary_session"] is True
        assert not with_mark(mark)
        assert (await run(tools, "echo [$x]"))["output"] == "[]\n"


async def test_a_cancelled_command_is_ended(tools: ToolExecutor, mark: str):
    calling = asyncio.create_task(call(tools, f"touch begun; sleep {mark}"))
    while not (tools.context.cwd / "begun").exists():
        await asyncio.sleep(0.01)
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    assert not with_mark(mark)
    assert (await run(tools, "echo again"))["output"] == "again\n"


async def test_commands_of_one_session_take_turns(tools: ToolExecutor):
    script = "echo $$; test ! -e busy || echo OVERLAP; touch busy; sleep 0.02; rm busy"
    results = await asyncio.gather(*(run(tools, script) for _ in range(5)))
    assert len({result["output"] for result in results}) == 1
    assert "OVERLAP" not in results[0]["output"]


async def test_a_killed_keeper_is_an_answer_and_the_next_shell_a_new_one(
    tools: ToolExecutor, mark: str
):
    outcome = await call(tools, f"sleep {mark} & kill -9 $PPID; sleep {mark}")
    assert outcome.envelope["code"] == 2001
    assert (await run(tools, "echo again"))["output"] == "again\n"
    wait_until(lambda: not with_mark(mark), "processes of the killed keeper are left")


async def test_a_missing_folder_is_an_envelope(tmp_path: Path):
    async with make_executor(tmp_path / "nowhere") as tools:
        assert (await call(tools, "echo x")).envelope["code"] == 5000


async def test_a_missing_bash_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("os.defpath", str(tmp_path))
    async with make_executor(tmp_path, environment={"PATH": str(tmp_path)}) as tools:
        outcome = await call(tools, "echo x")
    assert outcome.envelope["code"] == 2004 and "bash is not installed" in outcome.text


async def test_nothing_is_left_in_the_temporary_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    async with make_executor(tmp_path) as tools:
        await run(tools, "echo x")
        assert list(tmp_path.iterdir())
    assert not list(tmp_path.iterdir())


CHILD = """
    import asyncio, os, sys
    from pathlib import Path
    from outrider.tools.context import ToolContext
    from outrider.tools.executor import ToolExecutor
    from outrider.tools.registry import tool_of
    from outrider.tools.bash import bash

    async def main():
        context = ToolContext(cwd=Path.cwd(), environment=dict(os.environ), session_id="task")
        tools = ToolExecutor([tool_of(bash)], context)
        await tools.execute("bash", {"command": sys.argv[1]})
        await tools.execute("bash", {"command": sys.argv[2]})

    asyncio.run(main())
"""


@pytest.mark.parametrize("deadly", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_outlives_a_child_that_is_killed(tmp_path: Path, mark: str, deadly: int):
    background = f"sleep {mark} & (setsid nohup sleep {mark} >/dev/null 2>&1 &)"
    running = f"touch begun; sh -c 'trap \"\" TERM HUP INT; sleep {mark}; :'"
    child = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(CHILD), background, running],
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    try:
        wait_until((tmp_path / "begun").exists, "the command never began")
        wait_until(lambda: len(with_mark(mark)) == 3, "not all processes began")
    finally:
        child.send_signal(deadly)
        child.wait()
    wait_until(lambda: not with_mark(mark), "processes outlived the child")
    wait_until(lambda: not list(tmp_path.glob("outrider-shell-*")), "a folder is left")


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(arguments=bad_arguments(TOOL.parameters), as_text=st.booleans())
def test_bad_arguments_are_refused_and_run_nothing(tmp_path: Path, arguments: Any, as_text: bool):
    async def attempt() -> ToolOutcome:
        async with make_executor(tmp_path) as tools:
            return await tools.execute("bash", sent)

    sent = arguments
    if as_text and not isinstance(arguments, str):
        with contextlib.suppress(TypeError):
            sent = orjson.dumps(arguments).decode()
    outcome = asyncio.run(attempt())
    assert 1000 <= outcome.envelope["code"] < 2000
    assert not list(tmp_path.iterdir())
