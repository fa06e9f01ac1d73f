"""A copy of a folder, for where no overlay can be put over it."""

import fcntl
import os
import shutil
import stat
from contextlib import suppress
from pathlib import Path

from outrider.workspaces.layers.scanning import COPY, walk

MAX_FILES = 100_000
MAX_BYTES = 2 << 30
_CLONE = 0x40049409
"""`FICLONE`: have one file share the blocks of another, until either is changed."""


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
