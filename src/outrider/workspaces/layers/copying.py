"""Where a layer has the child's files: an overlay's upper folder, or a copy of the folder."""

import fcntl
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

UPPER, COPY = "upper", "copy"
MAX_FILES = 100_000
MAX_BYTES = 2 << 30
_CLONE = 0x40049409  # `FICLONE`: have one file share the blocks of another, until either is changed


def top_of(layer: Path) -> Path:
    """Return the folder in a layer that has the child's files."""
    return layer / (COPY if os.path.isdir(layer / COPY) else UPPER)


def walk(top: Path | str, below: str = "") -> Iterator[tuple[str, os.stat_result]]:
    """Yield all paths below one of a folder's, with their status; no link is followed."""
    folders = [f"{below}/" if below else ""]
    while folders:
        folder = folders.pop()
        with suppress(OSError), os.scandir(os.path.join(top, folder)) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):
                    status = entry.stat(follow_symlinks=False)
                    yield folder + entry.name, status
                    if stat.S_ISDIR(status.st_mode):
                        folders.append(f"{folder}{entry.name}/")


def copy_folder(folder: str, layer: str) -> str:
    """Copy a folder into a layer, and return where; raises `OSError` where it is too large."""
    target = Path(layer, COPY)
    _check_size(folder)
    target.mkdir(0o700)
    folders = [(folder, str(target))]
    for path, status in walk(folder):
        source, copied = f"{folder}/{path}", f"{target}/{path}"
        if stat.S_ISDIR(status.st_mode):
            os.mkdir(copied, 0o700)
            folders.append((source, copied))
        elif stat.S_ISLNK(status.st_mode):
            os.symlink(os.readlink(source), copied)
        elif stat.S_ISREG(status.st_mode):
            _copy_file(source, copied)
    # At last, and the innermost first: what is put into a folder changes its time.
    for source, copied in reversed(folders):
        with suppress(OSError):
            shutil.copystat(source, copied)
    return str(target)


def _check_size(folder: str) -> None:
    count = size = 0
    for _, status in walk(folder):
        count, size = count + 1, size + status.st_size
        if count > MAX_FILES or size > MAX_BYTES:
            most = f"{MAX_FILES:,} files or {MAX_BYTES >> 30} GiB"
            raise OSError(f"{folder} has more than {most}, too much to copy")


def _copy_file(source: str, copied: str) -> None:
    try:
        with open(source, "rb") as old, open(copied, "xb") as new:
            try:
                fcntl.ioctl(new.fileno(), _CLONE, old.fileno())
            except OSError:  # on most file systems
                shutil.copyfileobj(old, new, 1 << 20)
        shutil.copystat(source, copied)
    except PermissionError:  # what the user can't read, the child can't either
        with suppress(FileNotFoundError):
            os.unlink(copied)
