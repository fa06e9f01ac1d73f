"""Guarantees that what is opened is the plain file or folder that was decided on, and nothing else.

Every folder on the way is opened below the one before, following no link: a link put there after
the decision ends the call. Devices, pipes and sockets are refused before and after opening, so
that nothing can hang or flood a tool.
"""

import contextlib
import difflib
import errno
import os
import stat
from collections.abc import Generator
from itertools import islice

from outrider.tools.files.faults import FileFault, bad, denied, fault_of, missing, unsupported
from outrider.tools.files.names import shown_name
from outrider.tools.files.paths import Place

# A folder that may be passed through but not listed is still passed through.
_PASS = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_LIST = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


@contextlib.contextmanager
def parent_folder(place: Place, *, make: bool = False) -> Generator[int, None, None]:
    """Hold open the folder that the place is in, making it and those above where `make` says so."""
    if not place.parts:
        raise bad(f"{place.shown} is a folder: name a file in it")
    with opened_folder(Place(place.root, place.parts[:-1], place.shown), make=make) as folder:
        yield folder


@contextlib.contextmanager
def opened_folder(
    place: Place, *, make: bool = False, listing: bool = False
) -> Generator[int, None, None]:
    """Hold a folder open, to list it where `listing` says so; faults where it isn't one."""
    held = contextlib.ExitStack()
    with held:
        folder = os.open(place.root, _LIST if listing and not place.parts else _PASS)
        held.callback(os.close, folder)
        for level, part in enumerate(place.parts, 1):
            flags = _LIST if listing and level == len(place.parts) else _PASS
            try:
                folder = _step(folder, part, flags, make=make)
            except OSError as error:
                raise _why_not(folder, part, place, error) from None
            held.callback(os.close, folder)
        yield folder


@contextlib.contextmanager
def opened_file(place: Place) -> Generator[int, None, None]:
    """Hold a plain file open for reading; faults for anything else."""
    with parent_folder(place) as folder:
        name = place.parts[-1]
        try:
            require_plain(os.stat(name, dir_fd=folder, follow_symlinks=False), place)
            file = os.open(name, _READ, dir_fd=folder)
        except OSError as error:
            raise _why_not(folder, name, place, error) from None
    try:
        require_plain(os.fstat(file), place)
        yield file
    finally:
        os.close(file)


def require_plain(status: os.stat_result, place: Place) -> None:
    """Fault where a path leads to anything but a plain file."""
    if stat.S_ISLNK(status.st_mode):
        raise _led_astray(place)
    if stat.S_ISDIR(status.st_mode):
        raise bad(f"{place.shown} is a folder: use ls to see what is in it, or name a file")
    if not stat.S_ISREG(status.st_mode):
        raise unsupported(f"{place.shown} is a device, pipe or socket: only plain files are opened")


def _step(folder: int, part: str, flags: int, *, make: bool) -> int:
    try:
        return os.open(part, flags, dir_fd=folder)
    except FileNotFoundError:
        if not make:
            raise
    with contextlib.suppress(FileExistsError):
        os.mkdir(part, dir_fd=folder)
    return os.open(part, flags, dir_fd=folder)


def _why_not(folder: int, part: str, place: Place, error: OSError) -> FileFault:
    """Return the fault for a name that couldn't be opened: a link put there late, or what it is."""
    with contextlib.suppress(OSError):
        status = os.stat(part, dir_fd=folder, follow_symlinks=False)
        if stat.S_ISLNK(status.st_mode):
            return _led_astray(place)
        if error.errno == errno.ENOTDIR:
            return missing(f"{place.shown}: {shown_name(part)} is not a folder")
    if error.errno == errno.ENOENT:
        return missing(f"there is no {place.shown}{_similar(folder, part)}")
    return fault_of(error, place.shown)


def _led_astray(place: Place) -> FileFault:
    return denied(f"{place.shown} is a link that leads nowhere, or became a link during the call")


def _similar(folder: int, part: str) -> str:
    """Return a hint at names in the same folder that come close, or nothing."""
    names: list[str] = []
    with contextlib.suppress(OSError):
        listing = os.open(".", _LIST, dir_fd=folder)
        try:
            with os.scandir(listing) as entries:
                names = [entry.name for entry in islice(entries, 2_000)]
        finally:
            os.close(listing)
    close = difflib.get_close_matches(part, names, n=3, cutoff=0.6)
    return f"; near it are: {', '.join(map(shown_name, close))}" if close else ""
