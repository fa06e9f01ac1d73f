"""The ledger of a layer: which tool call changed which path, and what was there before.

The child writes it after each call, a line for each path, so that whatever ends the child leaves
all that it had done. What a call was killed over is added by the parent, with no call to name.
"""

import os
import stat
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from outrider.protocol import jsonl
from outrider.protocol.data import as_object
from outrider.records.runs import write_all
from outrider.workspaces.layers.copying import COPY, top_of, walk
from outrider.workspaces.layers.versions import (
    Contents,
    PathChange,
    attribute,
    is_folder,
    is_whiteout,
    open_new,
    read_change,
    recorded,
    version_at,
)
from outrider.workspaces.names import shown_name, unescaped
from outrider.workspaces.path_guard import guarded_part
from outrider.workspaces.place import MAX_CONTENT_BYTES

Mark = tuple[int, ...]  # what changes in a path's status when somebody changes what is there
SIZE = 2  # where a file's mark has its size; other marks are shorter
Scan = Mapping[str, Mark]
_OPAQUE = "user.overlay.opaque"
LEDGER, FIRST, CONTENTS = "ledger.jsonl", "first.json", "contents"


@dataclass(slots=True)
class Ledger:
    """What the ledger of a layer says."""

    folder: str = ""
    started: int = 0
    most: int = 0  # how many bytes the layer may hold
    entries: dict[str, PathChange] = field(default_factory=dict[str, PathChange])

    def add(self, change: PathChange) -> None:
        """Add what a call did; what was there before the first one counts."""
        first = self.entries.get(change.path, change)
        calls = tuple(dict.fromkeys((*first.calls, *change.calls)))
        self.entries[change.path] = replace(first, calls=calls)


def begin_ledger(layer: Path, folder: Path, most: int) -> None:
    """Make a layer's folder and begin its ledger; before the layer is mounted or copied."""
    layer.mkdir(mode=0o700, exist_ok=True)
    begun = {"folder": shown_name(str(folder)), "started": time.time_ns(), "most": most}
    _append(layer, [begun])


def read_ledger(layer: Path) -> Ledger:
    """Return what a layer's ledger says; a line that was cut when its writer was killed is none."""
    ledger = Ledger()
    for line in (layer / LEDGER).read_bytes().split(b"\n"):
        with suppress(ValueError):
            said = as_object(jsonl.decode(line))
            if "path" in said:
                ledger.add(read_change(said))
            elif "folder" in said:
                ledger.folder = unescaped(said["folder"])
                ledger.started, ledger.most = said["started"], said["most"]
    return ledger


def _append(layer: Path, lines: list[dict[str, Any]]) -> None:
    with open_new(f"{layer}/{LEDGER}", os.O_APPEND) as file:
        # First the end of a line that may have been cut.
        write_all(file.fileno(), b"\n" + b"".join(jsonl.encode(one) + b"\n" for one in lines))


