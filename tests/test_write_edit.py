"""What keeps `write` and `edit` from ever leaving a file half changed, or changed unasked."""

import asyncio
import fcntl
import hashlib
import os
import random
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from file_tools import FileTools, snapshot
from outrider.workspaces import atomic_replace
from outrider.workspaces.place import TEMPORARY_PREFIX

BAD, MISSING, DENIED, CONFLICT, TOO_LARGE = 1002, 1003, 1004, 1006, 1007


def one(old: str, new: str, **more: Any) -> dict[str, Any]:
    return {"oldText": old, "newText": new, **more}


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


async def test_write_makes_a_file_and_its_folders(tmp_path: Path):
    tools = FileTools(tmp_path)
    text = await tools.text("write", path="a/b/c.txt", content="one\ntwö\n")
    assert (tmp_path / "a/b/c.txt").read_bytes() == "one\ntwö\n".encode()
    assert text == "Made a/b/c.txt (9 B, 2 lines)."
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE((tmp_path / "a/b/c.txt").stat().st_mode) == 0o666 & ~mask
    assert os.listdir(tmp_path / "a/b") == ["c.txt"]


async def test_write_replaces_a_file_and_keeps_its_mode(tmp_path: Path):
    file = tmp_path / "run.sh"
    file.write_text("#!/bin/sh\nold\nend\n")
    file.chmod(0o750)
    tools = FileTools(tmp_path)
    text = await tools.text("write", path="run.sh", content="#!/bin/sh\nnew\nend\n")
    assert stat.S_IMODE(file.stat().st_mode) == 0o750
    assert text == "Replaced run.sh (18 B, 3 lines)."


async def test_the_receipt_has_the_hashes_before_and_after(tmp_path: Path):
    tools = FileTools(tmp_path)
    await tools.text("write", path="a.txt", content="one\n")
    await tools.text("edit", path="a.txt", edits=[one("one", "two")])
    (tmp_path / "b.txt").write_text("b")
    await tools.text("edit", path="b.txt", edits=[one("b", "c")])
    await tools.call("edit", path="b.txt", edits=[one("nothing", "c")])
    assert tools.receipt.to_dict()["filesWritten"] == [
        {"path": "a.txt", "before": None, "after": sha(b"two\n")},
        {"path": "b.txt", "before": sha(b"b"), "after": sha(b"c")},
    ]


async def test_what_can_not_be_written_changes_nothing(tmp_path: Path):
    (tmp_path / "file").write_text("x")
    (tmp_path / "folder").mkdir()
    (tmp_path / "fixed").write_text("x")
    (tmp_path / "fixed").chmod(0o444)
    before = snapshot(tmp_path)
    tools = FileTools(tmp_path)
    assert await tools.code("write", path="folder", content="x") == BAD
    assert await tools.code("write", path=".", content="x") == BAD
    assert await tools.code("write", path="new/", content="x") == BAD
    assert await tools.code("write", path="file/below", content="x") == MISSING
    assert await tools.code("write", path="fixed", content="y") == DENIED
    assert await tools.code("edit", path="no/such/file", edits=[one("a", "b")]) == MISSING
    assert await tools.code("edit", path="nothing", edits=[one("a", "b")]) == MISSING
    assert await tools.code("edit", path="folder", edits=[one("a", "b")]) == BAD
    assert snapshot(tmp_path) == before


