"""What changed in a layer: recorded call by call, drawn for a reviewer, and what never lands."""

import os
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from layer_door import KINDS, Writer, settle, tree
from outrider.protocol.changes import Changes
from outrider.protocol.errors import Refusal
from outrider.workspaces.layers.audit import LayerAudit, read_ledger
from outrider.workspaces.layers.landing import WriterRun
from outrider.workspaces.layers.pending import leads_out
from outrider.workspaces.layers.review import review, visible

LINES = "".join(f"line {number}\n" for number in range(30))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    (project / "package/deep").mkdir(parents=True)
    for name in ("a.txt", "b.txt", "package/c.txt", "package/deep/d.txt"):
        (project / name).write_text(LINES)
    return project


@pytest.fixture(params=KINDS)
def writer(request: pytest.FixtureRequest, project: Path) -> Writer:
    return Writer(project.parent / "runs", project, request.param)


def changes(writer: Writer) -> Changes:
    return review(writer.end())[0]


def kinds(writer: Writer) -> dict[str, str]:
    return {one.path: one.kind for one in changes(writer).files}


def drawn(writer: Writer) -> str:
    return "\n".join(line for one in review(writer.end())[1] for line in one.lines)


def withheld(writer: Writer) -> dict[str, str]:
    return {one.path: one.reason for one in changes(writer).withheld}


def test_each_file_names_the_calls_that_changed_it(writer: Writer) -> None:
    before = tree(writer.project)
    writer.do("echo 1 >> a.txt; echo new > new.txt").do("true").do("echo 2 >> a.txt; rm b.txt")
    calls = {one.path: one.calls for one in changes(writer).files}
    assert calls == {"a.txt": ("call1", "call3"), "b.txt": ("call3",), "new.txt": ("call1",)}
    assert tree(writer.project) == before


def test_a_change_has_its_kind_its_hashes_and_its_lines(writer: Writer) -> None:
    writer.do("sed -i 's/line 3$/three/' a.txt; echo > new; rm b.txt; chmod 755 package/c.txt")
    writer.do("rm package/deep/d.txt; mkdir package/deep/d.txt")
    found = changes(writer)
    assert (found.state, found.added, found.removed) == ("pending", 2, 61)
    assert kinds(writer) == {
        "a.txt": "modified", "b.txt": "deleted", "new": "added", "package/c.txt": "mode",
        "package/deep/d.txt": "type",
    }  # fmt: skip
    first = found.files[0]
    assert first.before and first.after and first.before != first.after
    assert [(one.before, one.after) for one in first.hunks] == [((1, 7), (1, 7))]
    told = found.to_dict()
    assert set(told) == {"state", "added", "removed", "files", "withheld", "conflicts"}
    assert set(told["files"][0]) == {"path", "kind", "before", "after", "hunks", "calls"}
    assert told["files"][2]["before"] is None


def test_what_is_changed_and_changed_back_is_no_change(writer: Writer) -> None:
    writer.do("echo more >> a.txt; echo > new; mkdir folder").do(
        "sed -i '$d' a.txt; rm new; rmdir folder"
    )
    assert changes(writer).files == ()
    assert writer.end().state == "none"


def test_folders_that_are_deleted_and_made_again_are_told_file_by_file(writer: Writer) -> None:
    writer.do("rm -r package").do("mkdir -p package/deep; echo > package/other")
    assert kinds(writer) == {
        "package/c.txt": "deleted", "package/deep/d.txt": "deleted", "package/other": "added",
    }  # fmt: skip


def test_a_whiteout_may_be_a_marked_file(project: Path) -> None:
    """As an overlay in an overlay has them."""
    writer = Writer(project.parent / "runs", project)
    (writer.layer / "upper/a.txt").touch()
    os.setxattr(writer.layer / "upper/a.txt", "user.overlay.whiteout", b"y")
    writer.audit.after_call("call1")
    assert kinds(writer) == {"a.txt": "deleted"}


def test_what_a_killed_call_had_changed_is_in_the_layer_without_a_call(writer: Writer) -> None:
    writer.do("echo 1 >> a.txt").do("echo 2 >> b.txt; rm -r package", audited=False)
    calls = {one.path: one.calls for one in changes(writer).files}
    assert calls == {
        "a.txt": ("call1",), "b.txt": (), "package/c.txt": (), "package/deep/d.txt": (),
    }  # fmt: skip


def test_a_ledger_that_was_cut_is_read_up_to_there(writer: Writer) -> None:
    writer.do("echo 1 >> a.txt")
    with open(writer.layer / "ledger.jsonl", "ab") as ledger:
        ledger.write(b'{"call":"call2","path":"b.t')
    writer.do("echo 3 >> package/c.txt")
    assert set(read_ledger(writer.layer).entries) == {"a.txt", "package/c.txt"}


