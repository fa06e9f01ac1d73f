"""Lands and undoes the same changes again and again, with a fault at each system call in turn.

A process of its own: it forks for every SIGKILL, and replaces functions of `os`.
"""

import errno
import os
import shutil
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from layer_door import Writer, tree
from outrider.protocol.changes import LandingConflict
from outrider.records.runs import landing_of
from outrider.workspaces.layers import applying, landing
from outrider.workspaces.layers.landing import WriterRun, recover_landing

TEXT = "".join(f"line {number}\n" for number in range(40))
CHANGING = (
    "mkdir", "rename", "replace", "unlink", "remove", "rmdir", "symlink", "link", "write",
    "pwrite", "ftruncate", "chmod", "fchmod", "chown", "mknod",
)  # fmt: skip
NEEDS_ROOM = ("mkdir", "symlink", "write", "pwrite", "fsync", "open", "sync")
SAVED = b"saved by the user\n"


class Calls:
    """Counts the calls that change something, and does something before one of them."""

    def __init__(self) -> None:
        self.count, self.at, self.act = 0, -1, lambda name: None
        for name in CHANGING:
            setattr(os, name, self._wrapped(name, getattr(os, name)))
        # Nothing here takes the power away, and a disk that others use is slow.
        os.fsync = self._wrapped("fsync", lambda file: None)
        os.open = self._wrapped("open", os.open, lambda flags: flags & os.O_CREAT)
        applying._rename = self._wrapped("exchange", applying._rename)
        applying.sync = landing.sync = self._wrapped("sync", lambda folder: None)

    def _wrapped(self, name: str, real: Any, counts: Callable[[int], int] | None = None) -> Any:
        def call(*args: Any, **options: Any) -> Any:
            if counts is None or counts(args[1]):
                self.count += 1
                self.act(name)
            return real(*args, **options)

        return call

    def before(self, number: int, act: Callable[[str], None], *, always: bool = False) -> None:
        def maybe(name: str) -> None:
            if self.count == number or (always and self.count > number):
                was, self.act = self.act, lambda name: None
                try:
                    act(name)
                finally:
                    self.act = was

        self.count, self.act = 0, maybe

    def off(self) -> None:
        self.act = lambda name: None


