"""The tool `git` tells what changed; a hostile repository runs, shows and reaches nothing."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cli_door import Door
from file_tools import make_socket, snapshot
from outrider.masking import Masker
from outrider.processes import foreign_program
from outrider.protocol.envelope import ToolCode
from outrider.testing import ScriptedModel, answer, tool_call
from outrider.tools.context import ToolContext
from outrider.tools.executor import ToolExecutor, ToolOutcome
from outrider.tools.loading import builtin_tools

SECRET = "ghp_" + "a1B2c3D4" * 5
KEY = "\n".join(
    [
        "-----BEGIN RSA PRIVATE KEY-----",
        *("MIIEpQIBAAKCAQEA" * 4 + f"{n:02}" for n in range(30)),
        "-----END RSA PRIVATE KEY-----\n",
    ]
)
TOOLS = [tool for tool in builtin_tools() if tool.name == "git"]


def run(folder: Path, *arguments: str) -> str:
    settings = ("user.name=Ann", "user.email=ann@example.org", "init.defaultBranch=main")
    env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}
    command = ["git", *(word for one in settings for word in ("-c", one)), *arguments]
    done = subprocess.run(command, cwd=folder, env=env, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def commit(folder: Path, message: str, **files: str) -> str:
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_py", ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    run(folder, "add", "--all", "--force")
    run(folder, "commit", "--quiet", "--no-verify", "--allow-empty", "-m", message)
    return run(folder, "rev-parse", "HEAD")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A repository of two commits."""
    folder = tmp_path / "tree"
    folder.mkdir()
    run(folder, "init", "--quiet")
    commit(folder, "Begin", a_py="one\ntwo\nthree\n", sub__b_py="b\n")
    commit(folder, "Change two", a_py="one\n2\nthree\n")
    return folder


async def call(folder: Path, *, masked: bool = True, **arguments: object) -> ToolOutcome:
    mask = Masker(only_secrets=True) if masked else None
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder.parent)}
    context = ToolContext(cwd=folder, environment=environment, mask=mask)
    return await ToolExecutor(TOOLS, context).execute("git", arguments)


async def text(folder: Path, **arguments: object) -> str:
    outcome = await call(folder, **arguments)
    assert outcome.envelope["code"] == 0, outcome.text
    return outcome.text


async def test_each_action_tells_what_git_tells(tree: Path) -> None:
    (tree / "a.py").write_text("one\n2\n3\n")
    (tree / "new.py").write_text("")
    before = snapshot(tree)
    diff = await text(tree, action="diff")
    assert "--- a.py (100644)\n+++ a.py (100644)" in diff
    assert "\n-three\n+3" in diff and "[untracked: new.py]" in diff
    log = (await text(tree, action="log")).splitlines()
    assert [line.split(": ", 1)[1] for line in log] == ["Change two", "Begin"]
    show = await text(tree, action="show")
    assert "Author: Ann <ann@example.org>" in show
    assert "\n-two\n+2\n" in show
    first = await text(tree, action="show", ref="HEAD~1", path="sub")
    assert "Begin" in first and "+b" in first and "three" not in first
    blame = (await text(tree, action="blame", path="a.py")).splitlines()
    assert [line.rsplit("\t")[1] for line in blame] == ["one", "2", "3"]
    assert "(Ann 2" in blame[0] and blame[2].startswith("not committed 3")
    earlier = (await text(tree, action="blame", path="a.py", ref="HEAD~1")).splitlines()
    assert earlier[1].endswith("\ttwo")
    assert snapshot(tree) == before, "git wrote into the repository"


async def test_a_diff_is_between_any_two_commits_and_their_base(tree: Path) -> None:
    run(tree, "checkout", "--quiet", "-b", "side", "HEAD~1")
    commit(tree, "Aside", side_py="s\n")
    assert "-2" in await text(tree, action="diff", ref="main..side")
    apart = await text(tree, action="diff", ref="main...side")
    assert "side.py" in apart and "a.py" not in apart
    assert await text(tree, action="diff", ref="side..side") == "(no output)"
    assert "+2" in await text(tree, action="diff", ref="..main", path="a.py")


