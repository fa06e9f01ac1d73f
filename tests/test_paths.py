"""What keeps the file tools inside the working tree, and away from credentials."""

import asyncio
import contextlib
import ctypes
import os
import subprocess
import sys
import threading
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from file_tools import FileTools, make_socket, snapshot
from outrider.protocol.envelope import ToolFault
from outrider.tools.files.ripgrep import ripgrep
from outrider.workspaces.credentials import is_credential
from outrider.workspaces.names import shown_name, unescaped
from outrider.workspaces.path_guard import Workspace, containing

DENIED, MISSING, BAD, UNSUPPORTED = 1004, 1003, 1002, 1007
SECRET = "the-secret-outside"
PROC_ROOT = "/proc/self/root"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret.txt").write_text(SECRET)
    return folder


@pytest.fixture
def tree(tmp_path: Path, outside: Path) -> Path:
    folder = tmp_path / "tree"
    (folder / "inner").mkdir(parents=True)
    (folder / "plain.txt").write_text("plain text\n")
    (folder / "to-file").symlink_to(outside / "secret.txt")
    (folder / "to-folder").symlink_to(outside)
    (folder / "relative").symlink_to("../outside/secret.txt")
    (folder / "twice").symlink_to("to-folder")
    (folder / "to-root").symlink_to("/")
    (folder / "to-proc").symlink_to("/proc/self/root")
    (folder / "dangling").symlink_to(outside / "not-yet.txt")
    (tmp_path / "tree-sibling").mkdir()
    (tmp_path / "tree-sibling" / "secret.txt").write_text(SECRET)
    return folder


def escapes(tree: Path) -> list[str]:
    outside = tree.parent / "outside"
    climb = "../" * 30
    return [
        "../outside/secret.txt",
        "inner/../../outside/secret.txt",
        "./inner/./../../outside/secret.txt",
        "missing/../../outside/secret.txt",
        f"{climb}etc/passwd",
        str(outside / "secret.txt"),
        f"{tree}/../outside/secret.txt",
        f"{tree}-sibling/secret.txt",
        f"//{str(outside)[1:]}/secret.txt",
        "/etc/passwd",
        "/ETC/PASSWD",
        "~/.bashrc",
        "~root/.bashrc",
        "to-file",
        "relative",
        "to-folder/secret.txt",
        "twice/secret.txt",
        "to-folder/../outside/secret.txt",
        "to-root/etc/passwd",
        "to-proc/etc/passwd",
        "dangling",
        f"{PROC_ROOT}/etc/passwd",
        f"{PROC_ROOT}{tree}/plain.txt",
        f"/proc/self/cwd/../{tree.name}/plain.txt",
        "/proc/self/environ",
        "/proc/kmsg",
        "/sys/kernel/profiling",
        "/dev/zero",
        "/dev/stdin",
        "\uff0e\uff0e/outside/secret.txt",
        "\uff0e\uff0e\uff0foutside\uff0fsecret.txt",
        "\u2025/outside/secret.txt",
        ".\u200b./outside/secret.txt",
        "\uff0fetc/passwd",
        "\\x2e\\x2e/outside/secret.txt",
        "..\\x2foutside\\x2fsecret.txt",
    ]


async def test_no_spelling_of_a_path_leads_a_reader_out_of_the_tree(tree: Path):
    tools = FileTools(tree)
    for path in escapes(tree):
        outcome = await tools.call("read", path=path)
        assert outcome.envelope["code"] == DENIED, (path, outcome.text)
        assert SECRET not in outcome.text


async def test_no_spelling_of_a_path_leads_a_search_or_a_listing_out_of_the_tree(tree: Path):
    tools = FileTools(tree)
    for path in escapes(tree):
        folder = path.removesuffix("/secret.txt") if path.endswith("/secret.txt") else path
        for name, arguments in (
            ("grep", {"pattern": "."}),
            ("find", {"pattern": "*"}),
            ("ls", {}),
        ):
            outcome = await tools.call(name, path=folder, **arguments)
            assert outcome.envelope["code"] == DENIED, (name, folder, outcome.text)


async def test_no_spelling_of_a_path_leads_a_writer_out_of_the_tree(tree: Path):
    tools = FileTools(tree)
    before = snapshot(tree.parent)
    for path in escapes(tree):
        assert await tools.code("write", path=path, content="x") == DENIED, path
        edits = [{"oldText": "secret", "newText": "x"}]
        assert await tools.code("edit", path=path, edits=edits) == DENIED, path
    assert snapshot(tree.parent) == before


