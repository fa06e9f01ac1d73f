"""Landing, undo and discard: three versions of each path, merged as bytes, or nothing changed."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cli_door import Door
from layer_door import KINDS, Writer, tree
from outrider.protocol.changes import MINUS, LandingConflict
from outrider.protocol.errors import Refusal
from outrider.records.pruning import prune
from outrider.records.runs import delete_run, find_run, landing_of
from outrider.settings.keys import RunsConfig
from outrider.workspaces import merged_check
from outrider.workspaces.layers.landing import CheckFailed, WriterRun
from outrider.workspaces.merged_check import check_of

LINES = "".join(f"line {number}\n" for number in range(30))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    (project / "package").mkdir(parents=True)
    for name in ("a.txt", "b.txt", "package/c.txt"):
        (project / name).write_text(LINES)
    return project


@pytest.fixture(params=KINDS)
def writes(request: pytest.FixtureRequest, project: Path) -> Callable[..., Writer]:
    def start(script: str = "") -> Writer:
        writer = Writer(project.parent / "runs", project, request.param)
        return writer.do(script) if script else writer

    return start


def git(folder: Path, *arguments: str) -> str:
    who = ("-c", "user.name=User", "-c", "user.email=user@example.com")
    how = ("-c", "init.defaultBranch=main", "-c", "protocol.file.allow=always")
    done = subprocess.run(
        ["git", *who, *how, *arguments], cwd=folder, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def committed(project: Path) -> None:
    git(project, "init", "-q")
    git(project, "config", "user.name", "User")
    git(project, "config", "user.email", "user@example.com")
    git(project, "add", "-A")
    git(project, "commit", "-qm", "first")


def outside_git(found: dict[str, tuple[object, ...]]) -> dict[str, tuple[object, ...]]:
    return {path: what for path, what in found.items() if not path.startswith(".git/")}


def conflicts(verb: Callable[..., object], **options: object) -> dict[str, str]:
    with pytest.raises(LandingConflict) as raised:
        verb(**options)
    return {one.path: one.reason for one in raised.value.conflicts}


def lands_and_is_undone(writer: Writer) -> dict[str, tuple[object, ...]]:
    """Return the tree with the landing, which is undone after that."""
    before = tree(writer.project)
    run = writer.end()
    run.land()
    assert run.state == writer.end().state == "landed"
    landed = tree(writer.project)
    writer.end().undo()
    assert tree(writer.project) == before and writer.end().state == "undone"
    return landed


def test_nothing_of_the_folder_changes_until_it_lands(writes: Callable[..., Writer]) -> None:
    def times(folder: Path) -> dict[str, int]:
        return {str(path): path.lstat().st_mtime_ns for path in folder.rglob("*")}

    writer = writes()
    before = tree(writer.project), times(writer.project)
    writer.do("echo more >> a.txt; rm -r package; chmod 600 b.txt")
    assert writer.end().state == "pending"
    assert (tree(writer.project), times(writer.project)) == before


def test_every_kind_of_change_lands_and_is_undone(writes: Callable[..., Writer]) -> None:
    landed = lands_and_is_undone(
        writes("""
            echo more >> a.txt; rm b.txt; mkdir b.txt; echo in > b.txt/in; rm -r package
            echo file > package; mkdir -p new/deep empty; printf 'a\\0b\\377' > new/deep/binary
            printf 'dos\\r\\n' > dos; ln -s a.txt link; echo run > script; chmod 755 script
            truncate -s 3000000 sparse; printf x >> sparse
        """)
    )
    assert landed["a.txt"][1] == LINES.encode() + b"more\n"
    assert landed["b.txt/in"][1] == b"in\n" and landed["package"][1] == b"file\n"
    assert landed["new/deep/binary"][1] == b"a\0b\xff" and landed["dos"][1] == b"dos\r\n"
    assert landed["link"] == ("link", b"a.txt") and landed["script"][0] == 0o100755
    assert landed["sparse"][1] == bytes(3_000_000) + b"x" and "empty" in landed


def test_a_sparse_file_stays_sparse(writes: Callable[..., Writer]) -> None:
    writer = writes("truncate -s 50M sparse; printf end >> sparse")
    writer.end().land()
    assert (writer.project / "sparse").stat().st_blocks * 512 < 1 << 20


def test_text_that_both_changed_is_merged(writes: Callable[..., Writer]) -> None:
    writer = writes("sed -i 's/line 3$/three/' a.txt; chmod 755 a.txt")
    (writer.project / "a.txt").write_bytes(LINES.replace("line 20\n", "twenty\r\n").encode())
    before = tree(writer.project)
    writer.end().land()
    merged = LINES.replace("line 3\n", "three\n").replace("line 20\n", "twenty\r\n")
    assert tree(writer.project)["a.txt"] == (0o100755, merged.encode())
    writer.end().undo()
    assert tree(writer.project) == before


def test_conflicts_change_nothing_and_are_all_named(writes: Callable[..., Writer]) -> None:
    (Path(writes().project) / "gone").write_text(LINES)
    writer = writes("""
        sed -i 's/line 3$/three/' a.txt; printf '\\0' > b.txt; echo its > both; rm gone
        echo more >> package/c.txt; echo fine > fine; rm -r package; echo > package
    """)
    project = writer.project
    (project / "a.txt").write_text(LINES.replace("line 3\n", "mine\n"))
    (project / "b.txt").write_text("mine\n")
    (project / "both").write_text("mine\n")
    (project / "gone").write_text("changed\n")
    (project / "package/mine").write_text("mine\n")
    before = tree(project)
    named = conflicts(writer.end().land)
    assert set(named) == {"a.txt", "b.txt", "both", "gone", "package"}
    assert "same lines" in named["a.txt"] and "isn't text" in named["b.txt"]
    assert tree(project) == before and writer.end().state == "pending"
    writer.end().land(only=["fine"])
    assert (project / "fine").exists() and writer.end().state == "pending"


def test_what_the_user_did_too_is_no_conflict(writes: Callable[..., Writer]) -> None:
    writer = writes("echo more >> a.txt; rm b.txt; echo same > new")
    (writer.project / "a.txt").write_text(LINES + "more\n")
    (writer.project / "b.txt").unlink()
    (writer.project / "new").write_text("same\n")
    before = tree(writer.project)
    writer.end().land()
    writer.end().undo()
    assert tree(writer.project) == before


def test_a_folder_that_the_user_still_uses_stays(writes: Callable[..., Writer]) -> None:
    writer = writes("rm -r package")
    (writer.project / "package/mine").write_text("mine")
    writer.end().land()
    assert (writer.project / "package/mine").exists()
    assert not (writer.project / "package/c.txt").exists()


def test_a_folder_that_the_user_made_a_link_is_not_written_through(
    writes: Callable[..., Writer], tmp_path: Path
) -> None:
    writer = writes("echo > package/new; echo > other")
    (writer.project / "package").rename(tmp_path / "elsewhere")
    os.symlink(tmp_path / "elsewhere", writer.project / "package")
    before = tree(writer.project)
    assert all(path.startswith("package") for path in conflicts(writer.end().land))
    assert tree(writer.project) == before and not (tmp_path / "elsewhere/new").exists()


def test_two_writers_on_one_file_both_land_and_each_can_be_undone(
    writes: Callable[..., Writer],
) -> None:
    first, second = writes(), writes()
    first.do("sed -i 's/line 3$/three/' a.txt")
    second.do("sed -i 's/line 20$/twenty/' a.txt; echo new > new")
    third = writes("sed -i 's/line 3$/other/' a.txt; echo rest > rest")
    first.end().land()
    second.end().land()
    assert set(conflicts(third.end().land)) == {"a.txt"}
    third.end().land(only=["rest"])
    first.end().undo()
    assert (first.project / "a.txt").read_text() == LINES.replace("line 20\n", "twenty\n")
    second.end().undo()
    third.end().undo()
    assert set(tree(first.project)) == {"a.txt", "b.txt", "package", "package/c.txt"}
    assert (first.project / "a.txt").read_text() == LINES


def test_undo_never_overwrites_later_work(writes: Callable[..., Writer]) -> None:
    writer = writes("sed -i 's/line 3$/three/' a.txt; echo new > new; rm b.txt")
    run = writer.end()
    run.land()
    (writer.project / "a.txt").write_text((writer.project / "a.txt").read_text() + "later\n")
    (writer.project / "new").write_text("mine\n")
    (writer.project / "b.txt").write_text("mine\n")
    before = tree(writer.project)
    assert set(conflicts(writer.end().undo)) == {"new", "b.txt"}
    assert tree(writer.project) == before and writer.end().state == "landed"
    (writer.project / "new").write_text("new\n")
    (writer.project / "b.txt").unlink()
    writer.end().undo()
    assert (writer.project / "a.txt").read_text() == LINES + "later\n"
    assert (writer.project / "b.txt").read_text() == LINES


def test_a_part_lands_and_the_rest_waits(writes: Callable[..., Writer]) -> None:
    writer = writes("mkdir -p new/deep; echo 1 > new/deep/one; echo 2 > new/two; echo >> a.txt")
    writer.end().land(only=["new/deep/one"])
    assert set(tree(writer.project)) >= {"new/deep/one"}
    assert not (writer.project / "new/two").exists() and writer.end().state == "pending"
    with pytest.raises(Refusal, match=r"nothing to land at a\.tx"):
        writer.end().land(only=["a.tx"])
    writer.end().land(only=["new", "a.txt"])
    assert writer.end().state == "landed"
    writer.end().undo()
    assert not (writer.project / "new").exists()


def test_ignored_files_land_only_when_asked_for(writes: Callable[..., Writer]) -> None:
    project = writes().project
    (project / ".gitignore").write_text("*.log\nbuild/\n")
    committed(project)
    writer = writes("echo > .gitignore; echo > x.log; mkdir build; echo > build/o; echo > y")
    writer.end().land()
    assert set(tree(project)) & {"x.log", "build", "y"} == {"y"}
    writer.end().land(ignored=True)
    assert {"x.log", "build/o"} <= set(tree(project))
    writer.end().undo()
    assert not set(tree(project)) & {"x.log", "build", "y"}


def test_what_never_lands_doesnt(writes: Callable[..., Writer]) -> None:
    project = writes().project
    committed(project)
    before = tree(project)
    writer = writes("""
        mkdir -p .GIT package/.git/hooks; echo bad > .GIT/config; echo bad > package/.git/hooks/x
        echo bad > .git/hooks/pre-commit; ln -s /etc out; mkfifo pipe; cp a.txt s; chmod 4755 s
        mkdir .outrider; echo bad > .outrider/config.json
    """)
    with pytest.raises(Refusal):
        writer.end().land(ignored=True)
    assert tree(project) == before


@pytest.mark.parametrize("place", ["subfolder", "worktree", "submodule", "plain"])
def test_it_lands_wherever_the_folder_is(tmp_path: Path, place: str) -> None:
    top = tmp_path / "top"
    (top / "sub").mkdir(parents=True)
    (top / "sub/file").write_text(LINES)
    (top / ".gitignore").write_text("*.log\n")
    if place != "plain":
        committed(top)
    folder = {"subfolder": top / "sub", "worktree": tmp_path / "tree/sub"}.get(place, top)
    if place == "worktree":
        git(top, "worktree", "add", "-q", str(tmp_path / "tree"))
    if place == "submodule":
        git(top, "submodule", "add", "-q", str(top), "module")
    path = "module/sub/file" if place == "submodule" else "sub/file" if place == "plain" else "file"
    writer = Writer(tmp_path / "runs", folder).do(f"echo more >> {path}; echo > x.log; echo > new")
    landed = lands_and_is_undone(writer)
    assert landed[path][1] == LINES.encode() + b"more\n"
    assert ("x.log" in landed) is (place == "plain")


def test_filters_of_the_repository_have_no_say(writes: Callable[..., Writer]) -> None:
    project = writes().project
    (project / ".gitattributes").write_text("* text eol=crlf filter=shout\n")
    committed(project)
    for name in ("clean", "smudge"):
        git(project, "config", f"filter.shout.{name}", "tr a-z A-Z")
    writer = writes("printf 'mixed\\r\\nends\\n' > new; printf 'x\\n' >> a.txt")
    landed = lands_and_is_undone(writer)
    assert landed["new"][1] == b"mixed\r\nends\n"
    assert landed["a.txt"][1] == LINES.encode() + b"x\n"


def test_without_git_text_that_both_changed_is_a_conflict_with_a_reason(
    writes: Callable[..., Writer],
) -> None:
    writer = writes("sed -i 's/line 3$/three/' a.txt; echo new > new")
    (writer.project / "a.txt").write_text(LINES + "mine\n")
    run = WriterRun(writer.folder, {"PATH": "/nowhere", "HOME": "/nowhere"})
    run.git._program = None
    assert "git, which merges texts, isn't installed" in conflicts(run.land)["a.txt"]
    run.land(only=["new"])
    assert (writer.project / "new").exists()


def test_a_check_runs_on_the_merged_tree_before_anything_changes(
    writes: Callable[..., Writer], monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = writes("sed -i 's/line 3$/three/' a.txt; rm b.txt; rm -r package; echo > package")
    (writer.project / "a.txt").write_text(LINES + "mine\n")
    before = tree(writer.project)
    merged = "grep three a.txt && grep mine a.txt && test ! -e b.txt -a -f package"
    for mounts in (True, False):
        if not mounts:
            monkeypatch.setattr(merged_check._MergedCheck, "_run_mounted", lambda *_: None)
        for command in (f"! ({merged})", "echo bad > a.txt; touch new; false"):
            with pytest.raises(CheckFailed):
                writer.end().land(check=check_of(command, os.environ))
            assert tree(writer.project) == before
        assert {one.name for one in writer.layer.iterdir()}.isdisjoint({"checked", "checking"})
    writer.end().land(check=check_of(merged, os.environ))
    assert not (writer.project / "b.txt").exists()


def test_what_changes_while_the_check_runs_is_a_conflict(writes: Callable[..., Writer]) -> None:
    writer = writes("sed -i 's/line 3$/three/' a.txt")

    def check(*_: object) -> int:
        (writer.project / "a.txt").write_text(LINES + "mine\n")
        return 0

    assert conflicts(writer.end().land, check=check)
    assert (writer.project / "a.txt").read_text() == LINES + "mine\n"


def test_a_commit_has_exactly_what_landed(writes: Callable[..., Writer]) -> None:
    project = writes().project
    committed(project)
    (project / "b.txt").write_text(LINES + "not committed\n")
    (project / "staged").write_text("staged\n")
    git(project, "add", "staged")
    (project / "untracked").write_text("untracked\n")
    hook = project / ".git/hooks/pre-commit"
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    status = git(project, "status", "--short")
    writer = writes("""
        echo more >> a.txt; sed -i 's/line 3$/three/' b.txt; rm -r package; echo file > package
        mkdir folder; echo new > folder/new; chmod 755 folder/new; ln -s a.txt link
    """)
    writer.end().land(commit="The message")
    assert git(project, "status", "--short") == status
    assert git(project, "log", "--format=%s").split("\n")[0] == "The message"
    shown = git(project, "show", "--format=", "--name-only", "--no-renames").split()
    assert shown == ["a.txt", "b.txt", "folder/new", "link", "package", "package/c.txt"]
    assert git(project, "show", "HEAD:b.txt") == LINES.replace("line 3\n", "three\n")
    assert "100755" in git(project, "ls-tree", "HEAD", "folder/")


def test_a_commit_that_would_take_the_users_work_along_is_a_conflict(
    writes: Callable[..., Writer],
) -> None:
    project = writes().project
    committed(project)
    (project / "a.txt").write_text(LINES.replace("line 3\n", "mine\n"))
    (project / "b.txt").write_text(LINES + "staged\n")
    git(project, "add", "b.txt")
    writer = writes("sed -i 's/mine$/its/' a.txt; sed -i 's/line 3$/three/' b.txt; echo > new")
    before = tree(project)
    named = conflicts(writer.end().land, commit="")
    assert "aren't committed" in named["a.txt"] and "staged" in named["b.txt"]
    assert outside_git(tree(project)) == outside_git(before)


def test_a_branch_gets_it_and_the_folder_stays(writes: Callable[..., Writer]) -> None:
    project = writes().project
    (project / ".gitattributes").write_text("*.txt text eol=crlf\n")
    committed(project)
    (project / "b.txt").write_text(LINES + "not committed\n")
    status = git(project, "status", "--short")
    writer = writes("echo more >> a.txt; sed -i 's/line 3$/three/' b.txt; echo > new")
    before = tree(project)
    commit = writer.end().branch("feature")
    assert outside_git(tree(project)) == outside_git(before)
    assert git(project, "status", "--short") == status
    assert git(project, "rev-parse", "feature").strip() == commit
    assert git(project, "show", "feature:b.txt") == LINES.replace("line 3\n", "three\n")
    assert writer.end().state == "pending"
    for name in ("feature", "bad..name"):
        with pytest.raises(Refusal):
            writer.end().branch(name)


def test_discarding_leaves_the_record_and_what_has_landed(writes: Callable[..., Writer]) -> None:
    writer = writes("echo more >> a.txt; echo new > new")
    writer.end().land(only=["new"])
    writer.end().discard()
    assert writer.end().state == "landed"
    writer.end().undo()
    assert not (writer.project / "new").exists()
    other = writes("echo more >> a.txt")
    other.end().discard()
    assert other.end().state == "discarded" and not other.layer.exists()
    for verb in (other.end().land, other.end().undo, other.end().discard):
        with pytest.raises(Refusal, match="it is discarded"):
            verb()


def test_the_record_tells_what_has_become_of_the_changes(writes: Callable[..., Writer]) -> None:
    writer = writes("echo more >> a.txt")

    def told() -> tuple[str, str]:
        run = find_run(writer.folder.parent, writer.id)
        (result,) = run.result["details"]["results"]
        return run.summary["changes"], result["changes"]["state"]

    run = writer.end()
    assert told() == ("pending", "pending")
    run.land()
    assert told() == ("landed", "landed")
    run.undo()
    assert told() == ("undone", "undone")


def test_pending_changes_survive_pruning_for_their_days_and_count(
    writes: Callable[..., Writer],
) -> None:
    landed = writes("echo > new")
    landed.end().land()
    writer = writes("head -c 90000 /dev/urandom > large")
    writer.end()
    runs, small = writer.folder.parent, RunsConfig(keep_bytes=50_000)
    assert prune(runs, small) == 1
    assert writer.folder.exists() and not landed.folder.exists()
    old = time.time() - 40 * 86_400
    for path in (*writer.folder.iterdir(), writer.folder):
        os.utime(path, (old, old))
    assert prune(runs, RunsConfig()) == 1


def test_a_run_whose_landing_was_interrupted_is_not_deleted(writes: Callable[..., Writer]) -> None:
    writer = writes("echo more >> a.txt")
    run = writer.end()
    run._save({"phase": "staging", "steps": [], "stages": []})
    assert not delete_run(writer.folder)
    assert "operation" in landing_of(writer.folder)


def test_the_commands_from_review_to_undo(tmp_path: Path) -> None:
    door = Door(tmp_path)
    (door.project / "src").mkdir()
    (door.project / "src/a.txt").write_text(LINES)
    before = tree(door.project)
    writer = Writer(door.runs, door.project)
    writer.do("sed -i 's/line 3$/three/' src/a.txt; echo x > new; mkfifo pipe").do("echo y >> new")
    assert door.run("land", "zzzz").code == 2
    shown = door.run("diff", writer.id)
    assert shown.code == 0 and "-line 3\n+three\n" in shown.out and "\x1b" not in shown.out
    assert "pipe: a named pipe" in shown.err and f"outrider land {writer.id}" in shown.err
    assert "src/a.txt" not in door.run("diff", "last", "new").out
    stat = door.run("diff", "last", "--stat").out
    assert f"src/a.txt  +1 {MINUS}1" in stat and f"2 files, +3 {MINUS}1" in stat
    assert door.run("diff", "last", "--by-call").out.split("\n")[0] == "call1"
    told = door.run("diff", "last", "--json").json
    assert told["state"] == "pending" and "+three" in told["files"][1]["diff"]
    assert "completed, not landed" in door.run("runs").out
    assert tree(door.project) == before

    (door.project / "new").write_text("mine\n")
    conflict = door.run("land", "last")
    assert conflict.code == 3 and "new: you added it, and the run adds it" in conflict.err
    assert door.run("land", "last", "--json").json["conflicts"][0]["path"] == "new"
    (door.project / "new").unlink()
    landed = door.run("land", "last", "--only", "src")
    assert landed.code == 0 and f"1 file, +1 {MINUS}1 landed" in landed.out
    assert door.run("land", "last", "--json").json["state"] == "landed"
    assert door.run("land", "last").code == 2
    assert door.run("undo", "last").code == 0
    assert tree(door.project) == before
    assert door.run("discard", "last", "--json").json["state"] == "discarded"
    for command in ("discard", "undo", "land"):
        assert door.run(command, "last").code == 2


def test_the_diff_is_coloured_on_a_terminal(tmp_path: Path) -> None:
    door = Door(tmp_path)
    Writer(door.runs, door.project).do("echo new > new")
    terminal = door.terminal("diff", "last")
    assert terminal.end() == 0
    assert "\x1b[32m+new" in terminal.raw


def test_doctor_names_what_waits_and_what_was_interrupted(tmp_path: Path) -> None:
    door = Door(tmp_path)
    waits, broken = (Writer(door.runs, door.project).do("echo new > new") for _ in range(2))
    waits.end()
    broken.end()._save({"phase": "staging", "steps": [], "stages": []})
    checks = [
        one for one in door.run("doctor", "--json").json["checks"] if one["name"] == "landings"
    ]
    told = {one["message"].split()[1]: one for one in checks}
    assert f"outrider land {waits.id}" in told[waits.id]["message"]
    assert told[broken.id]["status"] == "warn" and "interrupted" in told[broken.id]["message"]


def test_doctor_does_not_call_a_landing_interrupted_while_it_is_under_way(tmp_path: Path) -> None:
    door = Door(tmp_path)
    (door.project / "a.txt").write_text(LINES)
    writer = Writer(door.runs, door.project).do("echo x >> a.txt")
    code = f"""
