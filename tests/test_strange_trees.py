"""What keeps one odd entry in a tree from spoiling the work on all the others."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from file_tools import FileTools, make_socket
from outrider.processes import foreign_program
from outrider.protocol.envelope import ToolCode
from outrider.tools.files.ripgrep import ripgrep

NEWLINE = b"forged\n  passwd  3 B"
NOT_UTF8 = b"not-utf8-\xff\xfe.txt"
ESCAPES = b"clear\x1b[2Jscreen.txt"
BACKSLASH = b"back\\nslash.txt"
BIDI = "bidi-\u202etxt.exe".encode()


@pytest.fixture
def tree() -> Iterator[Path]:
    # Not below pytest's own folder, which any other run of pytest closes to others again.
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yield strange_tree(Path(folder))


def strange_tree(top: Path) -> Path:
    root = os.fsencode(top)
    for name in (NEWLINE, NOT_UTF8, ESCAPES, BACKSLASH, BIDI, b"plain.txt"):
        with open(root + b"/" + name, "wb") as file:
            file.write(b"a needle in " + name.hex().encode() + b"\n")
    (top / "broken").symlink_to("nowhere")
    (top / "circle").symlink_to("circle")
    (top / "up").symlink_to("..")
    (top / "self").symlink_to(".")
    os.mkfifo(top / "pipe")
    (top / "folder\nwith newline").mkdir()
    (top / "folder\nwith newline" / "inner.txt").write_text("a needle\n")
    (top / "closed").mkdir()
    (top / "closed" / "inside.txt").write_text("a needle\n")
    (top / "closed").chmod(0)
    (top / "locked.txt").write_text("a needle\n")
    (top / "locked.txt").chmod(0)
    deep = top
    for _ in range(60):
        deep = deep / ("d" * 50)
        os.mkdir(deep)
    return top


async def test_a_strange_tree_is_listed(tree: Path):
    make_socket(tree / "s")
    text = await FileTools(tree).text("ls", depth=3)
    lines = text.splitlines()
    assert sum(line.strip() == "passwd  3 B" for line in lines) == 0
    for shown in (
        r"forged\x0a  passwd  3 B",
        r"not-utf8-\xff\xfe.txt",
        r"clear\x1b[2Jscreen.txt",
        r"back\x5cnslash.txt",
        r"bidi-\xe2\x80\xaetxt.exe",
        "broken -> nowhere",
        "circle -> circle",
        "up -> ..",
        "pipe  (pipe)",
        "s  (socket)",
    ):
        assert any(line.strip().startswith(shown) for line in lines), shown
    assert text.isprintable() or all(line.isprintable() for line in lines)


async def test_every_name_that_is_shown_can_be_read(tree: Path):
    tools = FileTools(tree)
    found = (await tools.data("find", pattern="*"))["files"]
    assert len(found) >= 7
    for name in found:
        if "locked" in name or "closed" in name:
            continue
        assert "needle" in await tools.text("read", path=name), name
    for name in (NEWLINE, ESCAPES, BACKSLASH, BIDI):
        assert name.hex() in await tools.text("read", path=os.fsdecode(name))


async def test_a_strange_tree_is_searched(tree: Path):
    text = await FileTools(tree).text("grep", pattern="needle")
    assert r"forged\x0a  passwd  3 B" in text
    assert r"not-utf8-\xff\xfe.txt" in text
    assert r"folder\x0awith newline/inner.txt" in text
    assert all(line.isprintable() for line in text.splitlines())


async def test_files_with_strange_names_can_be_changed(tree: Path):
    tools = FileTools(tree)
    edits = [{"oldText": "needle", "newText": "thread"}]
    for shown, name in ((r"not-utf8-\xff\xfe.txt", NOT_UTF8), (r"back\x5cnslash.txt", BACKSLASH)):
        await tools.text("edit", path=shown, edits=edits)
        assert (tree / os.fsdecode(name)).read_bytes().startswith(b"a thread in")


AS_NOBODY = """
import asyncio, json, os, sys
from pathlib import Path
from outrider.tools.loading import builtin_tools
from outrider.tools.context import ToolContext
from outrider.tools.executor import ToolExecutor

async def answers():
    executor = ToolExecutor(builtin_tools(), ToolContext(cwd=Path(sys.argv[1])))
    calls = json.loads(sys.argv[2])
    return [await executor.execute(name, arguments) for name, arguments in calls]

# Only who isn't root can be kept out of a folder. What is imported late is imported before.
asyncio.run(answers())
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
for outcome in asyncio.run(answers()):
    print(json.dumps([outcome.envelope["code"], outcome.text]))
"""


def test_what_may_not_be_read_is_reported_and_spoils_nothing(tree: Path):
    program = Path(ripgrep(("/nowhere",)))
    if os.geteuid() == 0 and not (_reachable(tree) and _reachable(program.parent)):
        pytest.skip("another user can't reach the tree, or ripgrep, here")
    calls = [
        ("ls", {"depth": 2}),
        ("grep", {"pattern": "needle"}),
        ("find", {"pattern": "*.txt"}),
        ("read", {"path": "locked.txt"}),
        ("read", {"path": "closed/inside.txt"}),
        ("grep", {"pattern": "needle", "path": "closed"}),
        ("ls", {"path": "closed"}),
    ]
    command = [sys.executable, "-c", AS_NOBODY, str(tree), json.dumps(calls)]
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    (listed, searched, found), refused = answers[:3], answers[3:]
    assert listed[0] == 0 and "closed/  [unreadable: " in listed[1] and "plain.txt" in listed[1]
    assert searched[0] == 0 and "plain.txt" in searched[1] and "could not be read" in searched[1]
    assert found[0] == 0 and "plain.txt" in found[1] and "could not be read" in found[1]
    assert [code for code, _ in refused] == [1004] * 4, refused


def _reachable(folder: Path) -> bool:
    return all(part.stat().st_mode & 0o005 == 0o005 for part in (folder, *folder.parents))


@pytest.mark.skipif(sys.platform != "linux", reason="only there a kernel tells who waits")
@pytest.mark.parametrize("tool", ["grep", "find"])
async def test_a_search_does_not_wait_for_a_pipe_that_says_what_to_ignore(
    tmp_path: Path, tool: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(foreign_program, "MAX_IDLE_LOOKS", 5)
    (tmp_path / "a.txt").write_text("a needle\n")
    os.mkfifo(tmp_path / ".gitignore")
    outcome = await FileTools(tmp_path).call(tool, pattern="needle")
    assert outcome.envelope["code"] == ToolCode.UPSTREAM_FAILED
    assert "a pipe" in outcome.text
