"""Landing a run's changes in the user's folder, undoing that, and discarding them.

`landing.json` in the run's folder says what has become of the changes, and is the journal of a
landing that is under way. Whoever locks the folder next takes back one that was interrupted.
"""

import fcntl
import hashlib
import os
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from outrider.protocol import jsonl
from outrider.protocol.changes import LandingConflict, PathReason
from outrider.protocol.data import as_list, as_object, to_json
from outrider.protocol.errors import ErrorCode, OutriderError, Refusal
from outrider.records.runs import (
    CONFLICTS,
    LANDING,
    LAYER,
    SESSION,
    landing_of,
    remove_folder,
    run_folders,
    write_all,
)
from outrider.workspaces.layers.applying import Application, changed_meanwhile, sync
from outrider.workspaces.layers.audit import CONTENTS, LayerAudit, read_ledger
from outrider.workspaces.layers.commits import PreparedCommit, prepared_commit
from outrider.workspaces.layers.copying import COPY, UPPER, top_of
from outrider.workspaces.layers.merging import Merger
from outrider.workspaces.layers.pending import Pending, pending_in
from outrider.workspaces.layers.user_git import UserGit
from outrider.workspaces.layers.versions import (
    Contents,
    PathChange,
    ancestors,
    open_new,
    read_change,
    recorded,
)
from outrider.workspaces.names import shown_name, unescaped

LOCK = ".landing-"  # what a folder's lock in the folder of all runs starts with
_MOVED_ON = PathReason(".", "you changed files while the check was running: land again")
Check = Callable[["WriterRun", Sequence[PathChange]], int]
"""Runs a command on the folder of a run as these steps would make it; returns its exit code."""


class CheckFailed(OutriderError):
    """A landing that didn't pass its check; nothing was changed."""