async def test_a_pattern_can_not_lead_a_search_out_of_the_tree(tree: Path):
    tools = FileTools(tree)
    for pattern in ("../outside/*", "inner/../../outside/*", "/etc/*", "{../outside,x}/*"):
        outcome = await tools.call("find", pattern=pattern)
        assert outcome.envelope["code"] in (DENIED, 0)
        assert "secret" not in outcome.text.replace(pattern, "")
    assert SECRET not in (await tools.call("grep", pattern="secret", glob="../outside/*")).text


async def test_searches_follow_no_link_out_of_the_tree(tree: Path):
    tools = FileTools(tree)
    assert "No matches" in await tools.text("grep", pattern=SECRET)
    assert "secret.txt" not in await tools.text("find", pattern="*")
    assert "secret.txt" not in (await tools.text("ls", depth=5)).replace("/secret.txt", "")


async def test_a_link_put_in_the_way_during_the_call_leads_nowhere(tree: Path, outside: Path):
    """A folder and a link change places as fast as they can, while tools work below them."""
    (tree / "swapped").mkdir()
    (tree / "swapped" / "secret.txt").write_text("harmless")
    (tree / "link").symlink_to(outside)
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            exchange(tree / "swapped", tree / "link")

    swapper = threading.Thread(target=swap)
    swapper.start()
    try:
        tools = FileTools(tree)
        for _ in range(100):
            assert SECRET not in (await tools.call("read", path="swapped/secret.txt")).text
            assert SECRET not in (await tools.call("grep", pattern="s", path="swapped")).text
            await tools.call("write", path="swapped/new.txt", content="x")
    finally:
        stop.set()
        swapper.join()
    assert sorted(os.listdir(outside)) == ["secret.txt"]


async def test_a_search_program_that_was_led_outside_reveals_nothing(
    tree: Path,
    outside: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
):
    """As if every link had been a folder when ripgrep looked: it follows them all."""
    (tree / "to-root").unlink()
    (tree / "to-proc").unlink()
    (tree / "inner" / "own.txt").write_text(SECRET)
    led_astray = tmp_path_factory.mktemp("bin") / "rg"
    led_astray.write_text(f'#!/bin/sh\nexec {ripgrep((str(tree),))} --follow "$@"\n')
    led_astray.chmod(0o755)
    monkeypatch.setenv("PATH", f"{led_astray.parent}:{os.environ['PATH']}")
    found = await FileTools(tree).data("grep", pattern=SECRET)
    assert [entry["path"] for entry in found["results"]] == ["inner/own.txt"]
    assert (found["matches"], found["files"]) == (1, 1)
    found = await FileTools(tree).data("find", pattern="*.txt")
    assert (found["files"], found["total"]) == (["inner/own.txt", "plain.txt"], 2)


async def test_a_folder_swapped_for_a_link_does_not_lead_a_search_outside(
    tmp_path: Path, outside: Path
):
    """Two folders and two links change places as fast as they can, while their tree is searched."""
    tree = tmp_path / "searched"
    for name in ("a", "b"):
        (tree / name).mkdir(parents=True)
        (tree / f"{name}-link").symlink_to(outside)
        for number in range(40):
            (tree / name / f"{number}.txt").write_text("harmless")
            (outside / f"{number}.txt").write_text(SECRET)
    (outside / "only-outside.txt").write_text(SECRET)
    with swapping(tree):
        for _ in range(60):
            found = await FileTools(tree).data("grep", pattern=SECRET)
            assert (found["matches"], found["files"]) == (0, 0)
            assert "only-outside" not in (await FileTools(tree).text("find", pattern="*"))


@contextlib.contextmanager
def swapping(tree: Path) -> Generator[None, None, None]:
    """Let the folders `a` and `b` change places with their links, in a process of its own."""
    code = (
        "import sys; from test_paths import exchange\n"
        "while True:\n    for n in 'ab': exchange(f'{sys.argv[1]}/{n}', f'{sys.argv[1]}/{n}-link')"
    )
    command = (sys.executable, "-c", code, str(tree))
    with subprocess.Popen(command, cwd=Path(__file__).parent) as swapper:
        try:
            seen = set[bool]()
            while len(seen) < 2:
                seen.add((tree / "a").is_symlink())
            yield
        finally:
            swapper.kill()


def exchange(one: Path | str, two: Path | str) -> None:
    """Swap two paths in one step."""
    libc = ctypes.CDLL(None, use_errno=True)
    here, swapping = -100, 2
    if libc.renameat2(here, os.fsencode(one), here, os.fsencode(two), swapping):
        raise OSError(ctypes.get_errno(), "renameat2")


@pytest.mark.parametrize("what", ["folder", "file"])
def test_a_link_put_in_the_way_after_the_decision_is_refused(tree: Path, outside: Path, what: str):
    (tree / "inner" / "secret.txt").write_text("harmless")
    workspace = Workspace((str(tree),))
    place = workspace.resolve("inner/secret.txt")
    moved = tree / "inner" if what == "folder" else tree / "inner" / "secret.txt"
    moved.rename(tree / "moved")
    moved.symlink_to(outside if what == "folder" else outside / "secret.txt")
    with pytest.raises(ToolFault) as refused, workspace.open_file(place):
        pass
    assert refused.value.code == DENIED


