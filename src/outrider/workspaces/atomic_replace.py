"""Guarantees that a file being written holds its old content or the new one, and nothing else.

The new content goes into a hidden file beside the old one, is made durable, and takes its place
in one step (atomic replace). A process that is killed before that step leaves the hidden file
behind; the next write into the folder removes it.
"""

import fcntl
import hashlib
import os
import stat
import threading
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress

from outrider.processes.threads import raise_if_stopped
from outrider.protocol.envelope import ToolCode, ToolFault
from outrider.workspaces.opening import READ, faults_about, open_listing, open_parent, open_plain
from outrider.workspaces.place import (
    MAX_CONTENT_BYTES,
    TEMPORARY_PREFIX,
    FileVersion,
    Place,
    Rewrite,
)

_MAKE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_SECONDS = 5
# Two calls of one turn may change the same file: one after the other, or a change would be lost.
_LOCKS = tuple(threading.Lock() for _ in range(64))


def replace(
    place: Place, rewrite: Rewrite, stop: threading.Event, *, make_folders: bool = False
) -> tuple[FileVersion | None, str]:
    """Replace a file's content by what `rewrite` returns, in one step, keeping mode and owner.

    Returns what the file held before, None where there was none, and the new SHA-256.
    """
    lock = _LOCKS[hash(place.path) % len(_LOCKS)]
    with faults_about(place), lock, open_parent(place, make=make_folders) as folder:
        before, status = _existing(folder, place) or (None, None)
        content = rewrite(before)
        _remove_stale(folder)
        with _temporary(folder, 0o666 if status is None else 0o600) as (temporary, file):
            _write_durably(file, content, status)
            raise_if_stopped(stop)
            _refuse_changed(folder, place, status)
            os.rename(temporary, place.parts[-1], src_dir_fd=folder, dst_dir_fd=folder)
        # A folder that may be written but not listed can't be synced.
        with suppress(PermissionError), open_listing(folder) as listing:
            os.fsync(listing)
    return before, hashlib.sha256(content).hexdigest()


def _existing(folder: int, place: Place) -> tuple[FileVersion, os.stat_result] | None:
    try:
        file = open_plain(folder, place)
    except FileNotFoundError:
        return None
    with open(file, "rb") as opened:
        status = os.fstat(file)
        if not status.st_mode & 0o222:
            mode = f"{stat.S_IMODE(status.st_mode):04o}"
            message = f"{place.shown} is read-only (mode {mode}): nothing was changed"
            raise ToolFault(ToolCode.DENIED, message)
        if status.st_size > MAX_CONTENT_BYTES:
            content, digest = None, hashlib.file_digest(opened, "sha256")
        else:
            content = opened.read()
            digest = hashlib.sha256(content)
    return FileVersion(digest.hexdigest(), status.st_size, content), status


@contextmanager
def _temporary(folder: int, mode: int) -> Generator[tuple[str, int], None, None]:
    """Hold a new hidden file open and locked; it is gone after, or has become the real one."""
    name = f"{TEMPORARY_PREFIX}{os.urandom(8).hex()}"
    file = os.open(name, _MAKE, mode, dir_fd=folder)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield name, file
    finally:
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=folder)
        os.close(file)


def _write_durably(file: int, content: bytes, old: os.stat_result | None) -> None:
    with open(file, "wb", closefd=False) as opened:
        opened.write(content)
    if old is not None:
        with suppress(OSError):
            os.fchown(file, old.st_uid, old.st_gid)
        os.fchmod(file, old.st_mode & 0o777)
    os.fsync(file)


def _refuse_changed(folder: int, place: Place, old: os.stat_result | None) -> None:
    """Raise a fault where another process changed the file since it was read."""
    now = None
    with suppress(FileNotFoundError):
        now = os.stat(place.parts[-1], dir_fd=folder, follow_symlinks=False)
    if _version(now) != _version(old):
        message = f"{place.shown} was changed by another process during the call: read it again"
        raise ToolFault(ToolCode.CONFLICT, message)


def _version(status: os.stat_result | None) -> tuple[int, ...] | None:
    return status and (status.st_ino, status.st_dev, status.st_size, status.st_mtime_ns)


def _remove_stale(folder: int) -> None:
    """Remove the hidden files of processes that were killed: those that no process has locked."""
    names: list[str] = []
    with suppress(OSError), open_listing(folder) as listing, os.scandir(listing) as entries:
        names += [entry.name for entry in entries if entry.name.startswith(TEMPORARY_PREFIX)]
    for name in names:
        with suppress(OSError), ExitStack() as stack:
            file = os.open(name, READ, dir_fd=folder)
            stack.callback(os.close, file)
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # A new one may not be locked yet.
            if time.time() - os.fstat(file).st_mtime > _NEW_SECONDS:
                os.unlink(name, dir_fd=folder)