async def test_files_that_come_go_and_change_their_mode_or_nothing_are_told_apart(
    tree: Path,
) -> None:
    run(tree, "rm", "--quiet", "sub/b.py")
    (tree / "empty").touch()
    (tree / "bin").write_bytes(b"\0\1")
    (tree / "link").symlink_to("/etc/passwd")
    run(tree, "add", "empty", "bin", "link")
    (tree / "a.py").chmod(0o755)
    diff = await text(tree, action="diff")
    assert "--- sub/b.py (100644)\n+++ sub/b.py (000000)" in diff and "-b" in diff
    assert "[empty: 000000 → 100644]" in diff and "[a.py: 100644 → 100755]" in diff
    assert "[bin: binary" in diff and "+/etc/passwd" in diff and "root:" not in diff
    run(tree, "reset", "--quiet", "--hard")
    os.utime(tree / "a.py", (1, 1))
    assert await text(tree, action="diff") == "(no output)"


async def test_output_is_bounded_by_the_limit(tree: Path) -> None:
    (tree / "a.py").write_text("\n".join(map(str, range(5_000))))
    diff = await text(tree, action="diff", limit=50)
    assert len(diff.splitlines()) == 51 and diff.endswith("raise the limit]")
    assert len((await text(tree, action="log", limit=1)).splitlines()) == 2
    (tree / "a.py").write_text("x" * (3 << 20))
    assert "larger than 1 MiB" in await text(tree, action="diff")
    repeated = [str(n % 150) for n in range(40_000)]
    commit(tree, "Repeat", a_py="\n".join(repeated))
    (tree / "a.py").write_text("\n".join(reversed(repeated)))
    assert "too repetitive" in await text(tree, action="diff")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"action": "show", "ref": "nonsense"}, ToolCode.NOT_FOUND),
        ({"action": "blame"}, ToolCode.NOT_FOUND),
        ({"action": "blame", "path": "missing.py"}, ToolCode.NOT_FOUND),
        ({"action": "log", "ref": "--output=/tmp/x"}, ToolCode.BAD_PARAMETER),
        ({"action": "show", "ref": "HEAD:.env"}, ToolCode.BAD_PARAMETER),
        ({"action": "push"}, ToolCode.BAD_PARAMETER),
        ({"action": "diff", "path": "../.."}, ToolCode.DENIED),
        ({"action": "blame", "path": ".env"}, ToolCode.DENIED),
    ],
)
async def test_what_cannot_be_asked_is_refused(tree: Path, arguments: dict, code: int) -> None:
    assert (await call(tree, **arguments)).envelope["code"] == code


async def test_a_folder_without_a_repository_or_a_commit_is_told(tmp_path: Path) -> None:
    outcome = await call(tmp_path, action="diff")
    assert (
        outcome.envelope["code"] == ToolCode.NOT_FOUND and "isn't in a repository" in outcome.text
    )
    run(tmp_path, "init", "--quiet")
    outcome = await call(tmp_path, action="diff")
    assert outcome.envelope["code"] == ToolCode.NOT_FOUND and "HEAD" in outcome.text


# What must not be shown