def test_a_credential_file_put_where_a_folder_of_that_name_was_is_not_opened(tree: Path):
    (tree / ".env").mkdir()
    workspace = Workspace((str(tree),))
    place = workspace.resolve(".env")
    assert place.is_folder
    (tree / ".env").rmdir()
    (tree / ".env").write_text(SECRET)
    with pytest.raises(ToolFault), workspace.open_file(place):
        pass
    with pytest.raises(ToolFault):
        workspace.replace(place, lambda old: b"", threading.Event())
    assert (tree / ".env").read_text() == SECRET


async def test_allowed_roots_can_be_entered_and_nothing_beside_them(tree: Path, outside: Path):
    tools = FileTools(tree, allowed_roots=(outside,))
    assert SECRET in await tools.text("read", path=str(outside / "secret.txt"))
    assert SECRET in await tools.text("read", path="to-file")
    assert SECRET in await tools.text("grep", pattern="secret", path=str(outside))
    assert await tools.code("read", path=f"{tree}-sibling/secret.txt") == DENIED


async def test_malformed_paths_are_the_callers_fault(tree: Path):
    tools = FileTools(tree)
    for path in ("a\0b", "  ", "n" * 300, "d/" * 3_000 + "x"):
        for name in ("read", "ls"):
            outcome = await tools.call(name, path=path)
            assert outcome.envelope["code"] == BAD, path
            assert 'name a file or folder, "." for the working tree' in outcome.text
    # Half a character is no text, so the arguments are no JSON.
    assert await tools.code("read", path="\ud800x") == 1001
    assert await tools.code("write", path="n" * 256, content="") == BAD


async def test_what_is_not_there_is_not_found(tree: Path):
    tools = FileTools(tree)
    for path in ("nothing.txt", "plain.txt/below", "no/such/folder/x", "file:///etc/passwd"):
        assert await tools.code("read", path=path) == MISSING, path
    outcome = await tools.call("read", path="plian.txt")
    assert "plain.txt" in outcome.text


async def test_links_in_circles_and_endless_chains_end(tree: Path):
    (tree / "circle").symlink_to("circle")
    (tree / "one").symlink_to("two")
    (tree / "two").symlink_to("one")
    for number in range(1_500):
        (tree / f"chain{number}").symlink_to(f"chain{number + 1}")
    tools = FileTools(tree)
    for path in ("circle", "one", "one/x", "chain0"):
        assert await tools.code("read", path=path) in (DENIED, MISSING), path
        assert await tools.code("write", path=path, content="x") in (DENIED, MISSING), path


async def test_a_link_within_the_tree_is_followed_and_kept_when_written(tree: Path):
    (tree / "alias").symlink_to("plain.txt")
    tools = FileTools(tree)
    assert "plain text" in await tools.text("read", path="alias")
    await tools.text("write", path="alias", content="changed\n")
    assert (tree / "alias").is_symlink()
    assert (tree / "plain.txt").read_text() == "changed\n"


