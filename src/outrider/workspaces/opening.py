"""Guarantees that what is opened is the plain file or folder that was decided on, and nothing else.

Every folder on the way is opened below the one before (`openat`), following no link: a link put
there after the decision ends the call (TOCTOU). Devices, pipes and sockets are refused before and
after opening, so that nothing can hang or flood a tool.
"""

import difflib
import errno
import fcntl
import heapq
import itertools
import os
import stat
import sys
from collections.abc import Generator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from outrider.protocol.envelope import ToolCode, ToolFault
from outrider.workspaces.names import shown_name
from outrider.workspaces.place import TEMPORARY_PREFIX, FolderEntry, Place

READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_LIST = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# A folder that may be passed through but not listed is still passed through.
_PASS = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_ERRNOS_OF_CODE = {
    ToolCode.NOT_FOUND: (errno.ENOENT, errno.ENOTDIR),
    ToolCode.DENIED: (errno.EACCES, errno.EPERM, errno.EROFS, errno.ELOOP),
    ToolCode.BAD_PARAMETER: (errno.ENAMETOOLONG, errno.EINVAL, errno.EISDIR, errno.EILSEQ),
    ToolCode.TOO_LARGE: (errno.ENXIO, errno.EFBIG),
    ToolCode.NOT_AVAILABLE: (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EMFILE),
}
_NOT_PLAIN = {
    "folder": (ToolCode.BAD_PARAMETER, "is a folder: use ls to list it, or name a file"),
    "link": (ToolCode.DENIED, "is a link that leads nowhere, or became a link during the call"),
}
_SPECIAL = (ToolCode.TOO_LARGE, "is a device, pipe or socket: only plain files are opened")
# How many folders on the way to a file are kept open.
_MAX_WAY = 32
_KINDS = {
    stat.S_IFDIR: "folder",
    stat.S_IFREG: "file",
    stat.S_IFLNK: "link",
    stat.S_IFIFO: "pipe",
    stat.S_IFSOCK: "socket",
    stat.S_IFBLK: "device",
    stat.S_IFCHR: "device",
}


@contextmanager
def open_file(place: Place) -> Generator[BinaryIO, None, None]:
    """Hold a plain file open for reading."""
    with faults_about(place):
        with open_parent(place) as folder:
            try:
                file = open_plain(folder, place)
            except OSError as error:
                raise _why_not(folder, place.parts[-1], place, error) from None
        with open(file, "rb") as opened:
            yield opened


def read_kept(path: Path) -> bytes:
    """Return a file of a folder that commands write to as well; a link there isn't followed."""
    with open(os.open(path, READ), "rb") as file:
        return file.read()


