"""A server that goes wrong costs its call, with a clear envelope in time, and nothing else."""

import asyncio
import json
from pathlib import Path

import psutil
import pytest

from conftest import wait_until
from lsp_tool import PROJECTS, Lsp, faulty, processes_below
from outrider.masking import Masker
from outrider.protocol.envelope import ToolFault
from outrider.settings.keys import (
    PRIVILEGED_LSP_ACTIONS,
    READ_ONLY_LSP_ACTIONS,
    LspConfig,
    WebConfig,
)
from outrider.tools.lsp import edits, json_rpc, known_servers, language_server, positions
from outrider.tools.web.session import WebSession

QUICK = {"request_timeout_ms": 700}
QUICK_START = {"start_timeout_ms": 900}
"""Only for servers that never start: on a busy machine, one that does can take longer."""
ASKED = {"path": "app.py", "line": 1, "column": 1}
KEY = "sk-proj-Ab3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xY"


@pytest.fixture
def tree(tmp_path):
    folder = tmp_path / "tree"
    folder.mkdir()
    (folder / "app.py").write_text("".join(f"name_{n} = {n}\n" for n in range(20)))
    yield folder
    wait_until(lambda: not processes_below(), "servers that outlive their session")


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(language_server, "BACK_OFF_SECONDS", 0.01)


async def test_a_server_that_is_missing_is_named_with_the_command_that_installs_it(tree):
    (tree / "main.go").write_text("package main\n")
    async with Lsp(tree, environment={"PATH": "/nonexistent"}) as lsp:
        code, message = await lsp.fault("symbols", path="main.go")
    assert code == 2004 and "go install golang.org/x/tools/gopls@latest" in message


async def test_a_server_that_is_not_executable_is_told(tree, tmp_path):
    program = tmp_path / "bin" / "server"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    own = {"own": {"command": [str(program)], "fileTypes": ["py"]}}
    async with Lsp(tree, config=LspConfig(servers=own, preferred={"own": "own"})) as lsp:
        code, message = await lsp.fault("definition", **ASKED)
        assert code == 2004 and "executable" in message
        program.write_text("no program at all")
        program.chmod(0o755)
        code, message = await lsp.fault("definition", **ASKED)
        assert code == 2004 and "can't be started" in message


async def test_a_server_that_crashes_at_its_start_says_why_and_is_not_started_for_ever(tree):
    async with faulty(tree, "crash-start") as lsp:
        for _ in range(language_server.MAX_CRASHES):
            code, message = await lsp.fault("definition", **ASKED)
            assert code == 2001 and "exit code 1" in message
            assert "cannot find my licence" in message and "\x1b" not in message
        code, message = await lsp.fault("definition", **ASKED)
        assert code == 2004 and "won't be restarted" in message


async def test_a_server_that_crashes_at_a_question_serves_the_next_one_anew(tree):
    async with faulty(tree, "crash-third") as lsp:
        for _ in range(2):
            assert await lsp.places("definition", **ASKED) == {"app.py:1:1"}
        code, message = await lsp.fault("definition", **ASKED)
        assert code == 2001 and "the third question is too much" in message
        assert await lsp.places("definition", **ASKED) == {"app.py:1:1"}


async def test_a_server_that_hangs_is_given_up_in_time_and_replaced(tree):
    async with faulty(tree, "hang", times=QUICK) as lsp:
        for _ in range(2):
            code, message = await lsp.fault("definition", **ASKED)
            assert code == 2002 and "0.7 s" in message
            wait_until(lambda: not processes_below(), "the server that hung")


async def test_a_server_that_hangs_at_its_start_is_given_up_in_time(tree):
    async with faulty(tree, "hang-start", times=QUICK_START) as lsp:
        code, message = await lsp.fault("definition", **ASKED)
    assert code == 2002 and "initialize" in message and "0.9 s" in message


@pytest.mark.parametrize("mode", ["garbage", "no-json", "no-object"])
async def test_garbage_is_told_at_once_and_the_server_replaced(tree, mode):
    async with faulty(tree, mode) as lsp:
        for _ in range(2):
            code, message = await lsp.fault("definition", **ASKED)
            assert code == 2001 and "not the protocol's JSON" in message


async def test_a_flood_of_complaints_takes_no_memory_and_no_answer_is_lost(tree):
    async with faulty(tree, "flood") as lsp:
        assert await lsp.places("definition", **ASKED) == {"app.py:1:1"}
        (server,) = lsp.session.servers.values()
    assert len(server._complaints) <= json_rpc.MAX_STDERR_BYTES