async def test_a_full_disk_leaves_the_old_file_and_no_litter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "a.txt").write_text("old")
    before = snapshot(tmp_path)

    def full(file: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(atomic_replace.os, "fsync", full)
    outcome = await FileTools(tmp_path).call("write", path="a.txt", content="new")
    assert outcome.envelope["code"] == 2004 and "No space" in outcome.text
    assert snapshot(tmp_path) == before


async def test_several_edits_are_all_made_against_the_file_as_it_was(tmp_path: Path):
    (tmp_path / "a.txt").write_text("a b c\n")
    tools = FileTools(tmp_path)
    await tools.text("edit", path="a.txt", edits=[one("a", "b"), one("b", "c"), one("c", "a")])
    assert (tmp_path / "a.txt").read_text() == "b c a\n"


async def test_one_edit_that_fails_undoes_all(tmp_path: Path):
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    before = snapshot(tmp_path)
    edits = [one("one", "1"), one("three", "3")]
    outcome = await FileTools(tmp_path).call("edit", path="a.txt", edits=edits)
    assert outcome.envelope["code"] == CONFLICT and "edit 2" in outcome.text
    assert snapshot(tmp_path) == before


async def test_text_that_is_there_twice_is_not_guessed_at(tmp_path: Path):
    (tmp_path / "a.txt").write_text("x = 1\ny\nx = 1\naaa\n")
    tools = FileTools(tmp_path)
    outcome = await tools.call("edit", path="a.txt", edits=[one("x = 1", "x = 2")])
    assert outcome.envelope["code"] == CONFLICT and "lines 1, 3" in outcome.text
    assert await tools.code("edit", path="a.txt", edits=[one("aa", "b")]) == CONFLICT
    await tools.text("edit", path="a.txt", edits=[one("x = 1", "x = 2", all=True)])
    assert (tmp_path / "a.txt").read_text() == "x = 2\ny\nx = 2\naaa\n"


async def test_edits_that_overlap_are_refused(tmp_path: Path):
    (tmp_path / "a.txt").write_text("abcdef\n")
    tools = FileTools(tmp_path)
    for edits in ([one("abcd", "x"), one("cdef", "y")], [one("abc", "x"), one("abc", "y")]):
        outcome = await tools.call("edit", path="a.txt", edits=edits)
        assert outcome.envelope["code"] == CONFLICT and "overlap" in outcome.text
    await tools.text("edit", path="a.txt", edits=[one("abc", "x"), one("def", "y")])
    assert (tmp_path / "a.txt").read_text() == "xy\n"


async def test_an_edit_that_changes_nothing_is_refused(tmp_path: Path):
    (tmp_path / "a.txt").write_bytes(b"a\r\nb\r\n")
    tools = FileTools(tmp_path)
    assert await tools.code("edit", path="a.txt", edits=[one("a", "a")]) == BAD
    assert await tools.code("edit", path="a.txt", edits=[one("a\r\nb", "a\nb")]) == BAD
    assert await tools.code("edit", path="a.txt", edits=[one("", "x")]) == BAD
    assert await tools.code("edit", path="a.txt", edits=[]) == BAD


async def test_a_mismatch_says_what_to_do(tmp_path: Path):
    (tmp_path / "a.py").write_text("import os\n\ndef total(values):\n    return sum(values)\n")
    tools = FileTools(tmp_path)
    outcome = await tools.call("edit", path="a.py", edits=[one("3\tdef total(values):", "")])
    assert outcome.envelope["code"] == CONFLICT
    assert "is not in a.py" in outcome.text and "without line numbers" in outcome.text


async def test_a_mismatch_in_a_large_file_is_answered_in_bounded_time(tmp_path: Path):
    (tmp_path / "a.txt").write_text("abcabcabc" * 40 + "\n" + "some ordinary line\n" * 50_000)
    wanted = "some ordinary liness\n" * 500
    call = FileTools(tmp_path).call("edit", path="a.txt", edits=[one(wanted, "")])
    assert (await asyncio.wait_for(call, 30)).envelope["code"] == CONFLICT


@pytest.mark.parametrize(
    ("before", "edits", "after"),
    [
        (b"a\r\nb\r\nc\r\n", [one("a\nb", "x\ny\nz")], b"x\r\ny\r\nz\r\nc\r\n"),
        (b"a\r\nb\r\n", [one("b", "1\n2")], b"a\r\n1\r\n2\r\n"),
        (b"a\nb\n", [one("a\r\nb", "x\r\ny")], b"x\ny\n"),
        (b"a\r\nb\nc\n", [one("a\nb\nc", "x\ny")], b"x\r\ny\n"),
        (b"\xef\xbb\xbfa\n", [one("a", "\u00fc")], b"\xef\xbb\xbf\xc3\xbc\n"),
        ("\ufeffab\n".encode("utf-16-le"), [one("b", "ü")], "\ufeffaü\n".encode("utf-16-le")),
        ("grün b\n".encode("latin-1"), [one("b", "blöd")], "grün blöd\n".encode("latin-1")),
        ("äöü b".encode() + b"\xff\n", [one("b", "c")], "äöü c".encode() + b"\xff\n"),
        (b"no newline", [one("newline", "end")], b"no end"),
    ],
)
async def test_line_endings_encoding_and_all_else_are_kept(
    tmp_path: Path, before: bytes, edits: list[Any], after: bytes
):
    file = tmp_path / "a.txt"
    file.write_bytes(before)
    file.chmod(0o640)
    await FileTools(tmp_path).text("edit", path="a.txt", edits=edits)
    assert file.read_bytes() == after
    assert stat.S_IMODE(file.stat().st_mode) == 0o640


async def test_what_the_encoding_lacks_is_refused(tmp_path: Path):
    (tmp_path / "a.txt").write_bytes("grün\n".encode("latin-1"))
    outcome = await FileTools(tmp_path).call("edit", path="a.txt", edits=[one("gr", "€")])
    assert outcome.envelope["code"] == BAD and "latin-1" in outcome.text


async def test_what_is_not_text_or_too_large_is_not_edited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "a.bin").write_bytes(b"a\0b\1\2")
    (tmp_path / "large.txt").write_text("a" * 2_000)
    monkeypatch.setattr(atomic_replace, "MAX_CONTENT_BYTES", 1_000)
    tools = FileTools(tmp_path)
    assert await tools.code("edit", path="a.bin", edits=[one("a", "b")]) == TOO_LARGE
    assert await tools.code("edit", path="large.txt", edits=[one("a", "b")]) == TOO_LARGE
    await tools.text("write", path="large.txt", content="small")
    written = tools.receipt.to_dict()["filesWritten"]
    assert written[0]["before"] == sha(b"a" * 2_000)


