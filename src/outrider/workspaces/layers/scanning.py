"""Which paths of a layer differ from the folder below it, from what the kernel left there.

An overlay's upper folder has what was written, and marks for what was removed. A copy has all
files, and is compared with how it was at first.
"""

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from outrider.workspaces.layers.versions import attribute, is_whiteout

UPPER, COPY = "upper", "copy"
_OPAQUE = "user.overlay.opaque"
Mark = tuple[int, ...]
"""What changes in a path's status when somebody changes what is there."""
SIZE = 2
"""Where a file's mark has its size; other marks are shorter."""
Scan = Mapping[str, Mark]


def top_of(layer: Path) -> Path:
    """Return the folder in a layer that has the child's files."""
    return layer / (COPY if os.path.isdir(layer / COPY) else UPPER)


def scan(top: Path) -> dict[str, Mark]:
    """Return all that is in a folder, at any depth, each with its mark."""
    return {path: _mark(top, path, status) for path, status in walk(top)}


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


def _mark(top: Path, path: str, status: os.stat_result) -> Mark:
    if stat.S_ISDIR(status.st_mode):  # what is in it has marks of its own
        return status.st_mode, attribute(f"{top}/{path}", _OPAQUE) == b"y"
    whole = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    # All removed paths may share one inode, whose times change with each.
    return (status.st_mode,) if is_whiteout(status) else (status.st_mode, *whole)


def touched(lower: Path, before: Scan, now: Scan, *, is_copy: bool) -> Iterator[str]:
    """Yield the paths that differ since the scan `before`, and those that went with them."""
    for path in (path for path in {**before, **now} if before.get(path) != now.get(path)):
        mark = now.get(path)
        if is_copy or mark is None:
            yield path
            continue
        is_folder = stat.S_ISDIR(mark[0])
        below = _folder_mode(lower, path)
        if not is_folder or below is None or below != stat.S_IMODE(mark[0]):
            yield path
        if below is not None and (not is_folder or mark[1]):
            yield from (gone for gone, _ in walk(lower, path) if gone not in now)


def _folder_mode(lower: Path, path: str) -> int | None:
    with suppress(OSError):
        status = os.lstat(f"{lower}/{path}")
        return stat.S_IMODE(status.st_mode) if stat.S_ISDIR(status.st_mode) else None
    return None