async def test_what_read_refuses_or_masks_git_refuses_or_masks(tree: Path) -> None:
    key = KEY.splitlines()
    commit(
        tree, "Leak", a_py=f'token = "{SECRET}"\n', key_txt=KEY, **{".env": "PASSWORD=hunter2\n"}
    )
    (tree / "key_txt").write_text(KEY.replace(key[15], "CHANGED" * 9))
    (tree / ".env").write_text("PASSWORD=other\n")
    (tree / "a.py").write_text(f'token = "{SECRET[::-1]}"\nmore = 1\n')
    asked = [
        {"action": "diff"},
        {"action": "show"},
        {"action": "diff", "ref": "HEAD~1..HEAD"},
        {"action": "blame", "path": "a.py"},
        {"action": "blame", "path": "key_txt", "ref": "HEAD"},
    ]
    for arguments in asked:
        shown = await text(tree, **arguments)
        for secret in (SECRET, SECRET[::-1], *key[1:-1], "CHANGED", "hunter2", "other"):
            assert secret not in shown, (arguments, secret)
    assert "[.env: a credential file, not shown]" in await text(tree, action="diff")
    assert "+more = 1" in await text(tree, action="diff")
    assert SECRET in (await call(tree, masked=False, action="show")).text


async def test_a_change_of_what_is_masked_is_told_but_not_shown(tree: Path) -> None:
    commit(tree, "Leak", a_py=f'token = "{SECRET}"\n')
    (tree / "a.py").write_text(f'token = "{SECRET[:-1]}9"\n')
    assert await text(tree, action="diff") == "[a.py: 100644 → 100644]"


async def test_from_a_folder_below_only_that_folder_is_seen(tree: Path) -> None:
    commit(tree, "Both", a_py="outside\n", sub__b_py="inside\n")
    (tree / "a.py").write_text("outside too\n")
    shown = await text(tree / "sub", action="show")
    assert "+inside" in shown and "outside" not in shown
    assert await text(tree / "sub", action="diff") == "(no output)"
    assert (await call(tree / "sub", action="blame", path="../a.py")).envelope["code"] == 1004


async def test_a_link_put_in_the_place_of_a_folder_leads_nowhere(
    tree: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "b.py").write_text("private\n")
    shutil.rmtree(tree / "sub")
    (tree / "sub").symlink_to(outside)
    assert "private" not in await text(tree, action="diff")


# What must not be run


def planted(tree: Path, mark: Path) -> str:
    """A program that leaves a mark, and passes its input on."""
    path = tree / "evil.sh"
    path.write_text(f"#!/bin/sh\ntouch {mark}\ncat\n")
    path.chmod(0o755)
    return str(path)


HOSTILE = {
    "fsmonitor": [("core.fsmonitor", "{evil}")],
    "external diff": [("diff.external", "{evil}")],
    "driver": [("diff.x.command", "{evil}")],
    "textconv": [("diff.x.textconv", "{evil}")],
    "clean": [("filter.x.clean", "{evil}"), ("filter.x.required", "true")],
    "process": [("filter.x.process", "{evil}")],
    "pager": [("core.pager", "{evil}"), ("pager.diff", "{evil}"), ("pager.log", "{evil}")],
    "signature": [("log.showSignature", "true"), ("gpg.program", "{evil}")],
    "odd filter": [("filter.x=y.clean", "{evil}")],
    "alias": [("alias.rev-list", "!{evil}"), ("alias.diff-index", "!{evil}")],
    "promisor": [
        ("remote.origin.promisor", "true"),
        ("remote.origin.url", "ext::{evil}"),
        ("remote.origin.uploadpack", "{evil}"),
        ("protocol.ext.allow", "always"),
        ("protocol.allow", "always"),
        ("extensions.partialClone", "origin"),
        ("core.repositoryFormatVersion", "1"),
    ],
    "elsewhere": [("core.worktree", "/"), ("mailmap.file", "/etc/passwd")],
    "ignored revisions": [("blame.ignoreRevsFile", "/etc/passwd")],
}


