"""Guarantees that a folder has all steps of a landing or none, whatever ends the process.

Everything new is staged on the target's file system and made durable before the first step. Each
step moves what was there into the stage, in one system call (`RENAME_EXCHANGE`), so that a save
by somebody else ends up there too and isn't lost. Only when everything that was moved out is what
it should be, the journal says that it is done, and the stage is removed; before that, all can be
put back without a byte of new space.
"""

import ctypes
import errno
import os
import shutil
import sys
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from outrider.processes.reaping import libc
from outrider.protocol.changes import LandingConflict, PathReason
from outrider.workspaces.layers.versions import (
    Contents,
    PathChange,
    is_folder,
    parent_of,
    version_in,
)
from outrider.workspaces.names import shown_name
from outrider.workspaces.opening import open_listing

STAGE = ".outrider-landing-"
_EXCHANGE = 2
_NO_REPLACE = 4 if sys.platform == "darwin" else 1
_CALL = "renameatx_np" if sys.platform == "darwin" else "renameat2"


class Application:
    """The steps of one landing or undo on a folder, and the stages that they are taken from."""

    def __init__(self, folder: Path, changes: Iterable[PathChange], name: str) -> None:
        """`name` is part of the names of the stages, by which they are found again."""
        self.folder, self._root, self.steps = folder, str(folder), ordered(changes)
        self._stages = [_stage_for(folder, step.path, name) for step in self.steps]

    def stage(self, contents: Contents) -> None:
        """Write all that is new beside where it goes; raises `OSError`."""
        for stage in dict.fromkeys(self._stages):
            with parent_of(self._root, stage) as (parent, name):
                os.mkdir(name, 0o700, dir_fd=parent)
        for number, step in enumerate(self.steps):
            if step.after and not is_folder(step.after):
                with self._stage(number) as stage:
                    contents.put(step.after, stage, name := str(number))
                    with suppress(OSError):  # only root may give files away
                        old = os.lstat(self.folder / step.path)
                        os.chown(name, old.st_uid, old.st_gid, dir_fd=stage, follow_symlinks=False)
        for stage in dict.fromkeys(self._stages):
            sync(self.folder / stage)

    def take(self) -> None:
        """Take all steps; raises where one can't be, or somebody else was faster."""
        for number, step in enumerate(self.steps):
            try:
                with self._place(number) as place:
                    _take(step, *place)
            except (FileExistsError, FileNotFoundError, NotADirectoryError, PermissionError):
                raise changed_meanwhile(step.path) from None
        for number, step in enumerate(self.steps):
            if step.before and not is_folder(step.after):
                self._verify(number, step)

    def _verify(self, number: int, step: PathChange) -> None:
        """Raise where what a step moved out isn't what it was meant to replace."""
        with self._stage(number) as stage:
            out = version_in(stage, str(number))
            is_same = out == step.before or (is_folder(step.before) and out is None)
            if is_same and is_folder(out):
                inside = parent_of(self._root, f"{self._stages[number]}/{number}/any")
                with inside as (folder, _), open_listing(folder) as listing:
                    is_same = not os.listdir(listing)
        if not is_same:
            raise changed_meanwhile(step.path)

    def take_back(self) -> None:
        """Undo the steps that were taken, and keep whatever somebody else has written since."""
        for number in reversed(range(len(self.steps))):
            step = self.steps[number]
            try:
                # Where there is something now, somebody else has put it there.
                with suppress(FileNotFoundError, FileExistsError), self._place(number) as place:
                    self._take_back(step, *place)
            except PermissionError:  # a link on the way, say: only bad if the step was taken
                with self._stage(number) as stage:
                    out = version_in(stage, str(number))
                if out != step.after and not is_folder(step.after):
                    raise

    def _take_back(self, step: PathChange, parent: int, name: str, stage: int, slot: str) -> None:
        here, out = version_in(parent, name), version_in(stage, slot)
        if is_folder(step.after):
            if step.before is None:
                with suppress(OSError):  # somebody else put something in it
                    os.rmdir(name, dir_fd=parent)
            elif here == step.after:
                os.chmod(name, step.before.mode, dir_fd=parent)
        elif here is out is step.after is None and step.before and is_folder(step.before):
            os.mkdir(name, step.before.mode, dir_fd=parent)
        elif here is None and out not in (None, step.after) and not (step.before and step.after):
            _rename(stage, slot, parent, name, _NO_REPLACE)
        elif step.before is None and out is None and here == step.after:
            _rename(parent, name, stage, slot, _NO_REPLACE)
            if version_in(stage, slot) != step.after:  # a save of this very moment
                _rename(stage, slot, parent, name, _NO_REPLACE)
        elif out not in (None, step.after) and (
            here == step.after or (here == step.before and out != step.before)
        ):  # it was exchanged; the second one: for a save, when this was tried before
            _rename(stage, slot, parent, name, _EXCHANGE)
            if version_in(stage, slot) not in (step.after, step.before):
                _rename(stage, slot, parent, name, _EXCHANGE)

    def clear(self) -> None:
        """Remove the stages with all that is in them."""
        for stage in dict.fromkeys(self._stages):
            with suppress(FileNotFoundError), parent_of(self._root, stage) as (parent, name):
                shutil.rmtree(name, dir_fd=parent)

    @contextmanager
    def _place(self, number: int) -> Generator[tuple[int, str, int, str]]:
        path = self.steps[number].path
        with parent_of(self._root, path) as (parent, name), self._stage(number) as stage:
            yield parent, name, stage, str(number)

    @contextmanager
    def _stage(self, number: int) -> Generator[int]:
        with parent_of(self._root, f"{self._stages[number]}/any") as (stage, _):
            yield stage