async def test_pipes_sockets_and_devices_can_not_hang_a_tool(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")
    make_socket(tmp_path / "socket")
    tools = FileTools(tmp_path)
    for name in ("pipe", "socket"):
        for tool, arguments in (
            ("read", {}),
            ("grep", {"pattern": "x"}),
            ("write", {"content": "x"}),
            ("edit", {"edits": [{"oldText": "a", "newText": "b"}]}),
        ):
            code = await asyncio.wait_for(tools.code(tool, path=name, **arguments), 60)
            assert code == UNSUPPORTED, (tool, name)
    assert "No matches" in await asyncio.wait_for(tools.text("grep", pattern="x"), 60)
    assert "(pipe)" in await tools.text("ls")


CREDENTIALS = [
    ".env",
    ".env.production",
    ".ENV",
    ".Env.Local",
    "prod.env",
    ".envrc",
    "id_rsa",
    "ID_RSA",
    "id_ed25519",
    "server.pem",
    "tls.KEY",
    "store.p12",
    "app.keystore",
    ".netrc",
    ".npmrc",
    ".pypirc",
    ".git-credentials",
    ".pgpass",
    ".aws/credentials",
    ".AWS/Credentials",
    ".kube/config",
    ".docker/config.json",
    ".config/gcloud/access_tokens.db",
    ".ssh/anything",
    ".gnupg/secring.gpg",
    "terraform.tfstate",
    "terraform.tfstate.backup",
    "my-service-account.json",
    "credentials.json",
    ".\uff25\uff2e\uff36",
    ".e\u200bnv",
    ".env.",
]
HARMLESS = [
    ".env.example",
    ".env.sample",
    ".env.template",
    "example.env",
    "environment.py",
    "id_rsa.pub",
    ".ssh/known_hosts",
    "keyboard.txt",
    "monkey",
    "config.json",
    "kube/config",
    ".env/lib/module.py",
    "pem.py",
    "docs/credentials.md",
]


@pytest.mark.parametrize("path", CREDENTIALS)
async def test_a_credential_file_is_not_shown_by_any_tool(tmp_path: Path, path: str):
    file = tmp_path / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("TOKEN=hidden-value\n")
    (tmp_path / "innocent.txt").symlink_to(file)
    tools = FileTools(tmp_path)
    for asked in (path, "innocent.txt", f"./x/../{path}"):
        for name, arguments in (
            ("read", {}),
            ("grep", {"pattern": "TOKEN"}),
            ("write", {"content": ""}),
            ("edit", {"edits": [{"oldText": "TOKEN", "newText": "X"}]}),
        ):
            outcome = await tools.call(name, path=asked, **arguments)
            assert outcome.envelope["code"] == DENIED, (name, asked)
            assert "hidden-value" not in outcome.text
    everywhere = await tools.call("grep", pattern="TOKEN")
    assert "hidden-value" not in everywhere.text
    assert file.read_text() == "TOKEN=hidden-value\n"


@pytest.mark.parametrize("path", HARMLESS)
async def test_a_file_that_only_resembles_a_credential_file_is_shown(tmp_path: Path, path: str):
    file = tmp_path / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("visible\n")
    tools = FileTools(tmp_path)
    assert "visible" in await tools.text("read", path=path)
    assert "visible" in await tools.text("grep", pattern="visible")


async def test_the_user_can_allow_credential_files(tmp_path: Path):
    (tmp_path / ".env").write_text("TOKEN=1\n")
    tools = FileTools(tmp_path, allow_credential_files=True)
    assert "TOKEN" in await tools.text("read", path=".env")
    assert ".env" in await tools.text("grep", pattern="TOKEN")


async def test_the_answer_of_a_search_does_not_depend_on_what_credential_files_hold(tmp_path: Path):
    (tmp_path / ".env").write_text("TOKEN=abc\n")
    (tmp_path / ".gitignore").write_text(".env\n")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "server.key").write_text("TOKEN=abc\n")
    tools = FileTools(tmp_path)
    right = await tools.text("grep", pattern="TOKEN=a")
    wrong = await tools.text("grep", pattern="TOKEN=b")
    assert right == wrong
    assert right == "No matches."


@pytest.mark.parametrize(
    "path",
    [
        ".git/hooks/pre-commit",
        ".GIT/config",
        ".g\u200bit/config",
        "sub/.git/config",
        ".outrider/config.json",
        ".Outrider/agents/x.md",
        "link/pre-commit",
        ".git",
    ],
)
async def test_nothing_is_written_into_git_or_our_own_configuration(tmp_path: Path, path: str):
    (tmp_path / ".git" / "hooks").mkdir(parents=True)
    (tmp_path / "link").symlink_to(".git/hooks")
    before = snapshot(tmp_path)
    tools = FileTools(tmp_path)
    assert await tools.code("write", path=path, content="#!/bin/sh\n") == DENIED
    assert snapshot(tmp_path) == before


async def test_a_tree_that_lies_in_our_own_folder_can_be_written(tmp_path: Path):
    tree = tmp_path / ".outrider" / "worktrees" / "one"
    tree.mkdir(parents=True)
    assert await FileTools(tree).code("write", path="a.txt", content="x") == 0


def test_a_root_holds_what_is_below_it_and_not_what_starts_alike():
    assert containing(("/a/b",), "/a/b/c") == "/a/b"
    assert containing(("/a/b",), "/a/b") == "/a/b"
    assert containing(("/a/b",), "/a/bc") is None
    assert containing(("/",), "/x") == "/"
    assert containing(("/a", "/a/b"), "/a/b/c") == "/a/b"


@given(st.binary(min_size=1, max_size=40).filter(lambda name: not {0, 47} & set(name)))
def test_any_name_is_shown_on_one_line_and_can_be_typed_back(name: bytes):
    shown = shown_name(name)
    assert shown.isprintable()
    assert os.fsencode(unescaped(shown)) == name


def test_a_name_that_is_not_shown_can_be_typed_back_too():
    assert os.fsencode(unescaped("\udcff\\x0a")) == b"\xff\n"
    assert os.fsencode(unescaped("\ud800")) == b"\xed\xa0\x80"


def test_credentials_are_told_by_the_path_alone():
    assert is_credential("/home/x/.aws/credentials")
    assert not is_credential("/home/x/aws/credentials")