import os, sys
from pathlib import Path
from outrider.workspaces.layers import applying, landing
applying.Application._verify = lambda *_: print("landing", flush=True) or sys.stdin.read()
landing.WriterRun(Path({str(writer.folder)!r}), os.environ).land()
"""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", code], **pipes) as lander:
        assert lander.stdout.readline() == b"landing\n"
        under_way = door.run("doctor", "--json").json["checks"]
        lander.kill()
    interrupted = door.run("doctor", "--json").json["checks"]
    assert not [one for one in under_way if writer.id in one["message"]]
    assert [one["status"] for one in interrupted if writer.id in one["message"]] == ["warn"]


def test_the_next_command_takes_back_what_was_interrupted(tmp_path: Path) -> None:
    """Also one about another run of the same folder."""
    door = Door(tmp_path)
    (door.project / "a.txt").write_text(LINES)
    before = tree(door.project)
    first, second = (Writer(door.runs, door.project).do("echo x >> a.txt") for _ in range(2))
    code = f"""
import os, signal, sys
from pathlib import Path
from outrider.workspaces.layers import applying, landing
applying.Application._verify = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
landing.WriterRun(Path({str(first.folder)!r}), os.environ).land()
"""
    killed = subprocess.run([sys.executable, "-c", code])
    assert killed.returncode == -signal.SIGKILL and tree(door.project) != before
    taken_back = door.run("diff", second.id)
    assert f"took back what run {first.id} was interrupted in" in taken_back.err
    assert tree(door.project) == before
    assert door.run("land", first.id).code == 0