@pytest.mark.parametrize("means", HOSTILE)
async def test_no_setting_of_the_repository_runs_or_reads_anything(
    tree: Path, tmp_path: Path, means: str
) -> None:
    mark = tmp_path / "mark"
    evil = planted(tree, mark)
    odd = "=y" if means == "odd filter" else ""
    (tree / ".gitattributes").write_text(f"* diff=x filter=x{odd}\n")
    run(tree, "add", "--all")
    blob = run(tree, "rev-parse", "HEAD~1:a.py")
    for name, value in HOSTILE[means]:
        run(tree, "config", name, value.format(evil=evil))
    if means == "promisor":
        (tree / ".git/objects" / blob[:2] / blob[2:]).unlink()
    for hook in ("post-index-change", "pre-auto-gc", "reference-transaction"):
        (tree / ".git/hooks").mkdir(exist_ok=True)
        shutil.copy(evil, tree / ".git/hooks" / hook)
    (tree / "a.py").write_text("one\n2\n3\n")
    mark.unlink(missing_ok=True)
    outcome = await call(tree, action="diff")
    assert "+3" in outcome.text or (means, outcome.envelope["code"]) == ("odd filter", 1004)
    for arguments in (
        {"action": "log"},
        {"action": "show"},
        {"action": "diff", "ref": "HEAD~1"},
        {"action": "blame", "path": "a.py"},
    ):
        shown = (await call(tree, **arguments)).text
        assert "root:" not in shown
    assert not mark.exists()


async def test_the_planted_programs_do_run_where_git_is_asked_plainly(
    tree: Path, tmp_path: Path
) -> None:
    """Else the test above would prove nothing."""
    mark = tmp_path / "mark"
    run(tree, "config", "filter.x.clean", planted(tree, mark))
    (tree / ".gitattributes").write_text("* filter=x\n")
    (tree / "a.py").write_text("one\n2\n3\n")
    run(tree, "diff")
    assert mark.exists()


async def test_a_submodule_is_not_entered(tree: Path, tmp_path: Path) -> None:
    mark, inner = tmp_path / "mark", tree / "inner"
    inner.mkdir()
    run(inner, "init", "--quiet")
    commit(inner, "Inner", x_py="x\n")
    added = commit(tree, "Add it")
    run(inner, "config", "core.fsmonitor", planted(tree, mark))
    (inner / "x.py").write_text("changed\n")
    assert "changed" not in await text(tree, action="diff")
    assert "+submodule at" in await text(tree, action="show", ref=added)
    assert not mark.exists()