class Sweep:
    def __init__(self, place: Path, verb: str) -> None:
        self.place, self.verb, self.calls = place, verb, Calls()
        self.project, self.runs = place / "now/project", place / "now/runs"
        self.run = self._prepare()
        self.others = [tree(self.project)]
        if verb == "undo":
            self.opened().land()
            self.others.append(tree(self.project))
        shutil.copytree(place / "now", place / "start", symlinks=True)
        self.perform()
        self.before, self.after = self.tree_of("start"), tree(self.project)
        assert self.before != self.after

    def _prepare(self) -> str:
        self.project.mkdir(parents=True)
        for name in ("merged", "replaced", "gone", "becomes_folder", "moded", "folder/in", "old/x"):
            (self.project / name).parent.mkdir(exist_ok=True)
            (self.project / name).write_text(TEXT)
        os.symlink("merged", self.project / "link")
        writer = Writer(self.runs, self.project, "copy")
        writer.do("""
            sed -i 's/line 3$/line three/' merged; echo all new > replaced; rm gone
            rm becomes_folder; mkdir becomes_folder; echo in it > becomes_folder/in
            rm -r folder; echo no folder > folder; rm -r old; mkdir -p new/deep new/empty
            echo new > new/deep/file; chmod 755 moded; ln -sf replaced link; ln -s new linked
        """)
        self.edit("merged", TEXT.replace("line 30\n", "line thirty\n").encode())
        writer.end()
        return writer.id

    def edit(self, name: str, content: bytes) -> None:
        (self.project / name).write_bytes(content)

    def tree_of(self, name: str) -> dict[str, Any]:
        return tree(self.place / name / "project")

    def opened(self) -> WriterRun:
        return WriterRun(self.runs / self.run, os.environ)

    def perform(self) -> None:
        run = self.opened()
        run.land() if self.verb == "land" else run.undo()

    def restart(self) -> None:
        self.calls.off()
        shutil.rmtree(self.place / "now")
        shutil.copytree(self.place / "start", self.place / "now", symlinks=True)

    def how_many(self) -> int:
        self.restart()
        self.calls.before(-1, lambda name: None)
        self.perform()
        return self.calls.count

    def check(self, said: str, *, has_failed: bool | None = None) -> None:
        """The tree is as before or as after, the record says which, and it can go on."""
        self.calls.off()
        recover_landing(self.runs, self.project, os.environ)
        now, record = tree(self.project), landing_of(self.runs / self.run)
        left = [path for path in now if ".outrider" in path]
        assert not left, f"{said}: left over: {left}"
        assert now in (self.before, self.after), f"{said}: {_differences(now, self.after)}"
        done = {"land": "landed", "undo": "undone"}[self.verb]
        assert (record["state"] == done) == (now == self.after), f"{said}: {record['state']}"
        assert "operation" not in record, said
        if has_failed is not None:
            assert (now == self.before) == has_failed, f"{said}: it says {has_failed}"
        if now == self.before:
            self.perform()
            assert tree(self.project) == self.after, f"{said}: it can't be done afterwards"

    def kill(self) -> int:
        """SIGKILL before each call."""
        most = self.how_many()
        for number in range(1, most + 1):
            self.restart()
            if (pid := os.fork()) == 0:
                self.calls.before(number, lambda name: os.kill(os.getpid(), signal.SIGKILL))
                self.perform()
                os._exit(0)
            _, status = os.waitpid(pid, 0)
            assert os.WIFSIGNALED(status), f"call {number} wasn't made"
            self.check(f"killed before call {number} of {most}")
        return most

    def kill_recovery(self) -> int:
        """SIGKILL before each call of what takes back a landing that was killed half-way."""
        total = 0
        for first in range(10, self.how_many(), 9):
            number, status = 1, 1
            while status:
                self.restart()
                self._killed(first, self.perform)
                status = self._killed(number, self._recover)
                self.check(f"killed before call {first}, and {number} of the recovery")
                number, total = number + 1, total + 1
        return total

    def _recover(self) -> None:
        recover_landing(self.runs, self.project, os.environ)

    def _killed(self, number: int, what: Callable[[], None]) -> int:
        if (pid := os.fork()) == 0:
            self.calls.before(number, lambda name: os.kill(os.getpid(), signal.SIGKILL))
            what()
            os._exit(0)
        return os.waitpid(pid, 0)[1]

    def full(self) -> int:
        """A disk that is full from each call on, and one that is full for just that call."""
        most = self.how_many()

        def fail(name: str) -> None:
            if name in NEEDS_ROOM:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        for always in (False, True):
            for number in range(1, most + 1):
                self.restart()
                self.calls.before(number, fail, always=always)
                has_failed = False
                try:
                    self.perform()
                except OSError as error:
                    has_failed = error.errno == errno.ENOSPC
                self.check(f"full at call {number} of {most}, {always=}", has_failed=has_failed)
        return most

    def save(self) -> int:
        """A save by the user before each call: never lost, and the others are all or nothing."""
        most = self.how_many()
        for name, act in self._saves():
            for number in range(1, most + 1):
                self.restart()
                self.calls.before(number, lambda _, act=act: act())
                with suppress(LandingConflict):
                    self.perform()
                self.calls.off()
                recover_landing(self.runs, self.project, os.environ)
                self._check_save(name, f"{name} before call {number} of {most}")
        return most

    def _saves(self) -> list[tuple[str, Callable[[], None]]]:
        project = self.project

        def written() -> None:
            (project / "replaced").write_bytes(SAVED)

        def renamed() -> None:
            (project / "editor").write_bytes(SAVED)
            os.rename(project / "editor", project / "replaced")

        def deleted() -> None:
            (project / "replaced").unlink(missing_ok=True)

        def created() -> None:
            (project / "new/deep").mkdir(parents=True, exist_ok=True)
            (project / "new/deep/file").write_bytes(SAVED)

        def added() -> None:  # to a folder that goes
            (project / "old").mkdir(exist_ok=True)
            (project / "old/mine").write_bytes(SAVED)

        def removed() -> None:  # what the landing removes, changed meanwhile
            (project / "gone").write_bytes(SAVED)

        return [(one.__name__, one) for one in (written, renamed, deleted, created, added, removed)]

    def _check_save(self, name: str, said: str) -> None:
        files = {"created": "new/deep/file", "added": "old/mine", "removed": "gone"}
        path = self.project / files.get(name, "replaced")
        if name == "deleted":
            assert not path.exists(), said
        else:
            assert path.read_bytes() == SAVED, said
        now = tree(self.project)
        assert not [one for one in now if ".outrider" in one], said
        own = {files.get(name, "replaced"), "old", "new", "new/deep"}
        rest = {one: what for one, what in now.items() if one not in own}
        expected = [
            {one: what for one, what in state.items() if one not in own}
            for state in (self.before, self.after)
        ]
        assert rest in expected, f"{said}: {_differences(rest, expected[1])}"


def _differences(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    return [path for path in {**one, **other} if one.get(path) != other.get(path)]


if __name__ == "__main__":
    sweep = Sweep(Path(sys.argv[1]), sys.argv[2])
    print(getattr(sweep, sys.argv[3])())