class WriterRun:
    """A writer's run: its layer, the user's folder, and what has become of its changes."""

    def __init__(self, folder: Path, env: Mapping[str, str], *, is_held: bool = False) -> None:
        """Read a run's record, and complete it at its end; raises `Refusal` where it has none.

        `is_held` says that the caller holds the record, as the run's supervisor does.
        """
        self._is_held = is_held
        self.folder, self.layer, self._env = folder, folder / LAYER, env
        self.contents = Contents(self.layer / CONTENTS)
        self.record: dict[str, Any] = landing_of(folder)
        self.project = Path(unescaped(self.record.get("folder", "")) or self._ended())
        self.git = UserGit(self.project, env)
        if not self.record:
            self._become("pending" if self._found.changes else "none", ())
            self._save()

    def _ended(self) -> str:
        """Record what no call was known for, as the run is over; return the user's folder."""
        try:
            folder = read_ledger(self.layer).folder
            LayerAudit(Path(folder), self.layer).after_call(None)
            return folder
        except FileNotFoundError:
            message = f"Run {self.folder.name} has no layer: only writers change files in one"
            raise Refusal(ErrorCode.INVALID_INPUT, f"{message}.") from None

    @property
    def state(self) -> str:
        """`none`, `pending`, `landed`, `undone` or `discarded`."""
        return self.record["state"]

    @property
    def top(self) -> Path:
        """The folder with the child's files."""
        return top_of(self.layer)

    @property
    def landed(self) -> dict[str, PathChange]:
        """What has landed: what the user's folder had before, and what it has had since."""
        return {one.path: one for one in map(read_change, self.record["landed"])}

    @cached_property
    def _found(self) -> Pending:
        """What the child left, which doesn't change any more."""
        if not os.path.isdir(self.top):
            return Pending((), (), ())
        return pending_in(read_ledger(self.layer), self.top, self.git)

    def pending(self) -> Pending:
        """Return what the layer has that hasn't landed."""
        landed, found = self.landed, self._found
        changes = tuple(one for one in found.changes if one.path not in landed)
        ignored = tuple(one for one in found.ignored if one.path not in landed)
        return Pending(changes, ignored, found.withheld)

    def _selected(self, only: Sequence[str], *, ignored: bool) -> list[PathChange]:
        """Return what is to land; raises `Refusal` where nothing is."""
        pending = self.pending()
        found = pending.changes + (pending.ignored if ignored else ())
        paths = {one.path for one in found if not only or is_in(one.path, *only)}
        nothing = [path for path in only if not any(is_in(one.path, path) for one in found)]
        if nothing or not paths:
            where = f" at {', '.join(map(shown_name, nothing))}" if nothing else ""
            raise self._refusal(f"has nothing to land{where}")
        above = ancestors(paths)  # a file needs the folders that are new with it
        return [one for one in found if one.path in paths or (one.path in above and one.after)]

    def _refusal(self, why: str) -> Refusal:
        message = f"Run {self.folder.name} {why}: it is {self.state}."
        return Refusal(ErrorCode.INVALID_INPUT, message)

    def _steps(self, changes: Iterable[PathChange]) -> tuple[PathChange, ...]:
        """Return what changes do to the user's folder; raises `LandingConflict`."""
        return Merger(self.project, self.top, self.contents, self.git).steps(changes)

    def conflicts(self, changes: Iterable[PathChange]) -> tuple[PathReason, ...]:
        """Return what keeps changes from landing as things are."""
        try:
            self._steps(changes)
        except LandingConflict as conflict:
            return conflict.conflicts
        return ()

    def land(
        self,
        *,
        only: Sequence[str] = (),
        ignored: bool = False,
        check: Check | None = None,
        commit: str | None = None,
    ) -> list[PathChange]:
        """Put what is pending into the user's folder, all or nothing; return what landed.

        Raises `LandingConflict`, `CheckFailed`, `OSError`, and `Refusal` where nothing is to land.
        `commit` is the message of a commit of just this; an empty one has a default.
        """
        with self._locked():
            changes = self._selected(only, ignored=ignored)
            steps = self._kept_steps(changes)
            if check:
                if code := check(self, steps):
                    raise CheckFailed(f"the check failed with exit code {code}")
                if self._steps(changes) != steps:
                    raise LandingConflict((_MOVED_ON,))
            made = None if commit is None else self._commit(changes, commit, on_head=True)
            there = {one.path: replace(one, before=one.after) for one in changes}
            landed = self.landed | there | {step.path: step for step in steps}
            is_all = all(one.path in landed for one in self.pending().changes)
            self._perform(steps, "landed" if is_all else "pending", landed.values())
            if made:
                made.put_on_head()
            return changes

    def branch(self, name: str, *, only: Sequence[str] = (), ignored: bool = False) -> str:
        """Put what is pending on a new branch, and return the commit; the folder stays as it is."""
        with self._locked():
            changes = self._selected(only, ignored=ignored)
            for change in changes:
                self.contents.keep(self.top, change.path)
            return self._commit(changes, "", on_head=False).put_on_branch(name)

    def _commit(
        self, changes: Sequence[PathChange], message: str, *, on_head: bool
    ) -> PreparedCommit:
        words = message or f"Land run {self.folder.name}"
        return prepared_commit(self.git, self.contents, changes, words, on_head=on_head)

    def undo(self) -> None:
        """Take what landed out of the user's folder; raises `LandingConflict` and `OSError`."""
        with self._locked():
            if not (landed := self.landed):
                raise self._refusal("has nothing to undo")
            steps = self._kept_steps(landed[path].undone for path in sorted(landed))
            self._perform(steps, "undone" if self.state == "landed" else "pending", ())

    def discard(self) -> None:
        """Remove what hasn't landed, for good; what has landed can still be undone."""
        with self._locked():
            if self.state in ("landed", "discarded"):
                raise self._refusal("has nothing to discard")
            landed = self.landed.values()
            self._become("landed" if landed else "discarded", landed)
            self._save()
            gone = [self.layer / name for name in (UPPER, COPY, "work")]
            for path in gone if landed else [self.layer]:
                remove_folder(path)

    def _kept_steps(self, changes: Iterable[PathChange]) -> tuple[PathChange, ...]:
        """Return what changes do to the user's folder, when all that goes and comes is kept."""
        steps = self._steps(changes)
        for step in steps:
            if step.before and self.contents.keep(self.project, step.path) != step.before:
                raise changed_meanwhile(step.path)
            if step.after and not self.contents.has(step.after):
                self.contents.keep(self.top, step.path)
        return steps

    def _perform(
        self, steps: Sequence[PathChange], state: str, landed: Iterable[PathChange]
    ) -> None:
        """Take steps in the user's folder, all or none, and record what is so then."""
        work = Application(self.project, steps, self.folder.name)
        journal = {"phase": "staging", "steps": recorded(steps)}
        sync(self.folder)  # with what was kept
        self._save(journal)
        try:
            work.stage(self.contents)
            self._save({**journal, "phase": "taking"})
            work.take()
            self._become(state, landed)
            self._save({**journal, "phase": "clearing"})
        except BaseException:
            self.record = landing_of(self.folder)
            self.take_back()
            raise
        with suppress(OSError):  # it has landed: what is left over, the next command clears
            work.clear()
            self._save()

    def take_back(self) -> None:
        """Take back what the journal says was begun, or clear up after what was done."""
        journal = as_object(self.record.get("operation"))
        steps = map(read_change, as_list(journal.get("steps")))
        work = Application(self.project, steps, self.folder.name)
        if journal.get("phase") == "taking":
            work.take_back()
        work.clear()
        self._save()

    def note(self, conflicts: Sequence[PathReason]) -> None:
        """Record why it didn't land by itself, for those who ask later."""
        self.record[CONFLICTS] = to_json(tuple(conflicts))
        self._save()

    def _become(self, state: str, landed: Iterable[PathChange]) -> None:
        folder = shown_name(str(self.project))
        self.record = {"folder": folder, "state": state, "landed": recorded(landed)}

    def _save(self, operation: Mapping[str, Any] | None = None) -> None:
        """Write the record, with the journal of what is under way, in one step."""
        record = {name: one for name, one in self.record.items() if name != "operation"}
        record |= {"operation": operation} if operation else {}
        new = f"{self.folder}/{LANDING}.new"
        with open_new(new, os.O_TRUNC) as file:
            write_all(file.fileno(), jsonl.encode(record))
            os.fsync(file.fileno())
        os.replace(new, self.folder / LANDING)
        self.record = record

    @contextmanager
    def _locked(self) -> Generator[None]:
        """Hold the user's folder and the run's record, as they are now."""
        held = _folder_lock(self.folder.parent, self.project, self._env)
        with held, open(self.folder / SESSION, "rb") as session:
            if not self._is_held:
                fcntl.flock(session, fcntl.LOCK_SH)  # nobody deletes it
            self.record = landing_of(self.folder)
            yield


def recover_landing(runs: Path, project: Path, env: Mapping[str, str]) -> str | None:
    """Take back a landing that was interrupted in a folder; return the run's id, if there is one.

    One that is under way in another process is left alone.
    """
    with suppress(BlockingIOError), _folder_lock(runs, project, env, fcntl.LOCK_NB) as run:
        return run
    return None


@contextmanager
def _folder_lock(
    runs: Path, project: Path, env: Mapping[str, str], how: int = 0
) -> Generator[str | None]:
    """Hold a user's folder, after taking back a landing that was interrupted in it; say which."""
    name = hashlib.sha256(os.fsencode(project)).hexdigest()[:16]
    with open_new(f"{runs}/{LOCK}{name}", os.O_APPEND) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | how)
        interrupted = None
        for folder in run_folders(runs):
            record = landing_of(folder)
            if "operation" in record and record["folder"] == shown_name(str(project)):
                WriterRun(folder, env).take_back()
                interrupted = folder.name
        yield interrupted


def is_in(path: str, *folders: str) -> bool:
    """Whether a path is one of these or below it."""
    return any(one in (".", path) or path.startswith(f"{one}/") for one in folders)
