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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from outrider.protocol import jsonl
from outrider.protocol.data import as_object, from_json, to_json
from outrider.workspaces.layers.scanning import SIZE, Scan, scan, top_of, touched
from outrider.workspaces.layers.versions import Contents, Version, open_new, version_at, write_all
from outrider.workspaces.names import shown_name, unescaped
from outrider.workspaces.path_guard import guarded_part
from outrider.workspaces.place import MAX_CONTENT_BYTES

LEDGER, FIRST, CONTENTS = "ledger.jsonl", "first.json", "contents"


@dataclass(slots=True)
class LedgerEntry:
    """One path that was changed: what it was before, and the calls that changed it."""

    before: Version | None
    uncertain: bool = False
    """Whether the user wrote it too while the child ran: nobody knows which one the child saw."""
    calls: list[str] = field(default_factory=list[str])


@dataclass(slots=True)
class Ledger:
    """What the ledger of a layer says."""

    folder: str = ""
    started: int = 0
    most: int = 0
    """How many bytes the layer may hold."""
    entries: dict[str, LedgerEntry] = field(default_factory=dict[str, LedgerEntry])


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
            _add(ledger, as_object(jsonl.decode(line)))
    return ledger


def _add(ledger: Ledger, said: dict[str, Any]) -> None:
    if "folder" in said:
        ledger.folder = unescaped(said["folder"])
        ledger.started, ledger.most = said["started"], said["most"]
    elif "path" in said:
        before = said.get("before")
        version = from_json(Version, before) if before else None
        first = LedgerEntry(version, said.get("uncertain", False))
        entry = ledger.entries.setdefault(unescaped(said["path"]), first)
        if said["call"] is not None and said["call"] not in entry.calls:
            entry.calls.append(said["call"])


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
            if lines := list(self._lines(call, sorted(set(map(_recorded, found))))):
                _append(self._layer, lines)
            # Of a copy, most files are as they were.
            own = (mark for path, mark in now.items() if self._before.get(path) != mark)
            return sum(mark[SIZE] for mark in own if len(mark) > SIZE)

    def _lines(self, call: str | None, paths: list[str]) -> Iterator[dict[str, Any]]:
        for path in paths:
            said: dict[str, Any] = {"call": call, "path": shown_name(path)}
            if path not in self._ledger.entries:
                entry = self._entry(path)
                if call is None and self._is_users(path, entry):
                    continue
                self._ledger.entries[path] = entry
                yield {**said, "before": to_json(entry.before), "uncertain": entry.uncertain}
            elif call is not None:
                yield said

    def _is_users(self, path: str, entry: LedgerEntry) -> bool:
        """Whether it is the user who made a difference: in a folder that the child has too."""
        mark = self._seen.get(path)
        if mark is None:
            return entry.uncertain and not self._is_copy
        is_folder = stat.S_ISDIR(mark[0])
        return is_folder and entry.before is not None and entry.before.kind == "folder"

    def _entry(self, path: str) -> LedgerEntry:
        """Return what the user has at a path that was changed, and keep what may be merged."""
        if guarded_part(path.split("/")):
            return LedgerEntry(None)
        try:
            status = os.lstat(self._folder / path)
        except OSError:
            return LedgerEntry(None)
        is_file = stat.S_ISREG(status.st_mode) and status.st_size <= MAX_CONTENT_BYTES
        is_merged = is_file and os.path.isfile(self._top / path)
        before = (self._contents.keep if is_merged else version_at)(self._folder, path)
        # Of a file that is replaced the child may go on to see the old one.
        is_late = status.st_ctime_ns > self._ledger.started and not stat.S_ISDIR(status.st_mode)
        return LedgerEntry(before, is_late)


def _recorded(path: str) -> str:
    """Return a path, or the folder that guards it: what changes in there isn't told apart."""
    parts = path.split("/")
    depth = next((n for n, part in enumerate(parts, 1) if guarded_part([part])), len(parts))
    return "/".join(parts[:depth])
