"""What is at a path at one moment, found without following a link, and kept to be put back.

A `PathChange` is a path with two of its versions. What a child did, what a landing does and what
an undo takes back are all told in these, and recorded in one form.
"""

import errno
import hashlib
import os
import stat
from collections.abc import Generator, Iterable
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from io import FileIO
from pathlib import Path
from typing import Any

from outrider.protocol.changes import PathReason
from outrider.protocol.data import from_json, frozen, to_json
from outrider.protocol.envelope import ToolCode, ToolFault
from outrider.records.runs import write_all
from outrider.workspaces.names import shown_name, unescaped
from outrider.workspaces.opening import READ, open_parent
from outrider.workspaces.place import Place

WHITEOUT = "user.overlay.whiteout"
_KINDS = {stat.S_IFIFO: "pipe", stat.S_IFSOCK: "socket"}
_CHUNK = 1 << 18


@frozen
class Version:
    """A file, a link or a folder as it was; anything else is known by its kind alone."""

    kind: str
    """`file`, `link`, `folder`; `setuid`, `device`, `pipe`, `socket`, `unreadable`, `large`."""
    mode: int = 0
    hash: str = ""
    size: int = 0
    target: str = ""  # where a link leads, as `shown_name` writes it


@frozen
class PathChange:
    """One path with what is there before and after; None is nothing."""

    path: str
    before: Version | None = None
    after: Version | None = None
    uncertain: bool = False
    """Whether the user wrote it too while the child ran: nobody knows which one the child saw."""
    calls: tuple[str, ...] = ()  # the tool calls that made it

    @property
    def is_of_folder(self) -> bool:
        """Whether nothing but a folder comes, goes or changes its mode."""
        return all(one is None or is_folder(one) for one in (self.before, self.after))

    @property
    def undone(self) -> "PathChange":
        """The change that takes this one back."""
        return PathChange(self.path, self.after, self.before)

    def conflict(self, why: str) -> PathReason:
        return PathReason(shown_name(self.path), why)


def recorded(changes: Iterable[PathChange]) -> list[dict[str, Any]]:
    """Return changes as JSON."""
    return [to_json(replace(one, path=shown_name(one.path))) for one in changes]


def read_change(data: Any) -> PathChange:
    """Return a change that was recorded; raises `ValueError`."""
    read = from_json(PathChange, data)
    return replace(read, path=unescaped(read.path))


def ancestors(paths: Iterable[str]) -> set[str]:
    """Return all folders that these paths are in."""
    found = set[str]()
    for path in paths:
        while (path := path.rpartition("/")[0]) and path not in found:
            found.add(path)
    return found


def version_at(root: str | Path, path: str) -> Version | None:
    """Return what is at a path below a folder, None where there is nothing, as behind a link."""
    # A folder that is held open may be named by a link to it.
    with suppress(OSError), parent_of(f"{root}/.", path) as (parent, name):
        return version_in(parent, name)
    return None


def version_in(folder: int | None, name: str) -> Version | None:
    """Return what has this name in an open folder."""
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        mode = status.st_mode & 0o777
        if stat.S_ISLNK(status.st_mode):
            target = os.readlink(name, dir_fd=folder)
            digest = hashlib.sha256(os.fsencode(target)).hexdigest()
            return Version("link", 0, digest, len(target), shown_name(target))
        if stat.S_ISDIR(status.st_mode):  # one that we make has to be open to us
            return Version("folder", mode | 0o700)
        if is_whiteout(status):
            return None
        if not stat.S_ISREG(status.st_mode):
            return Version(_KINDS.get(stat.S_IFMT(status.st_mode), "device"))
        if status.st_mode & (stat.S_ISUID | stat.S_ISGID):
            return Version("setuid", mode)
        with open(os.open(name, READ, dir_fd=folder), "rb") as file:
            if not status.st_size and attribute(file.fileno(), WHITEOUT) is not None:
                return None
            size, digest = os.fstat(file.fileno()).st_size, hashlib.file_digest(file, "sha256")
        return Version("file", mode, digest.hexdigest(), size)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        return Version("unreadable")