async def test_edits_of_one_file_at_the_same_time_are_not_lost(tmp_path: Path):
    (tmp_path / "a.txt").write_text("".join(f"<{n}>\n" for n in range(20)))
    tools = FileTools(tmp_path)
    calls = [tools.code("edit", path="a.txt", edits=[one(f"<{n}>", f"[{n}]")]) for n in range(20)]
    assert await asyncio.gather(*calls) == [0] * 20
    assert (tmp_path / "a.txt").read_text() == "".join(f"[{n}]\n" for n in range(20))


async def test_a_change_by_somebody_else_during_the_call_is_not_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    file = tmp_path / "a.txt"
    file.write_text("old")
    durable = atomic_replace.os.fsync

    def meanwhile(descriptor: int) -> None:
        file.write_text("changed by somebody else")
        durable(descriptor)

    monkeypatch.setattr(atomic_replace.os, "fsync", meanwhile)
    assert (
        await FileTools(tmp_path).code("edit", path="a.txt", edits=[one("old", "new")]) == CONFLICT
    )
    assert file.read_text() == "changed by somebody else"
    assert os.listdir(tmp_path) == ["a.txt"]


# Forks a writer for each line that it is sent, so that a hundred of them are there in no time.
WRITERS = """
import asyncio, os, sys, time
from pathlib import Path
from outrider.tools.loading import builtin_tools
from outrider.tools.context import ToolContext
from outrider.tools.executor import ToolExecutor

async def write(path, content, edited, old, new):
    executor = ToolExecutor(builtin_tools(), ToolContext(cwd=Path(sys.argv[1])))
    await executor.execute("write", {"path": path, "content": content})
    await executor.execute("edit", {"path": edited, "edits": [{"oldText": old, "newText": new}]})

async def write_on_and_on():
    while True:
        await write("written.txt", "b" * 300_000, "edited.txt", "first", "second")
        await write("written.txt", "a" * 200_000, "edited.txt", "second", "first")

# What is imported late is imported before the first fork; then one round says how long it takes.
asyncio.run(write("other.txt", "x", "other.txt", "x", "y"))
start = time.monotonic()
asyncio.run(write("written.txt", "b" * 300_000, "edited.txt", "first", "second"))
print(time.monotonic() - start, flush=True)
while sys.stdin.readline():
    child = os.fork()
    if child == 0:
        asyncio.run(write_on_and_on())
    print(child, flush=True)
    os.waitpid(child, 0)
    print("gone", flush=True)
"""


def test_a_process_killed_at_any_moment_leaves_the_old_file_or_the_new_one(tmp_path: Path):
    rest = "line\n" * 50_000
    allowed = {
        "written.txt": {"a" * 200_000, "b" * 300_000},
        "edited.txt": {f"first\n{rest}", f"second\n{rest}"},
    }
    (tmp_path / "written.txt").write_text("a" * 200_000)
    (tmp_path / "edited.txt").write_text(f"first\n{rest}")
    seen = {name: set[str]() for name in allowed}
    chance = random.Random(7)
    command = [sys.executable, "-c", WRITERS, str(tmp_path)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as writers:
        assert writers.stdin and writers.stdout
        round_seconds = float(writers.stdout.readline())
        rounds = 0
        while rounds < 30 or (seen["written.txt"] != allowed["written.txt"] and rounds < 1_000):
            rounds += 1
            writers.stdin.write("\n")
            child = int(writers.stdout.readline())
            time.sleep(chance.uniform(0.0, 4 * round_seconds))
            os.kill(child, signal.SIGKILL)
            assert writers.stdout.readline() == "gone\n"
            for name, contents in allowed.items():
                held = (tmp_path / name).read_text()
                assert held in contents
                seen[name].add(held)
        writers.stdin.close()
    assert seen["written.txt"] == allowed["written.txt"], "no write was ever finished"


async def test_what_killed_processes_left_behind_is_hidden_and_then_removed(tmp_path: Path):
    litter = tmp_path / f"{TEMPORARY_PREFIX}0123456789abcdef"
    litter.write_text("half a file with a needle")
    tools = FileTools(tmp_path)
    assert TEMPORARY_PREFIX not in await tools.text("ls")
    assert TEMPORARY_PREFIX not in await tools.text("find", pattern="*")
    assert "No matches" in await tools.text("grep", pattern="needle")
    await tools.text("write", path="a.txt", content="x")
    assert litter.exists(), "another process may be about to lock it"
    os.utime(litter, (0, 0))
    with litter.open() as locked:
        fcntl.flock(locked, fcntl.LOCK_EX)
        await tools.text("write", path="a.txt", content="x")
        assert litter.exists()
    await tools.text("write", path="a.txt", content="x")
    assert os.listdir(tmp_path) == ["a.txt"]