class LayerAudit:
    """Records what each call of a tool changes in a layer. Only one process may have one."""

    def __init__(self, folder: Path, layer: Path) -> None:
        """`folder` leads to the user's own files, `layer` to the layer's folder."""
        self._folder, self._layer, self._top = folder, layer, top_of(layer)
        self._contents = Contents(layer / CONTENTS)
        self._ledger = read_ledger(layer)
        self._is_copy = self._top.name == COPY
        self._seen: Scan = self._first() if self._is_copy else {}
        self._before = self._seen
        self._lock = threading.Lock()  # calls of one turn end at the same time

    def _first(self) -> Scan:
        """Return how the copy was before anything was done in it."""
        path = self._layer / FIRST
        with suppress(FileNotFoundError):
            marks = as_object(jsonl.decode(path.read_bytes()))
            return {unescaped(name): tuple(mark) for name, mark in marks.items()}
        found = _scan(self._top)
        named = {shown_name(name): mark for name, mark in found.items()}
        path.with_suffix(".new").write_bytes(jsonl.encode(named))
        path.with_suffix(".new").rename(path)
        return found

    def after_call(self, call: str | None) -> int:
        """Record what has changed since the last time; None for what no call is known for.

        Returns how many bytes are in the layer that the child has written.
        """
        with self._lock:
            now = _scan(self._top)
            found = _touched(self._folder, self._seen, now, is_copy=self._is_copy)
            self._seen = now
            changes = [*self._changes(call, sorted(set(map(_told, found))))]
            if changes:
                _append(self._layer, recorded(changes))
            # Of a copy, most files are as they were.
            own = (mark for path, mark in now.items() if self._before.get(path) != mark)
            return sum(mark[SIZE] for mark in own if len(mark) > SIZE)

    def _changes(self, call: str | None, paths: list[str]) -> Iterator[PathChange]:
        calls = () if call is None else (call,)
        for path in paths:
            known = self._ledger.entries.get(path)
            change = replace(known or self._first_change(path), calls=calls)
            if calls or not (known or self._is_users(change)):
                self._ledger.add(change)
                yield change

    def _is_users(self, change: PathChange) -> bool:
        """Whether it is the user who made a difference: in a folder that the child has too."""
        mark = self._seen.get(change.path)
        if mark is None:
            return change.uncertain and not self._is_copy
        return stat.S_ISDIR(mark[0]) and is_folder(change.before)

    def _first_change(self, path: str) -> PathChange:
        """Return what the user has at a path that was changed, and keep what may be merged."""
        status = None
        with suppress(OSError):
            status = os.lstat(self._folder / path)
        if status is None or guarded_part(path.split("/")):
            return PathChange(path)
        is_file = stat.S_ISREG(status.st_mode) and status.st_size <= MAX_CONTENT_BYTES
        is_merged = is_file and os.path.isfile(self._top / path)
        before = (self._contents.keep if is_merged else version_at)(self._folder, path)
        # Of a file that is replaced the child may go on to see the old one.
        is_late = status.st_ctime_ns > self._ledger.started and not stat.S_ISDIR(status.st_mode)
        return PathChange(path, before, uncertain=is_late)


def _told(path: str) -> str:
    """Return a path, or the folder that guards it: what changes in there isn't told apart."""
    parts = path.split("/")
    depth = next((n for n, part in enumerate(parts, 1) if guarded_part([part])), len(parts))
    return "/".join(parts[:depth])


def _scan(top: Path) -> dict[str, Mark]:
    """Return all that is in a folder, at any depth, each with its mark."""
    return {path: _mark(top, path, status) for path, status in walk(top)}


def _mark(top: Path, path: str, status: os.stat_result) -> Mark:
    if stat.S_ISDIR(status.st_mode):  # what is in it has marks of its own
        return status.st_mode, attribute(f"{top}/{path}", _OPAQUE) == b"y"
    whole = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    # All removed paths may share one inode, whose times change with each.
    return (status.st_mode,) if is_whiteout(status) else (status.st_mode, *whole)


def _touched(lower: Path, before: Scan, now: Scan, *, is_copy: bool) -> Iterator[str]:
    """Yield the paths that differ since the scan `before`, and those that went with them."""
    for path in (path for path in {**before, **now} if before.get(path) != now.get(path)):
        mark = now.get(path)
        if is_copy or mark is None:
            yield path
            continue
        has_folder = stat.S_ISDIR(mark[0])
        below = _folder_mode(lower, path)
        if not has_folder or below is None or below != stat.S_IMODE(mark[0]):
            yield path
        if below is not None and (not has_folder or mark[1]):
            yield from (gone for gone, _ in walk(lower, path) if gone not in now)


def _folder_mode(lower: Path, path: str) -> int | None:
    with suppress(OSError):
        status = os.lstat(f"{lower}/{path}")
        return stat.S_IMODE(status.st_mode) if stat.S_ISDIR(status.st_mode) else None
    return None
