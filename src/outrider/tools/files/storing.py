"""Guarantees that a file which is written holds its old content or the new one, never a third.

The new content goes into a hidden file beside the old one, is made durable, and takes its place
in one step. A process that is killed before that step leaves the hidden file behind; the next
write into the folder removes it.
"""

import contextlib
import fcntl
import hashlib
import os
import secrets
import stat
import threading
from collections.abc import Callable, Generator
from dataclasses import dataclass

from outrider.protocol.envelope import ToolCode
from outrider.tools.files.faults import FileFault, denied, go_on
from outrider.tools.files.opening import parent_folder, require_plain
from outrider.tools.files.paths import Place
from outrider.tools.files.ripgrep import TEMPORARY_PREFIX

MAX_BYTES = 16 * 1024 * 1024
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_MAKE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# Two calls of one turn may change the same file: one after the other, or a change would be lost.
_LOCKS = tuple(threading.Lock() for _ in range(64))


@dataclass(frozen=True, slots=True)
class Old:
    """A file as it was: its hash, and its content where that is small enough to work on."""

    hash: str
    content: bytes | None
    status: os.stat_result


@dataclass(frozen=True, slots=True)
class Stored:
    """What was there before, and the new content's hash."""

    old: Old | None
    hash: str


def store(
    place: Place,
    make: Callable[[Old | None], bytes],
    stop: threading.Event,
    *,
    make_folders: bool,
) -> Stored:
    """Replace a file's content by what `make` makes of it, in one step, keeping its mode."""
    lock = _LOCKS[hash(place.path) % len(_LOCKS)]
    with lock, parent_folder(place, make=make_folders) as folder:
        name = place.parts[-1]
        old = _old(folder, name, place)
        content = make(old)
        with _listed(folder) as listing:
            _remove_stale(folder, listing)
            with _temporary(folder, old) as (temporary, file):
                _write_durably(file, content, old)
                go_on(stop)
                _refuse_changed(folder, name, old, place)
                os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
            if listing is not None:
                os.fsync(listing)
    return Stored(old, hashlib.sha256(content).hexdigest())


def _old(folder: int, name: str, place: Place) -> Old | None:
    try:
        require_plain(os.stat(name, dir_fd=folder, follow_symlinks=False), place)
        file = os.open(name, _READ, dir_fd=folder)
    except FileNotFoundError:
        return None
    with open(file, "rb", buffering=0) as opened:
        status = os.fstat(file)
        require_plain(status, place)
        if not status.st_mode & 0o222:
            raise denied(
                f"{place.shown} is read-only (mode {stat.S_IMODE(status.st_mode):04o}): "
                "nothing was changed"
            )
        if status.st_size > MAX_BYTES:
            return Old(hashlib.file_digest(opened, "sha256").hexdigest(), None, status)
        content = opened.readall()
    return Old(hashlib.sha256(content).hexdigest(), content, status)


@contextlib.contextmanager
def _listed(folder: int) -> Generator[int | None, None, None]:
    """Hold the folder open for listing and syncing, or None where that isn't allowed."""
    try:
        listing = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    except OSError:
        yield None
        return
    try:
        yield listing
    finally:
        os.close(listing)


@contextlib.contextmanager
def _temporary(folder: int, old: Old | None) -> Generator[tuple[str, int], None, None]:
    """Hold a new hidden file open and locked; it is gone after, or has become the real one."""
    while True:
        name = f"{TEMPORARY_PREFIX}{secrets.token_hex(8)}"
        file = os.open(name, _MAKE, 0o666 if old is None else 0o600, dir_fd=folder)
        if _is_ours(file, name, folder):
            break
        os.close(file)
    try:
        yield name, file
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=folder)
        os.close(file)


def _is_ours(file: int, name: str, folder: int) -> bool:
    """Whether the new file is locked before another process took it for one left behind."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.fstat(file), os.stat(name, dir_fd=folder))
    except (BlockingIOError, FileNotFoundError):
        return False


def _write_durably(file: int, content: bytes, old: Old | None) -> None:
    left = memoryview(content)
    while left:
        left = left[os.write(file, left) :]
    if old is not None:
        if (old.status.st_uid, old.status.st_gid) != (os.geteuid(), os.getegid()):
            with contextlib.suppress(OSError):
                os.fchown(file, old.status.st_uid, old.status.st_gid)
        os.fchmod(file, old.status.st_mode & 0o777)
    os.fsync(file)


def _refuse_changed(folder: int, name: str, old: Old | None, place: Place) -> None:
    """Fault where somebody else changed the file since it was read."""
    try:
        now = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        now = None
    if _version(now) != _version(None if old is None else old.status):
        raise FileFault(
            ToolCode.CONFLICT,
            f"{place.shown} was changed by somebody else during the call: read it again",
        )


def _version(status: os.stat_result | None) -> tuple[int, ...] | None:
    return status and (status.st_ino, status.st_dev, status.st_size, status.st_mtime_ns)


def _remove_stale(folder: int, listing: int | None) -> None:
    """Remove the hidden files of processes that were killed: those that nobody holds a lock on."""
    if listing is None:
        return
    with os.scandir(listing) as entries:
        names = [entry.name for entry in entries if entry.name.startswith(TEMPORARY_PREFIX)]
    for name in names:
        with contextlib.suppress(OSError):
            file = os.open(name, _READ, dir_fd=folder)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.unlink(name, dir_fd=folder)
            finally:
                os.close(file)