def test_a_call_that_changes_nothing_reads_nothing_of_the_folder(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = Writer(project.parent / "runs", project).do("echo 1 >> a.txt; rm -r package")
    ledger = (writer.layer / "ledger.jsonl").read_bytes()
    shutil.rmtree(project)  # so that all would fail that looks there
    writer.audit.after_call("call9")
    assert (writer.layer / "ledger.jsonl").read_bytes() == ledger


def test_what_the_user_writes_while_the_child_runs_makes_the_base_uncertain(
    writer: Writer,
) -> None:
    settle(writer.folder)
    (writer.project / "a.txt").write_text("mine\n")
    writer.do("echo child >> b.txt; echo child > a.txt")
    conflicts = {one.path: one.reason for one in changes(writer).conflicts}
    assert "while the run was under way" in conflicts.pop("a.txt") and not conflicts


def test_git_and_outrider_are_withheld_in_any_case_and_depth(writer: Writer) -> None:
    writer.do("""
        mkdir -p .git/hooks package/.GIT/hooks .Outrider "package/.git. "
        echo bad > .git/hooks/pre-commit; echo bad > package/.GIT/config; echo bad > .Outrider/x
        echo bad > package/deep/.gIt; echo bad > "package/.git. /x"; echo fine > .gitignore
    """)
    assert set(withheld(writer)) == {
        ".git", "package/.GIT", ".Outrider", "package/deep/.gIt", "package/.git. ",
    }  # fmt: skip
    assert kinds(writer) == {".gitignore": "added"}


def test_links_that_lead_out_are_withheld_and_others_are_not(writer: Writer) -> None:
    project = writer.project
    os.symlink("/etc", project / "mine")  # the user's own
    writer.do(f"""
        ln -s /etc/passwd absolute; ln -s ../../x package/above; ln -s ../a.txt package/inside
        ln -s {project}/a.txt own; ln -s package/deep/../../.. around; ln -s mine/passwd through
        ln -s . here; ln -s here/.. trick; ln -s nowhere dangling; ln -s loop loop
    """)
    assert set(withheld(writer)) == {
        "absolute", "package/above", "around", "trick", "loop", "through",
    }  # fmt: skip
    assert set(kinds(writer)) == {"package/inside", "own", "here", "dangling"}


def test_a_link_is_followed_through_other_links() -> None:
    links = {"a/up": "..", "b": "/project/a", "c": "a/up/up"}
    for target, leads in {
        "up/x": False,
        "up/..": True,
        "../b/up/../x": True,
        "../c": False,
    }.items():
        assert leads_out("a/link", target, "/project", links.get) is leads, target


def test_devices_pipes_sockets_and_setuid_files_are_withheld(writer: Writer) -> None:
    writer.do("mkfifo pipe; echo x > setuid; chmod 4755 setuid; echo x > setgid; chmod 2755 setgid")
    top = writer.layer / ("copy" if writer.kind == "copy" else "upper")
    with socket.socket(socket.AF_UNIX) as made:
        here = os.open(top, os.O_RDONLY)
        made.bind(f"/proc/self/fd/{here}/socket")
        os.close(here)
    writer.audit.after_call("call2")
    assert set(withheld(writer)) == {"pipe", "setuid", "setgid", "socket"}
    assert kinds(writer) == {}


def test_hard_links_to_outside_are_withheld(tmp_path: Path, project: Path) -> None:
    writer = Writer(tmp_path / "runs", project, "copy")
    (tmp_path / "secret").write_text("secret")
    os.link(tmp_path / "secret", writer.layer / "copy/linked")
    writer.do("echo twice > one; ln one other")
    assert set(withheld(writer)) == {"linked"}
    assert set(kinds(writer)) == {"one", "other"}


def test_ignored_files_are_judged_by_the_users_rules(writer: Writer) -> None:
    project = writer.project
    git = ["git", "-c", "init.defaultBranch=main", "-C", project]
    subprocess.run([*git, "init", "-q"], check=True)
    (project / ".gitignore").write_text("*.log\nbuild/\n__pycache__/\n!kept.log\n")
    (project / "nested").mkdir()
    subprocess.run([*git, "init", "-q", project / "nested"], check=True)
    (project / "nested/.gitignore").write_text("*.tmp\n")
    writer = Writer(writer.folder.parent, project, writer.kind)
    writer.do("""
        echo '*.py' > .gitignore; echo code > new.py; echo > x.log; echo > kept.log
        mkdir -p build/deep package/__pycache__ package/own; echo > build/deep/o
        echo > package/__pycache__/c; echo > package/own/f; echo > nested/x.tmp; echo > nested/y
        echo > ':(top)x'; echo > 'a\nb.log'
    """)
    assert withheld(writer).keys() == {
        "x.log", "build", "package/__pycache__", "nested/x.tmp", "a\\x0ab.log",
    }  # fmt: skip
    assert kinds(writer).keys() == {
        ".gitignore", "new.py", "kept.log", "package/own/f", "nested/y", ":(top)x",
    }  # fmt: skip


def test_the_diff_shows_what_attributes_and_odd_characters_would_hide(writer: Writer) -> None:
    (writer.layer / "hidden").write_bytes("if admin\u202e\u2066:\u200b  # \x1b[2K\n".encode())
    writer.do("""
        printf '* -diff binary\n' > .gitattributes
        cat "$OLDPWD/hidden" > hidden.py 2>/dev/null || cat ../hidden > hidden.py
        printf 'eval\\0x(secret)......\n' > nul.sh; printf 'latin \\351\n' > latin
        printf 'one\r\ntwo\r\n' > dos; printf 'no end' > end; head -c 999 /dev/zero > zeros
    """)
    text = drawn(writer)
    assert "+if admin<U+202E><U+2066>:<U+200B>  # ␛[2K" in text
    assert "+eval␀x(secret)" in text and "+latin \\xe9" in text
    assert "@@ -1,0 +1,2 @@ (CRLF)\n+one\n+two" in text
    assert "+no end\n\\ No newline at end of file" in text
    assert "binary: nothing → 999 bytes" in text
    assert text.isprintable() is False and all(c == "\n" or c.isprintable() for c in text)


def test_a_line_end_that_changes_can_be_seen(writer: Writer) -> None:
    writer.do("sed -i '2s/$/\r/' a.txt")
    assert "-line 1\n+line 1␍\n" in drawn(writer)


def test_visible_text_stays_as_it_is() -> None:
    for text in ("plain\ttext", "naïve 数 😀"):
        assert visible(text) == text


def test_names_of_any_bytes_are_shown_and_land(writer: Writer) -> None:
    writer.do("printf x > \"$(printf 'b\\377d\\033')\"")
    assert kinds(writer) == {"b\\xffd\\x1b": "added"}
    writer.end().land(only=[os.fsdecode(b"b\xffd\x1b")])
    assert os.path.exists(os.fsencode(writer.project) + b"/b\xffd\x1b")


def test_large_and_repetitive_files_are_compared_all_the_same(writer: Writer) -> None:
    (writer.project / "same").write_text("x\n" * 5_000)
    writer = Writer(writer.folder.parent, writer.project, writer.kind)
    writer.do("sed -i '1,2500s/x/y/' same; head -c 5000000 /dev/zero | tr '\\0' 'a' > large")
    found = changes(writer)
    assert {one.path for one in found.files} == {"same", "large"} and found.added == 5_000
    assert "too large to show: nothing → 5,000,000 bytes" in drawn(writer)


def test_a_repetitive_file_of_another_mode_has_no_changed_lines(writer: Writer) -> None:
    (writer.project / "same").write_text("x\n" * 2_000)
    writer = Writer(writer.folder.parent, writer.project, writer.kind)
    writer.do("chmod +x same")
    found = changes(writer)
    assert kinds(writer) == {"same": "mode"} and (found.added, found.removed) == (0, 0)


def test_a_layer_whose_parent_was_killed_can_be_read_and_discarded(writer: Writer) -> None:
    writer.do("mkdir closed; echo > closed/x; chmod 000 closed; echo > open", audited=False)
    assert not (writer.folder / "landing.json").exists()
    assert "open" in kinds(writer)
    writer.end().discard()
    assert writer.end().state == "discarded" and not writer.layer.exists()


def test_an_audit_finds_its_folders_by_open_descriptors(project: Path) -> None:
    """As a child behind walls has to, which sees the layer in the folder's place."""
    writer = Writer(project.parent / "runs", project).do("true")
    folder, layer = (os.open(path, os.O_RDONLY) for path in (project, writer.layer))
    writer.audit = LayerAudit(Path(f"/proc/self/fd/{folder}"), Path(f"/proc/self/fd/{layer}"))
    writer.do("echo more >> a.txt; rm b.txt")
    os.close(folder)
    os.close(layer)
    assert kinds(writer) == {"a.txt": "modified", "b.txt": "deleted"}
    assert isinstance(writer.end(), WriterRun)


def test_a_folder_that_became_a_link_has_nothing_in_it(writer: Writer) -> None:
    writer.do("mv package/deep other; rm -r package; ln -s other package")
    writer.end().land()
    assert os.readlink(writer.project / "package") == "other"
    assert set(tree(writer.project)) == {"a.txt", "b.txt", "other", "other/d.txt", "package"}
    writer.end().undo()
    assert (writer.project / "package/deep/d.txt").read_text() == LINES


def test_a_mode_that_the_user_gives_a_folder_meanwhile_stays(writer: Writer) -> None:
    writer.do("echo more >> package/c.txt")
    (writer.project / "package").chmod(0o711)
    writer.end().land()
    assert (writer.project / "package").stat().st_mode & 0o777 == 0o711


def test_a_repository_that_git_refuses_lands_nothing(writer: Writer) -> None:
    subprocess.run(["git", "init", "-q", writer.project], check=True)
    writer.do("echo > new")
    (writer.project / ".git/config").write_text("[core]\nrepositoryformatversion = 99\n")
    with pytest.raises(Refusal, match="git rev-parse failed"):
        writer.end().land()