def keep_new(path: Path, content: bytes) -> None:
    """Write a new file in such a folder; raises `OSError` where something has its name."""
    with open(path, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(content)


@contextmanager
def open_folder(place: Place) -> Generator["OpenFolder", None, None]:
    """Hold a folder open for a program to run in."""
    # The kernel's files may have no end.
    excluded = ("proc", "sys", "dev") if place.path == "/" else ()
    with faults_about(place), _open_way(place) as folder, open_listing(folder) as listing:
        path = f"/proc/self/fd/{listing}"
        if sys.platform == "darwin":
            path = os.fsdecode(fcntl.fcntl(listing, fcntl.F_GETPATH, bytes(1_024)).rstrip(b"\0"))
        with closing(OpenFolder(listing, path, excluded)) as opened:
            yield opened


class OpenFolder:
    """A folder that is held open for a program to run in, and the plain files below it.

    A program that walks a tree opens by paths, and a link that is put in the way leads it out of
    the tree. What it reports is real only if it is found here too, step by step, following no
    link. `size` and `open` are quick for paths in order.
    """

    def __init__(self, folder: int, path: str, excluded: tuple[str, ...]) -> None:
        self.path = path  # leads to this folder, even if another one has taken its name since
        self.is_repository = os.path.lexists(f"{path}/.git")
        """Whether it is the top of a git repository: ignore files above it don't apply."""
        self.excluded = excluded  # names in it that no program may enter
        self._way: list[tuple[str, int]] = [("", folder)]

    def size(self, path: str) -> int | None:
        """Return the size of a plain file, or None where there is none."""
        try:
            parent, name = self._reach(path)
            status = os.stat(name, dir_fd=parent, follow_symlinks=False)
        except OSError:
            return None
        return status.st_size if stat.S_ISREG(status.st_mode) else None

    def open(self, path: str) -> BinaryIO | None:
        """Return a plain file, opened for reading, or None where it can't be."""
        try:
            parent, name = self._reach(path)
            return open(open_plain(parent, Place("", (name,), path)), "rb")
        except (OSError, ToolFault):
            return None

    def close(self) -> None:
        """Let go of all folders below the first."""
        while len(self._way) > 1:
            os.close(self._way.pop()[1])

    def _reach(self, path: str) -> tuple[int, str]:
        """Return the folder that a file is in, which stays open for the next one, and its name."""
        folder, slash, name = path.rpartition("/")
        folder += slash
        while not folder.startswith(self._way[-1][0]):
            os.close(self._way.pop()[1])
        way, parent = self._way[-1]
        for part in folder[len(way) :].split("/")[:-1]:
            parent = os.open(part, _PASS, dir_fd=parent)
            way = f"{way}{part}/"
            if len(self._way) > _MAX_WAY:
                os.close(self._way.pop()[1])
            self._way.append((way, parent))
        return parent, name


def list_folder(place: Place, limit: int) -> tuple[list[FolderEntry], int]:
    """Return the first entries of a folder, folders before all else, and how many it has."""
    with (
        faults_about(place),
        _open_way(place) as folder,
        open_listing(folder) as listing,
        os.scandir(listing) as found,
    ):
        counter = itertools.count()
        named = (entry for entry in found if not entry.name.startswith(TEMPORARY_PREFIX))
        counted = (entry for entry, _ in zip(named, counter, strict=False))
        folders_first = heapq.nsmallest(
            limit, counted, key=lambda entry: (not entry.is_dir(follow_symlinks=False), entry.name)
        )
        return [_entry(listing, entry.name) for entry in folders_first], next(counter)


@contextmanager
def faults_about(place: Place) -> Generator[None, None, None]:
    """Turn what the system says into a fault that names the place."""
    try:
        yield
    except OSError as error:
        raise _fault_of(error, place) from None


@contextmanager
def open_parent(place: Place, *, make: bool = False) -> Generator[int, None, None]:
    """Hold the folder open that the place is in; `make` makes it and those above it."""
    if place.is_folder or not place.parts:
        raise _not_plain("folder", place)
    with _open_way(Place(place.root, place.parts[:-1], place.shown), make=make) as folder:
        yield folder


@contextmanager
def _open_way(place: Place, *, make: bool = False) -> Generator[int, None, None]:
    """Hold a folder open, but not for listing."""
    folder = os.open(place.root, _PASS)
    try:
        for part in place.parts:
            try:
                if make:
                    with suppress(FileExistsError):
                        os.mkdir(part, dir_fd=folder)
                inner = os.open(part, _PASS, dir_fd=folder)
            except OSError as error:
                raise _why_not(folder, part, place, error) from None
            os.close(folder)
            folder = inner
        yield folder
    finally:
        os.close(folder)


@contextmanager
def open_listing(folder: int) -> Generator[int, None, None]:
    """Hold an open folder open for listing and syncing too."""
    listing = os.open(".", _LIST, dir_fd=folder)
    try:
        yield listing
    finally:
        os.close(listing)


def open_plain(folder: int, place: Place) -> int:
    """Return a plain file in an open folder, opened for reading; raises for anything else."""
    name = place.parts[-1]
    _require_plain(os.stat(name, dir_fd=folder, follow_symlinks=False), place)
    file = os.open(name, READ, dir_fd=folder)
    try:
        _require_plain(os.fstat(file), place)
    except ToolFault:
        os.close(file)
        raise
    return file


def _require_plain(status: os.stat_result, place: Place) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise _not_plain(_kind(status), place)


def _kind(status: os.stat_result) -> str:
    return _KINDS.get(stat.S_IFMT(status.st_mode), "other")


def _not_plain(kind: str, place: Place) -> ToolFault:
    code, why = _NOT_PLAIN.get(kind, _SPECIAL)
    return ToolFault(code, f"{place.shown} {why}")


def _entry(folder: int, name: str) -> FolderEntry:
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        kind = _kind(status)
        target = os.readlink(name, dir_fd=folder) if kind == "link" else None
    except OSError as error:
        return FolderEntry(name, "other", note=f"unreadable: {error.strerror}")
    return FolderEntry(name, kind, status.st_size if kind == "file" else None, target)


def _why_not(folder: int, part: str, place: Place, error: OSError) -> ToolFault:
    with suppress(OSError):
        if _kind(os.stat(part, dir_fd=folder, follow_symlinks=False)) == "link":
            return _not_plain("link", place)
        if error.errno == errno.ENOTDIR:
            message = f"{place.shown}: {shown_name(part)} is not a folder"
            return ToolFault(ToolCode.NOT_FOUND, message)
    if error.errno == errno.ENOENT:
        message = f"there is no {place.shown}{_similar(folder, part)}"
        return ToolFault(ToolCode.NOT_FOUND, message)
    return _fault_of(error, place)


def _similar(folder: int, part: str) -> str:
    """Return a hint at names in the same folder that come close, or nothing."""
    names: list[str] = []
    with suppress(OSError), open_listing(folder) as listing, os.scandir(listing) as entries:
        names = [entry.name for entry in itertools.islice(entries, 2_000)]
    close = difflib.get_close_matches(part, names, n=3, cutoff=0.6)
    return f"; near it are: {', '.join(map(shown_name, close))}" if close else ""


def _fault_of(error: OSError, place: Place) -> ToolFault:
    number = error.errno or 0
    codes = (code for code, numbers in _ERRNOS_OF_CODE.items() if number in numbers)
    return ToolFault(next(codes, ToolCode.INTERNAL), f"{place.shown}: {os.strerror(number)}")