async def test_a_git_in_the_tree_is_not_the_one_that_runs(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = tmp_path / "mark"
    Path(planted(tree, mark)).rename(tree / "git")
    monkeypatch.setenv("PATH", f"{tree}{os.pathsep}{os.environ['PATH']}")
    assert "Begin" in await text(tree, action="log")
    assert not mark.exists()


# What must not be reached


@pytest.fixture
def private(tmp_path: Path) -> Path:
    """Another repository of the user's, beside the tree."""
    folder = tmp_path / "private"
    folder.mkdir()
    run(folder, "init", "--quiet")
    commit(folder, "Private", p_py="private\n")
    return folder


def by_file(tree: Path, private: Path) -> None:
    shutil.rmtree(tree / ".git")
    (tree / ".git").write_text(f"gitdir: {private}/.git\n")


def by_link(tree: Path, private: Path) -> None:
    shutil.rmtree(tree / ".git")
    (tree / ".git").symlink_to(private / ".git")


def by_objects(tree: Path, private: Path) -> None:
    shutil.rmtree(tree / ".git/objects")
    (tree / ".git/objects").symlink_to(private / ".git/objects")


def by_references(tree: Path, private: Path) -> None:
    (tree / ".git/refs/heads/theirs").symlink_to(private / ".git/refs/heads")


def by_alternates(tree: Path, private: Path) -> None:
    (tree / ".git/objects/info").mkdir(exist_ok=True)
    (tree / ".git/objects/info/alternates").write_text(f"{private}/.git/objects\n")


def by_common_folder(tree: Path, private: Path) -> None:
    (tree / ".git/commondir").write_text(f"{private}/.git\n")


def by_forged_worktree(tree: Path, private: Path) -> None:
    (tree / ".git").rename(tree / "forged")
    (tree / ".git").write_text("gitdir: forged\n")
    (tree / "forged/gitdir").write_text(f"{tree}/.git\n")
    (tree / "forged/commondir").write_text(f"{private}/.git\n")


@pytest.mark.parametrize(
    "lead",
    [
        by_file,
        by_link,
        by_objects,
        by_references,
        by_alternates,
        by_common_folder,
        by_forged_worktree,
    ],
)
async def test_no_other_repository_is_reached(tree: Path, private: Path, lead) -> None:
    theirs = run(private, "rev-parse", "HEAD")
    lead(tree, private)
    for arguments in ({"action": "show", "ref": theirs}, {"action": "log"}, {"action": "diff"}):
        outcome = await call(tree, **arguments)
        assert outcome.envelope["code"] == ToolCode.DENIED, outcome.text
        assert "private" not in outcome.text.lower().replace(str(private), "")


async def test_a_worktree_that_its_repository_knows_of_is_read(tree: Path, tmp_path: Path) -> None:
    linked = tmp_path / "linked"
    run(tree, "worktree", "add", "--quiet", "-b", "other", str(linked))
    (linked / "a.py").write_text("one\n")
    assert "-three" in await text(linked, action="diff")
    assert "Begin" in await text(linked, action="log")


# Through the doors


def test_a_reviewer_sees_what_changed_without_a_shell(tmp_path: Path) -> None:
    door = Door(tmp_path)
    (door.project / ".git").rmdir()
    run(door.project, "init", "--quiet")
    commit(door.project, "Begin", a_py="one\n")
    (door.project / "a.py").write_text("two\n")
    steps = [tool_call("git", {"action": "diff"}), answer("Reviewed.")]
    with ScriptedModel(steps) as server:
        env = server.environment
        ended = door.run("run", "reviewer", "Review it", "--model", server.model, "--json", env=env)
    assert ended.code == 0, ended.err
    [result] = ended.json["details"]["results"]
    assert result["receipt"]["toolCalls"] == 1 and result["receipt"]["filesRead"] == ["a.py"]
    assert "-one\n+two" in server.requests[1].messages[-1]["content"]


# A pipe in place of a file would have git wait for as long as the call may take.


@pytest.mark.parametrize(
    "name",
    [
        ".git",
        ".git/HEAD",
        ".git/config",
        ".git/index",
        ".git/packed-refs",
        ".git/info/exclude",
        ".git/refs/heads/main",
        ".git/objects/info/packs",
    ],
)
async def test_a_repository_with_a_pipe_in_place_of_a_file_is_refused(
    tree: Path, name: str
) -> None:
    path = tree / name
    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    os.mkfifo(path)
    outcome = await call(tree, action="diff")
    assert outcome.envelope["code"] == ToolCode.DENIED
    assert name in outcome.text


@pytest.mark.skipif(sys.platform != "linux", reason="only there a kernel tells who has run")
@pytest.mark.parametrize("name", [".gitignore", "sub/.gitignore", "included", "excluding"])
async def test_git_does_not_wait_for_a_pipe_that_it_meets(
    tree: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foreign_program, "MAX_IDLE_LOOKS", 5)
    run(tree, "config", "core.excludesFile", str(tree / "excluding"))
    with (tree / ".git/config").open("a") as config:
        config.write(f"[include]\n\tpath = {tree / 'included'}\n")
    (tree / "sub/new.py").touch()
    os.mkfifo(tree / name)
    outcome = await call(tree, action="diff")
    assert outcome.envelope["code"] == ToolCode.UPSTREAM_FAILED
    assert "a pipe" in outcome.text


async def test_the_socket_of_a_monitor_in_a_repository_is_no_reason_to_refuse(tree: Path) -> None:
    make_socket(tree / ".git/fsmonitor--daemon.ipc")
    assert "Change two" in await text(tree, action="log")
