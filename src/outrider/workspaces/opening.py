"""Guarantees that what is opened is the plain file or folder that was decided on, and nothing else.

Every folder on the way is opened below the one before (`openat`), following no link: a link put
there after the decision ends the call (TOCTOU). Devices, pipes and sockets are refused before and
after opening, so that nothing can hang or flood a tool.
"""

import contextlib
import difflib
import errno
import os
import stat
from collections.abc import Generator
from itertools import islice

from outrider.protocol.envelope import ToolCode
from outrider.workspaces.names import shown_name
from outrider.workspaces.workspace import Place, WorkspaceFault

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


@contextlib.contextmanager
def faults_about(place: Place) -> Generator[None, None, None]:
    """Turn what the system says into a fault that names the place."""
    try:
        yield
    except OSError as error:
        raise _fault_of(error, place) from None


@contextlib.contextmanager
def opened_folder(place: Place, *, make: bool = False) -> Generator[int, None, None]:
    """Hold a folder open, but not for listing; `make` makes it and those above it."""
    folder = os.open(place.root, _PASS)
    try:
        for part in place.parts:
            try:
                inner = _step(folder, part, make=make)
            except OSError as error:
                raise why_not(folder, part, place, error) from None
            os.close(folder)
            folder = inner
        yield folder
    finally:
        os.close(folder)


@contextlib.contextmanager
def listable(folder: int) -> Generator[int, None, None]:
    """Hold an open folder open for listing and syncing too."""
    listing = os.open(".", _LIST, dir_fd=folder)
    try:
        yield listing
    finally:
        os.close(listing)


@contextlib.contextmanager
def opened_parent(place: Place, *, make: bool = False) -> Generator[int, None, None]:
    """Hold the folder open that the place is in."""
    if place.is_folder or not place.parts:
        raise _is_a_folder(place)
    with opened_folder(Place(place.root, place.parts[:-1], place.shown), make=make) as folder:
        yield folder


def open_plain(folder: int, place: Place) -> int:
    """Return a plain file in an open folder, opened for reading; raises for anything else."""
    name = place.parts[-1]
    _require_plain(os.stat(name, dir_fd=folder, follow_symlinks=False), place)
    file = os.open(name, READ, dir_fd=folder)
    try:
        _require_plain(os.fstat(file), place)
    except WorkspaceFault:
        os.close(file)
        raise
    return file


def _require_plain(status: os.stat_result, place: Place) -> None:
    if stat.S_ISLNK(status.st_mode):
        raise _led_astray(place)
    if stat.S_ISDIR(status.st_mode):
        raise _is_a_folder(place)
    if not stat.S_ISREG(status.st_mode):
        message = f"{place.shown} is a device, pipe or socket: only plain files are opened"
        raise WorkspaceFault(ToolCode.TOO_LARGE, message)


def _step(folder: int, part: str, *, make: bool) -> int:
    try:
        return os.open(part, _PASS, dir_fd=folder)
    except FileNotFoundError:
        if not make:
            raise
    with contextlib.suppress(FileExistsError):
        os.mkdir(part, dir_fd=folder)
    return os.open(part, _PASS, dir_fd=folder)


def why_not(folder: int, part: str, place: Place, error: OSError) -> WorkspaceFault:
    """Return the fault for a name that couldn't be opened: a link put there late, or what it is."""
    with contextlib.suppress(OSError):
        status = os.stat(part, dir_fd=folder, follow_symlinks=False)
        if stat.S_ISLNK(status.st_mode):
            return _led_astray(place)
        if error.errno == errno.ENOTDIR:
            message = f"{place.shown}: {shown_name(part)} is not a folder"
            return WorkspaceFault(ToolCode.NOT_FOUND, message)
    if error.errno == errno.ENOENT:
        message = f"there is no {place.shown}{_similar(folder, part)}"
        return WorkspaceFault(ToolCode.NOT_FOUND, message)
    return _fault_of(error, place)


def _fault_of(error: OSError, place: Place) -> WorkspaceFault:
    number = error.errno or 0
    codes = (code for code, numbers in _ERRNOS_OF_CODE.items() if number in numbers)
    message = f"{place.shown}: {os.strerror(number)}"
    return WorkspaceFault(next(codes, ToolCode.INTERNAL), message)


def _is_a_folder(place: Place) -> WorkspaceFault:
    message = f"{place.shown} is a folder: use ls to see what is in it, or name a file"
    return WorkspaceFault(ToolCode.BAD_PARAMETER, message)


def _led_astray(place: Place) -> WorkspaceFault:
    message = f"{place.shown} is a link that leads nowhere, or became a link during the call"
    return WorkspaceFault(ToolCode.DENIED, message)


def _similar(folder: int, part: str) -> str:
    """Return a hint at names in the same folder that come close, or nothing."""
    names: list[str] = []
    with contextlib.suppress(OSError), listable(folder) as listing, os.scandir(listing) as entries:
        names = [entry.name for entry in islice(entries, 2_000)]
    close = difflib.get_close_matches(part, names, n=3, cutoff=0.6)
    return f"; near it are: {', '.join(map(shown_name, close))}" if close else ""