async def test_an_answer_of_50_mb_is_refused_and_the_same_server_goes_on(tree):
    async with faulty(tree, "huge") as lsp:
        code, message = await lsp.fault("definition", **ASKED)
        assert code == 1007 and "50,000," in message
        (process,) = processes_below()
        assert await lsp.places("definition", **ASKED) == {"app.py:1:1"}
        assert processes_below() == [process]


async def test_a_server_that_reads_nothing_is_given_up_in_time(tree):
    (tree / "app.py").write_text("x = 1\n" * 500_000)
    async with faulty(tree, "unread", times=QUICK | QUICK_START) as lsp:
        assert (await lsp.fault("definition", **ASKED))[0] == 2002


async def test_a_server_that_asks_and_never_reads_the_answers_takes_no_memory(tree, monkeypatch):
    monkeypatch.setattr(json_rpc, "MAX_UNSENT_BYTES", 100_000)
    async with faulty(tree, "demand") as lsp:
        code, message = await lsp.fault("definition", **ASKED)
    assert code == 2001 and "doesn't read what it is sent" in message


async def test_a_server_that_does_not_offer_to_be_asked_for_diagnostics_may_answer(tree):
    """What it sends unasked may come before it has looked at the whole file."""
    async with faulty(tree, "modest") as lsp:
        assert await lsp.places("diagnostics", path="app.py") == {"app.py:3:1"}
    async with faulty(tree, "error", times=QUICK) as lsp:
        code, message = await lsp.fault("diagnostics", path="app.py")
    assert code == 2002 and "said nothing of app.py" in message


async def test_whatever_goes_wrong_at_the_start_is_told_and_the_next_call_starts_anew(
    tree, monkeypatch
):
    def fails(*_):
        raise RuntimeError("nobody expected this")

    async with faulty(tree, "fine") as lsp:
        with monkeypatch.context() as patched:
            patched.setattr(language_server, "source_files", fails)
            code, message = await lsp.fault("definition", **ASKED)
        assert code == 2004 and "nobody expected this" in message
        assert await lsp.places("definition", **ASKED) == {"app.py:1:1"}


async def test_a_server_that_refuses_is_quoted_short_and_without_control_characters(tree):
    async with faulty(tree, "error") as lsp:
        code, message = await lsp.fault("definition", **ASKED)
    assert code == 2001 and "no idea" in message
    assert len(message) < 1_000 and "\x1b" not in message and "\x07" not in message


async def test_a_question_that_met_a_change_is_asked_again(tree):
    async with faulty(tree, "retry") as lsp:
        assert await lsp.places("definition", **ASKED) == {"app.py:1:1"}


async def test_a_cancelled_call_is_cancelled_at_the_server_which_stays_usable(tree, tmp_path):
    told = tmp_path / "told"
    async with faulty(tree, "hang-once", str(told)) as lsp:
        call = asyncio.create_task(lsp.call("definition", **ASKED))
        await asyncio.to_thread(wait_until, lambda: processes_below(), "the server")
        (server,) = lsp.session.servers.values()
        await server.start()
        while not server._waiting:
            await asyncio.sleep(0.01)
        call.cancel()
        await asyncio.wait({call})
        assert await lsp.places("definition", **ASKED) == {"app.py:1:1"}
        await asyncio.to_thread(wait_until, told.exists, "the server to be told")
        assert list(lsp.session.servers.values()) == [server]