def is_folder(version: Version | None) -> bool:
    return version is not None and version.kind == "folder"


def is_whiteout(status: os.stat_result) -> bool:
    """Whether this is how an overlay says that what is below it is gone."""
    return stat.S_ISCHR(status.st_mode) and status.st_rdev == 0


def attribute(file: str | int, name: str) -> bytes | None:
    """Return an extended attribute of what is at a path, or of an open file; None for none."""
    with suppress(OSError, AttributeError):
        return os.getxattr(file, name, follow_symlinks=isinstance(file, int))
    return None


@contextmanager
def parent_of(root: str, path: str) -> Generator[tuple[int, str]]:
    """Hold the folder open that a path is in; raises `OSError`. No link on the way is followed."""
    place = Place(root, tuple(path.split("/")), shown_name(path))
    with ExitStack() as held:
        try:
            parent = held.enter_context(open_parent(place))
        except ToolFault as fault:
            number = errno.ENOENT if fault.code == int(ToolCode.NOT_FOUND) else errno.EACCES
            raise OSError(number, fault.message) from None
        yield parent, place.parts[-1]


@frozen
class Contents:
    """A folder of contents by their hash."""

    folder: Path

    def path(self, version: Version) -> Path:
        """Return where the content of a version is, if it is kept."""
        return self.folder / version.hash

    def has(self, version: Version) -> bool:
        """Whether there is what it takes to make a version again, but for folders."""
        return version.kind == "link" or (version.kind == "file" and self.path(version).exists())

    def keep(self, root: str | Path, path: str) -> Version | None:
        """Keep what is at a path below `root`, and return just what was kept."""
        found = version_at(root, path)
        if found is None or found.kind != "file" or self.has(found):
            return found
        with parent_of(f"{root}/.", path) as (parent, name):
            source = os.open(name, READ, dir_fd=parent)
        with open(source, "rb"), self._new() as file:
            copy_data(source, file.fileno())
        return self._kept(found.mode)

    def add(self, content: bytes, mode: int) -> Version:
        with self._new() as file:
            write_all(file.fileno(), content)
        return self._kept(mode)

    def _new(self) -> FileIO:
        self.folder.mkdir(mode=0o700, exist_ok=True)
        return open_new(f"{self.folder}/new", os.O_TRUNC)

    def _kept(self, mode: int) -> Version:
        kept = version_at(self.folder, "new")  # not what it was copied from: that may change
        assert kept is not None, "it was just made"
        os.replace(f"{self.folder}/new", self.path(kept))
        return Version("file", mode, kept.hash, kept.size)

    def put(self, version: Version, folder: int | None, name: str) -> None:
        """Make a file or a link in an open folder; raises `OSError` where it isn't that."""
        if version.kind == "link":
            os.symlink(unescaped(version.target), name, dir_fd=folder)
        else:
            with open(self.path(version), "rb") as source, open_new(name, os.O_EXCL, folder) as new:
                copy_data(source.fileno(), new.fileno())
                os.fchmod(new.fileno(), version.mode)
        if version_in(folder, name) != version:
            raise OSError(f"{shown_name(name)} isn't what was kept")


def open_new(path: str, how: int, folder: int | None = None) -> FileIO:
    """Return a file of our own, opened for writing; a link isn't followed."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | how
    return open(os.open(path, flags, 0o600, dir_fd=folder), "wb", 0)


def copy_data(source: int, target: int) -> None:
    """Copy a file's content; what is only zeros becomes a hole."""
    while chunk := os.read(source, _CHUNK):
        if chunk.strip(b"\0"):
            write_all(target, chunk)
        else:
            os.lseek(target, len(chunk), os.SEEK_CUR)
    os.ftruncate(target, os.lseek(target, 0, os.SEEK_CUR))