def ordered(changes: Iterable[PathChange]) -> list[PathChange]:
    """Return steps so that each can be taken: what goes from the deepest, then what comes."""
    drops, makes = list[PathChange](), list[PathChange]()
    for change in changes:
        before, after = change.before, change.after
        if before and after and is_folder(before) != is_folder(after):
            drops.append(replace(change, after=None))  # the one has to go before the other comes
            makes.append(replace(change, before=None))
        else:
            (makes if after else drops).append(change)
    drops.sort(key=lambda one: one.path, reverse=True)
    return [*drops, *sorted(makes, key=lambda one: one.path)]


def _stage_for(folder: Path, path: str, name: str) -> str:
    """Return where a path is staged: in the topmost folder that is on its file system."""
    device, found, way = os.lstat(folder).st_dev, "", ""
    for part in path.split("/")[:-1]:
        way += f"{part}/"
        if not os.path.isdir(place := f"{folder}/{way[:-1]}") or os.path.islink(place):
            break
        if (inner := os.lstat(place).st_dev) != device:
            device, found = inner, way
    return f"{found}{STAGE}{name}"


def changed_meanwhile(path: str) -> LandingConflict:
    """Return the conflict of a path that isn't what it was a moment ago."""
    why = "you changed it just now, or a folder that it is in"
    return LandingConflict((PathReason(shown_name(path), why),))


def _take(step: PathChange, parent: int, name: str, stage: int, slot: str) -> None:
    if step.after and is_folder(step.after):
        if step.before is None:
            os.mkdir(name, 0o700, dir_fd=parent)
        os.chmod(name, step.after.mode, dir_fd=parent)
    elif step.after:
        _rename(stage, slot, parent, name, _EXCHANGE if step.before else _NO_REPLACE)
    else:
        try:
            _rename(parent, name, stage, slot, _NO_REPLACE)
        except OSError as error:  # a folder of a container's image can only be removed
            if error.errno != errno.EXDEV:
                raise
            os.rmdir(name, dir_fd=parent)


def _rename(source: int, name: str, target: int, new_name: str, how: int) -> None:
    """Move a name, or exchange two, in one step; raises `OSError`."""
    old, new = os.fsencode(name), os.fsencode(new_name)
    if getattr(libc(), _CALL)(source, old, target, new, how):
        number = ctypes.get_errno()
        cant = "the file system can't exchange two files in one step (RENAME_EXCHANGE)"
        raise OSError(number, cant if number == errno.EINVAL else os.strerror(number), new_name)


def sync(folder: Path) -> None:
    """Make everything on a folder's file system durable."""
    file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if sys.platform != "linux":
            os.sync()
        elif libc().syncfs(file):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(folder))
    finally:
        os.close(file)