async def test_a_call_that_is_cancelled_while_the_server_starts_leaves_it_to_the_others(tree):
    async with faulty(tree, "fine") as lsp:
        calls = [asyncio.create_task(lsp.call("definition", **ASKED)) for _ in range(2)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        calls[0].cancel()
        assert (await calls[1]).envelope["code"] == 0
        assert len(processes_below()) == 1


async def test_what_a_server_has_started_ends_with_it(tree, tmp_path):
    pid = tmp_path / "pid"
    async with faulty(tree, "children", str(pid)) as lsp:
        await lsp.text("definition", **ASKED)
        assert psutil.pid_exists(int(pid.read_text()))
    wait_until(lambda: not processes_below(), "the server's own child")


async def test_a_server_that_never_ends_loading_gives_an_answer_that_says_so(tree, monkeypatch):
    async with faulty(tree, "loads", times={"start_timeout_ms": 6_000}) as lsp:
        text = await lsp.text("definition", **ASKED)
        assert "app.py" in text and "still loading" in text
        # It is waited for only once.
        monkeypatch.setattr(language_server, "_LOOK_AROUND_SECONDS", 1_000)
        await lsp.text("definition", **ASKED)


async def test_a_place_outside_the_roots_is_named_and_its_text_not_shown(tree):
    async with faulty(tree, "outside") as lsp:
        outcome = await lsp.call("definition", **ASKED)
    assert outcome.envelope["code"] == 0
    assert "/etc/passwd" in outcome.text and "root:" not in outcome.text
    assert outcome.effects.files_read == ("app.py",)


async def test_a_link_that_leads_out_and_a_credential_file_are_not_shown(tree, tmp_path):
    (tmp_path / "private.py").write_text("the private text\n")
    (tree / "link.py").symlink_to(tmp_path / "private.py")
    (tree / ".env").write_text("the credential text\n")
    async with faulty(tree, "named", f"{tree}/link.py", f"{tree}/.env") as lsp:
        text = await lsp.text("definition", **ASKED)
    assert "link.py" in text and ".env" in text
    assert "private text" not in text and "credential text" not in text


async def test_places_beyond_the_file_are_no_fault_of_the_caller(tree):
    async with faulty(tree, "beyond") as lsp:
        text = await lsp.text("references", **ASKED)
    assert "1000001:4" in text and "1:11  name_0 = 0" in text


async def test_a_long_list_is_cut_with_a_count(tree):
    async with faulty(tree, "many") as lsp:
        outcome = await lsp.call("references", **ASKED)
    assert outcome.text.startswith("5000 in 1 file")
    assert "4900 more are not shown" in outcome.text and len(outcome.text) < 10_000


@pytest.mark.parametrize("mode", ["wrong-shape", "no-places", "a-word"])
async def test_an_answer_of_another_shape_is_no_crash_and_no_empty_answer(tree, mode):
    async with faulty(tree, mode) as lsp:
        for action in ("definition", "incoming-calls", "diagnostics"):
            assert (await lsp.fault(action, **ASKED))[0] == 2001
        assert (await lsp.fault("symbols", path="app.py"))[0] == 2001
        assert (await lsp.fault("workspace-diagnostics", path="app.py"))[0] == 2001


@pytest.fixture
def mixed(tree):
    """A tree with files for two servers."""
    (tree / "page.js").write_text("let name_2, name_3\n")
    (tree / "more.js").write_text("let name_2, name_3\n")
    return tree


AMISS = {
    "stack": "faulty refused textDocument/documentSymbol: Server Error No Project.",
    "crash-start": "faulty ended with exit code 1",
    "hang": "faulty didn't answer textDocument/documentSymbol in 0.7 s",
    "hang-start": "faulty didn't answer initialize in 0.9 s",
    "garbage": "faulty answered with something that is not the protocol's JSON",
    "wrong-shape": "faulty gave an unexpected answer",
}


@pytest.mark.parametrize("mode", AMISS)
async def test_what_one_server_refuses_costs_no_other_s_answer_and_is_told(mixed, mode):
    times = {"hang": QUICK, "hang-start": QUICK_START}.get(mode)
    marked = {"markers": ["marker"], "beside": ["one-good"], "times": times}
    async with faulty(mixed, mode, **marked) as lsp:
        text = await lsp.text("workspace-symbols", query="name")
        assert text.startswith("1 in 1 file, from other") and "app.py\n  3:1  name_2" in text
        assert f"[{AMISS[mode]}" in text.replace("\n", " ") and "server.js" not in text
        assert await lsp.places("definition", symbol="name_2") == {"app.py:3:1"}
        code, message = await lsp.fault("hover", symbol="name_3")
        assert code == 1003 and "other found no symbol 'name_3'; faulty " in message


async def test_a_server_that_is_missing_costs_no_other_s_answer_and_is_told(mixed):
    for action in ("workspace-symbols", "workspace-diagnostics"):
        asked = {"markers": ["marker"], "beside": ["/nonexistent/server"]}
        async with faulty(mixed, "one-good", **asked) as lsp:
            text = await lsp.text(action, query="name")
        assert "app.py\n  3:1" in text and "[other isn't installed" in text


async def test_it_is_an_error_that_names_all_servers_where_all_refuse(mixed):
    async with faulty(mixed, "stack", markers=["marker"], beside=["crash-start"]) as lsp:
        for action in ("workspace-symbols", "hover"):
            code, message = await lsp.fault(action, query="name_2", symbol="name_2")
            assert code == 2001 and "No Project" in message and "cannot find my lic" in message
        code, message = await lsp.fault("workspace-symbols")
        assert code == 1002 and "needs a name" in message


async def test_diagnostics_of_a_tree_come_from_all_servers_or_say_which_failed(mixed):
    marked = {"markers": ["marker"], "beside": ["one-good"]}
    async with faulty(mixed, "crash-checking", **marked) as lsp:
        text = await lsp.text("workspace-diagnostics")
        assert "app.py\n  3:1" in text and "[faulty ended with exit code 1" in text
        code, message = await lsp.fault("workspace-diagnostics", path="app.py")
        assert code == 2001 and "checking is too much" in message, "nothing wrong isn't said"


async def test_one_bad_entry_of_an_answer_costs_no_other(tree):
    async with faulty(tree, "one-good") as lsp:
        for action in ("definition", "incoming-calls", "outgoing-calls", "diagnostics"):
            assert await lsp.places(action, **ASKED) == {"app.py:3:1"}
        assert await lsp.places("symbols", path="app.py") == {"app.py:3:1"}
        assert await lsp.places("workspace-diagnostics", path="app.py") == {"app.py:3:1"}


async def test_a_source_line_with_a_secret_is_masked_with_what_stands_above_it(tree):
    body = "".join(f"MIIEpAIBAAKCAQEA{n:048d}\n" for n in range(9))
    key = f"-----BEGIN RSA PRIVATE KEY-----\n{body}-----END RSA PRIVATE KEY-----\n"
    (tree / "app.py").write_text(f'KEY = """{key}"""\ntoken = "{KEY}"\n')
    mask = Masker(only_secrets=True)
    async with faulty(tree, "secret", "4", "11", mask=mask) as lsp:
        text = await lsp.text("definition", **ASKED)
    assert "MIIEpAIB" not in text and KEY not in text and "[masked" in text


async def test_the_server_gets_no_secret_and_nothing_that_leads_into_the_tree(tree, monkeypatch):
    (tree / "bin").mkdir()
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("NODE_OPTIONS", "--require ./trap.js")
    monkeypatch.setenv("VIRTUAL_ENV", str(tree))
    monkeypatch.setenv("PATH", f"{tree}/bin:relative:/usr/bin")
    withheld = ("OPENAI_API_KEY", "VIRTUAL_ENV", "NODE_OPTIONS")
    async with faulty(tree, "environment", "PATH", *withheld) as lsp:
        seen = json.loads("\n".join((await lsp.text("hover", **ASKED)).splitlines()[1:]))
    assert seen == {"PATH": "/usr/bin"} | dict.fromkeys(withheld)


@pytest.mark.parametrize("action", PRIVILEGED_LSP_ACTIONS)
async def test_privileged_actions_are_denied_unless_they_are_opened(tree, action):
    async with faulty(tree, "fine") as lsp:
        code, message = await lsp.fault(action, path="app.py", newName="x")
    assert code == 1004 and "never open to a child" in message
    assert not processes_below()


async def test_an_action_that_is_not_allowed_is_denied(tree):
    async with faulty(tree, "fine", actions=("hover",)) as lsp:
        code, message = await lsp.fault("definition", **ASKED)
    assert code == 1004 and "subagents.allowedLspActions" in message


async def test_a_rename_is_made_in_all_files_or_in_none(tree, monkeypatch):
    files = [tree / f"{name}.py" for name in "abc"]
    for file in files:
        file.write_bytes(b"one\r\ntwo\r\n")
    everything = (*READ_ONLY_LSP_ACTIONS, *PRIVILEGED_LSP_ACTIONS)
    asked = {**ASKED, "newName": "new"}
    before = [file.read_bytes() for file in files]
    async with faulty(tree, "rename", *map(str, files), actions=everything) as lsp:
        assert "+# a.py" in await lsp.text("rename", dryRun=True, **asked)
        assert [file.read_bytes() for file in files] == before
        files[2].chmod(0o444)
        code, message = await lsp.fault("rename", **asked)
        assert code == 1004 and "c.py" in message
        assert [file.read_bytes() for file in files] == before
        files[2].chmod(0o644)
        await lsp.text("rename", **asked)
        assert [file.read_bytes() for file in files] == [
            f"# {file.name}\r\n".encode() + b"one\r\ntwo\r\n" for file in files
        ]
        written = {one.path for one in lsp.executor.receipt.effects.files_written}
        assert written == {"a.py", "b.py", "c.py"}
    outside = tree.parent / "outside.py"
    outside.write_text("x\n")
    async with faulty(tree, "rename", str(files[0]), str(outside), actions=everything) as lsp:
        assert (await lsp.fault("rename", **asked))[0] == 1004
    assert outside.read_text() == "x\n" and files[0].read_bytes().count(b"# a.py") == 1


async def test_an_edit_that_fails_is_undone_in_every_file_that_only_we_have_changed(
    tree, monkeypatch
):
    files = [tree / f"{name}.py" for name in "abc"]
    for file in files:
        file.write_text("one\n")
    made = edits.Change.make

    def fails_at_the_last(self, context, *, undo=False):
        if self.place.shown == "c.py":
            files[1].write_text("somebody else's\n")
            raise OSError("the disk has gone")
        made(self, context, undo=undo)

    monkeypatch.setattr(edits.Change, "make", fails_at_the_last)
    everything = (*READ_ONLY_LSP_ACTIONS, *PRIVILEGED_LSP_ACTIONS)
    async with faulty(tree, "rename", *map(str, files), actions=everything) as lsp:
        assert (await lsp.fault("rename", **ASKED, newName="new"))[0] == 5000
        assert not lsp.executor.receipt.effects.files_written
    assert [file.read_text() for file in files] == ["one\n", "somebody else's\n", "one\n"]


async def test_damaged_text_in_which_a_server_counts_differently_is_not_edited(tree):
    content = b"# caf\xc3\xa9 " * 5 + b"\xe2\x82 x = 1\n"
    (tree / "app.py").write_bytes(content)
    everything = (*READ_ONLY_LSP_ACTIONS, *PRIVILEGED_LSP_ACTIONS)
    async with faulty(tree, "rename", str(tree / "app.py"), actions=everything) as lsp:
        code, message = await lsp.fault("rename", **ASKED, newName="new")
    assert code == 1006 and "app.py is damaged text" in message
    assert (tree / "app.py").read_bytes() == content


async def test_a_server_that_was_ended_is_not_started_by_a_call_that_was_under_way(tree):
    async with faulty(tree, "fine") as lsp:
        await lsp.text("definition", **ASKED)
        (server,) = lsp.session.servers.values()
        await lsp.session.aclose()
        with pytest.raises(ToolFault, match="ended"):
            await server.ask("textDocument/hover", {})
        assert not processes_below()
        await lsp.text("definition", **ASKED)  # by a new one


async def test_files_that_no_server_can_be_given_are_refused(tree, monkeypatch):
    (tree / "big.py").write_bytes(b"x = 1\n" * 9_000_000)
    (tree / "binary.py").write_bytes(bytes(range(256)) * 10)
    (tree.parent / "outside.py").write_text("x = 1\n")
    (tree / "strange.xyz").write_text("x\n")
    async with faulty(tree, "fine") as lsp:
        asked = {"line": 1, "column": 1}
        assert (await lsp.fault("hover", path="big.py", **asked))[0] == 1007
        assert (await lsp.fault("hover", path="binary.py", **asked))[0] == 1007
        assert (await lsp.fault("hover", path="../outside.py", **asked))[0] == 1004
        assert (await lsp.fault("hover", path="gone.py", **asked))[0] == 1003
        assert (await lsp.fault("hover", path="strange.xyz", **asked))[0] == 2004
        assert (await lsp.fault("hover", path="gone.xyz", **asked))[0] == 1003
        assert "folder" in (await lsp.fault("hover", path=".", **asked))[1]
        assert (await lsp.fault("hover", path="app.py", line=500, column=1))[0] == 1002
        assert (await lsp.fault("hover", path="app.py"))[0] == 1002
        assert (await lsp.fault("hover"))[0] == 1002
    assert positions.MAX_SOURCE_BYTES < 9_000_000


def test_places_are_counted_in_characters_here_and_in_utf16_units_there():
    source = positions.SourceText("a\r\nx🙂y\n\x0cz\rlast")
    assert source.lines == ["a", "x🙂y", "\x0cz", "last"]
    assert source.to_server(2, 3) == {"line": 1, "character": 3}
    assert source.from_server(1, 3) == (2, 3)
    assert source.from_server(1, 2) == (2, 2), "within the emoji"
    assert source.from_server(1, 99) == (2, 4)
    assert source.from_server(4, 0) is None and source.from_server(-1, 0) is None
    assert source.offset({"line": 3, "character": 1}) == source.text.index("ast")


def test_only_local_files_have_a_path():
    assert positions.path_of(positions.uri_of("/a b/ü#?.py")) == "/a b/ü#?.py"
    for uri in (
        "https://x/y",
        "file://host/x",
        "file:x",
        "untitled:1",
        "file://[",
        "file:///\ud800",
        None,
        5,
    ):
        assert positions.path_of(uri) is None
    assert PROJECTS.is_dir() and Path(PROJECTS, "c").is_dir()


async def test_what_was_shown_of_local_files_cannot_go_out_to_the_web(tree):
    line = "the_quiet_plan = 'we meet at the old harbour before the first ferry leaves'"
    (tree / "app.py").write_text(f"{line}\n")
    web = WebSession(WebConfig(), keys={}, mask=Masker())
    async with faulty(tree, "fine", web=web) as lsp:
        web.outgoing.check(f"https://example.org/?q={line[18:]}")
        await lsp.text("definition", **ASKED)
        with pytest.raises(ToolFault, match="read from local files"):
            web.outgoing.check(f"https://example.org/?q={line[18:]}")


async def test_a_program_anywhere_in_the_repository_is_passed_over(tree):
    (tree / ".git").mkdir()
    inner = tree / "packages/one"
    inner.mkdir(parents=True)
    (tree / "tools").mkdir()
    program = tree / "tools/gopls"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    (tree.parent / "linked").symlink_to(tree / "tools")
    env = {"PATH": f"{tree}/tools:{tree.parent}/linked:tools", "HOME": str(tree.parent / "home")}
    for trusted in (False, True):
        async with Lsp(inner, environment=env, trusted=trusted) as lsp:
            found = lsp.session.programs(lsp.context).find("gopls")
            assert found == (str(program) if trusted else None)


async def test_a_server_that_crashes_again_is_given_longer_and_longer_pauses(tree, monkeypatch):
    unit, sleep, pauses = 0.0123, asyncio.sleep, []

    async def recorded(seconds: float) -> None:
        pauses.append(seconds)
        await sleep(seconds)

    monkeypatch.setattr(language_server, "BACK_OFF_SECONDS", unit)
    monkeypatch.setattr(asyncio, "sleep", recorded)
    async with faulty(tree, "crash-start") as lsp:
        for _ in range(3):
            await lsp.fault("definition", **ASKED)
    assert [pause for pause in pauses if pause in (unit, 3 * unit)] == [unit, 3 * unit]


async def test_only_a_few_servers_run_at_once(tree):
    for number in range(6):
        folder = tree / f"package_{number}"
        folder.mkdir()
        (folder / "marker").touch()
        (folder / "app.py").write_text("x = 1\n")
    async with faulty(tree, "fine", markers=["marker"]) as lsp:
        for number in range(6):
            await lsp.text("definition", **{**ASKED, "path": f"package_{number}/app.py"})
        kept = [root.rpartition("/")[2] for _, root in lsp.session.servers]
        assert kept == [f"package_{number}" for number in range(2, 6)]
        await asyncio.to_thread(wait_until, lambda: len(processes_below()) == 4, "the first two")


async def test_a_server_that_talks_and_never_answers_is_replaced_after_two_questions(tree):
    async with faulty(tree, "talk", times=QUICK) as lsp:
        for _ in range(2):
            assert (await lsp.fault("definition", **ASKED))[0] == 2002
        await asyncio.to_thread(wait_until, lambda: not processes_below(), "the talking server")


async def test_a_file_that_is_no_longer_seen_is_not_reported_as_deleted(tree, monkeypatch):
    for number in range(9):
        (tree / f"file_{number}.py").write_text("x = 1\n")
    async with faulty(tree, "fine") as lsp:
        await lsp.text("definition", **ASKED)
        (server,) = lsp.session.servers.values()
        told = []
        monkeypatch.setattr(server, "notify", lambda method, params: told.append((method, params)))
        monkeypatch.setattr(known_servers, "MAX_FILES", 3)
        (tree / "file_0.py").unlink()
        await lsp.text("definition", **ASKED)
        (changes,) = [params["changes"] for method, params in told if "Watched" in method]
        assert [one["type"] for one in changes] == [3]
