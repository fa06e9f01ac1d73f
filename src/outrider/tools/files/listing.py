"""The tool `ls`: what is in a folder, as a tree to a depth, with sizes."""

import heapq
import os
import stat
import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any

from outrider.protocol.envelope import Envelope
from outrider.tools.context import ToolContext
from outrider.tools.files.faults import FileFault, answer, fault_of, go_on
from outrider.tools.files.names import shown_name
from outrider.tools.files.opening import opened_folder
from outrider.tools.files.paths import Place, locate, realm_of
from outrider.tools.files.ripgrep import is_temporary
from outrider.tools.files.sizes import shown_size
from outrider.tools.formatting import Arguments, Formatter
from outrider.tools.registry import tool

DEFAULT_ENTRIES = 500
MAX_ENTRIES = 5_000
MAX_DEPTH = 20
_KINDS = {
    stat.S_IFDIR: "folder",
    stat.S_IFREG: "file",
    stat.S_IFLNK: "link",
    stat.S_IFIFO: "pipe",
    stat.S_IFSOCK: "socket",
    stat.S_IFBLK: "device",
    stat.S_IFCHR: "device",
}


@dataclass(slots=True)
class Entry:
    """One thing in a folder; a folder that was looked into has entries of its own."""

    name: str
    kind: str
    size: int = 0
    target: str | None = None
    note: str | None = None
    entries: list["Entry"] = field(default_factory=list["Entry"])
    unlisted: int = 0
    """How many entries there was no room for."""

    def to_data(self) -> dict[str, Any]:
        """Return the entry as JSON holds it, its name on one line."""
        data: dict[str, Any] = {"name": shown_name(self.name), "kind": self.kind}
        if self.kind == "file":
            data["size"] = self.size
        if self.target is not None:
            data["target"] = shown_name(self.target)
        if self.note is not None:
            data["note"] = self.note
        if self.entries:
            data["entries"] = [entry.to_data() for entry in self.entries]
        if self.unlisted:
            data["unlisted"] = self.unlisted
        return data


def format_long(data: Any, arguments: Arguments) -> str:
    """Return the tree, one entry a line."""
    lines = [f"{data['name'].rstrip('/')}/{_remark(data)}", *_lines(data, 1)]
    if data["cut"]:
        lines.append("[not all is shown: name a folder further down, or raise the limit]")
    return "\n".join(lines)


def _lines(folder: Any, level: int) -> Iterator[str]:
    indent = "  " * level
    for entry in folder.get("entries", ()):
        yield f"{indent}{_line(entry)}"
        yield from _lines(entry, level + 1)
    if folder.get("unlisted"):
        yield f"{indent}[{folder['unlisted']:,} more]"


def _line(entry: Any) -> str:
    if entry["kind"] == "folder":
        return f"{entry['name']}/{_remark(entry)}"
    if entry["kind"] == "file":
        return f"{entry['name']}  {shown_size(entry['size'])}{_remark(entry)}"
    if "target" in entry:
        return f"{entry['name']} -> {entry['target']}{_remark(entry)}"
    return f"{entry['name']}  ({entry['kind']}){_remark(entry)}"


def _remark(entry: Any) -> str:
    return f"  [{entry['note']}]" if "note" in entry else ""


def format_short(data: Any, arguments: Arguments) -> str:
    """Return one line that says how much is in the folder."""
    return f"ls {data['name']} → {len(data.get('entries', ())) + data.get('unlisted', 0)} entries"


@tool("file:ls", name="ls", writes=False, format=Formatter(format_long, format_short))
async def ls(
    context: ToolContext,
    path: Annotated[str, {"minLength": 1}] = ".",
    depth: Annotated[int, {"minimum": 1, "maximum": MAX_DEPTH}] = 1,
    limit: Annotated[int, {"minimum": 1, "maximum": MAX_ENTRIES}] = DEFAULT_ENTRIES,
) -> Envelope:
    """List a folder with sizes, folders first, as a tree down to a depth. Hidden entries are
    included; links are not followed.

    Args:
        path: The folder.
        depth: How many levels to show.
        limit: How many entries to show.
    """
    return await answer(_ls, context, path, depth, limit)


def _ls(
    stop: threading.Event, context: ToolContext, path: str, depth: int, limit: int
) -> dict[str, Any]:
    place = locate(realm_of(context), path, folder=True)
    root = Entry(place.path, "folder")
    try:
        room = limit - _fill(place, root, limit)
    except OSError as error:
        raise fault_of(error, place.shown) from None
    cut = bool(root.unlisted)
    # Level by level, so that one deep folder doesn't take the room of all the others.
    waiting = deque(_inner(place, root, 2))
    while waiting and waiting[0][2] <= depth:
        go_on(stop)
        if room <= 0:
            cut = True
            break
        inner, entry, level = waiting.popleft()
        room -= _fill_or_note(inner, entry, room)
        cut = cut or bool(entry.unlisted)
        waiting += _inner(inner, entry, level + 1)
    return root.to_data() | {"name": place.shown, "cut": cut}


def _inner(place: Place, folder: Entry, level: int) -> list[tuple[Place, Entry, int]]:
    """Return the folders within a folder that may be looked into, and the level they are on."""
    return [
        (place.below(entry.name), entry, level)
        for entry in folder.entries
        if entry.kind == "folder" and entry.name != ".git"
    ]


def _fill_or_note(place: Place, folder: Entry, room: int) -> int:
    try:
        return _fill(place, folder, room)
    except OSError as error:
        folder.note = f"unreadable: {error.strerror}"
    except FileFault as fault:
        folder.note = f"unreadable: {fault.message}"
    return 0


def _fill(place: Place, folder: Entry, room: int) -> int:
    """Put the first entries of a folder in order into `folder`; returns how many."""
    with opened_folder(place, listing=True) as descriptor, os.scandir(descriptor) as found:
        counted = _Counted(entry for entry in found if not is_temporary(entry.name))
        first = heapq.nsmallest(room, counted, key=_folders_first)
        folder.entries = [_entry(descriptor, entry.name) for entry in first]
    folder.unlisted = counted.count - len(first)
    return len(first)


class _Counted(Iterator["os.DirEntry[str]"]):
    """Passes entries on and counts them."""

    def __init__(self, entries: Iterator["os.DirEntry[str]"]) -> None:
        self._entries = entries
        self.count = 0

    def __next__(self) -> "os.DirEntry[str]":
        entry = next(self._entries)
        self.count += 1
        return entry


def _folders_first(entry: "os.DirEntry[str]") -> tuple[bool, str]:
    return not entry.is_dir(follow_symlinks=False), entry.name


def _entry(folder: int, name: str) -> Entry:
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        entry = Entry(name, _KINDS.get(stat.S_IFMT(status.st_mode), "other"), status.st_size)
        if entry.kind == "link":
            entry.target = os.readlink(name, dir_fd=folder)
    except OSError as error:
        return Entry(name, "other", note=f"unreadable: {error.strerror}")
    return entry
