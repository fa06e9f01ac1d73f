"""The ledger of a layer: which tool call changed which path, and what was there before.

The child writes it after each call, a line for each path, so that whatever ends the child leaves
all that it had done. What a call was killed over is added by the parent, with no call to name.
"""

import os
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from outrider.protocol import jsonl
from outrider.protocol.data import as_object
from outrider.records.runs import write_all
from outrider.workspaces.layers.scanning import SIZE, Scan, scan, top_of, touched
from outrider.workspaces.layers.versions import (
    Change,
    Contents,
    is_folder,
    open_new,
    read_change,
    recorded,
    version_at,
)
from outrider.workspaces.names import shown_name, unescaped
from outrider.workspaces.path_guard import guarded_part
from outrider.workspaces.place import MAX_CONTENT_BYTES

LEDGER, FIRST, CONTENTS = "ledger.jsonl", "first.json", "contents"


@dataclass(slots=True)
class Ledger:
    """What the ledger of a layer says."""

    folder: str = ""
    started: int = 0
    most: int = 0
    """How many bytes the layer may hold."""
    entries: dict[str, Change] = field(default_factory=dict[str, Change])

    def add(self, change: Change) -> None:
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
        self._is_copy = self._top.name == "copy"
        self._seen: Scan = self._first() if self._is_copy else {}
        self._before = self._seen
        self._lock = threading.Lock()  # calls of one turn end at the same time

    def _first(self) -> Scan:
        """Return how the copy was before anything was done in it."""
        path = self._layer / FIRST
        with suppress(FileNotFoundError):
            marks = as_object(jsonl.decode(path.read_bytes()))
            return {unescaped(name): tuple(mark) for name, mark in marks.items()}
        found = scan(self._top)
        named = {shown_name(name): mark for name, mark in found.items()}
        path.with_suffix(".new").write_bytes(jsonl.encode(named))
        path.with_suffix(".new").rename(path)
        return found

    def after_call(self, call: str | None) -> int:
        """Record what has changed since the last time; None for what no call is known for.

        Returns how many bytes are in the layer that the child has written.
        """
        with self._lock:
            now = scan(self._top)
            found = touched(self._folder, self._seen, now, is_copy=self._is_copy)
            self._seen = now
            changes = [*self._changes(call, sorted(set(map(_told, found))))]
            if changes:
                _append(self._layer, recorded(changes))
            # Of a copy, most files are as they were.
            own = (mark for path, mark in now.items() if self._before.get(path) != mark)
            return sum(mark[SIZE] for mark in own if len(mark) > SIZE)

    def _changes(self, call: str | None, paths: list[str]) -> Iterator[Change]:
        calls = () if call is None else (call,)
        for path in paths:
            known = self._ledger.entries.get(path)
            change = replace(known or self._first_change(path), calls=calls)
            if calls or not (known or self._is_users(change)):
                self._ledger.add(change)
                yield change

    def _is_users(self, change: Change) -> bool:
        """Whether it is the user who made a difference: in a folder that the child has too."""
        mark = self._seen.get(change.path)
        if mark is None:
            return change.uncertain and not self._is_copy
        return stat.S_ISDIR(mark[0]) and is_folder(change.before)

    def _first_change(self, path: str) -> Change:
        """Return what the user has at a path that was changed, and keep what may be merged."""
        status = None
        with suppress(OSError):
            status = os.lstat(self._folder / path)
        if status is None or guarded_part(path.split("/")):
            return Change(path)
        is_file = stat.S_ISREG(status.st_mode) and status.st_size <= MAX_CONTENT_BYTES
        is_merged = is_file and os.path.isfile(self._top / path)
        before = (self._contents.keep if is_merged else version_at)(self._folder, path)
        # Of a file that is replaced the child may go on to see the old one.
        is_late = status.st_ctime_ns > self._ledger.started and not stat.S_ISDIR(status.st_mode)
        return Change(path, before, uncertain=is_late)


def _told(path: str) -> str:
    """Return a path, or the folder that guards it: what changes in there isn't told apart."""
    parts = path.split("/")
    depth = next((n for n, part in enumerate(parts, 1) if guarded_part([part])), len(parts))
    return "/".join(parts[:depth])
