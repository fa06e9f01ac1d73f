"""The tool `ls`: what is in a folder, as a tree to a depth, with sizes."""

from collections import deque
from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated, Any

from outrider.processes.threads import raise_if_stopped
from outrider.tools import Arguments, Formatter, ToolContext, ToolFault, tool
from outrider.tools.files.text import shown_size
from outrider.workspaces.names import shown_name
from outrider.workspaces.place import FolderEntry

DEFAULT_ENTRIES = 500
MAX_ENTRIES = 5_000
MAX_DEPTH = 20


def _format_long(data: Any, arguments: Arguments) -> str:
    lines = [f"{data['name'].rstrip('/')}/{_remark(data)}", *_lines(data, 1)]
    if data["cut"]:
        lines.append("[not all is shown: name a folder further down, or raise the limit]")
    return "\n".join(lines)


def _lines(folder: Any, level: int) -> Iterator[str]:
    indent = "  " * level
    for entry in folder.get("entries", ()):
        yield f"{indent}{_line(entry)}{_remark(entry)}"
        yield from _lines(entry, level + 1)
    if folder.get("unlisted"):
        yield f"{indent}[{folder['unlisted']:,} more]"


def _line(entry: Any) -> str:
    if entry["kind"] == "folder":
        return f"{entry['name']}/"
    if "size" in entry:
        return f"{entry['name']}  {shown_size(entry['size'])}"
    if "target" in entry:
        return f"{entry['name']} -> {entry['target']}"
    return f"{entry['name']}  ({entry['kind']})"


def _remark(entry: Any) -> str:
    return f"  [{entry['note']}]" if "note" in entry else ""


@tool("file:ls", name="ls", format=Formatter(_format_long))
def ls(
    context: ToolContext,
    path: Annotated[str, {"minLength": 1}] = ".",
    depth: Annotated[int, {"minimum": 1, "maximum": MAX_DEPTH}] = 1,
    limit: Annotated[int, {"minimum": 1, "maximum": MAX_ENTRIES}] = DEFAULT_ENTRIES,
) -> dict[str, Any]:
    """List a folder with sizes, folders first, as a tree down to a depth. Hidden entries are
    included; links are not followed.

    Args:
        path: The folder.
        depth: How many levels to show.
        limit: How many entries to show.
    """
    workspace, room = context.workspace, limit
    place = workspace.resolve(path)
    root: dict[str, Any] = {"name": place.shown, "kind": "folder", "cut": False}
    # Level by level, so that one deep folder doesn't take the room of all the others.
    waiting = deque([(place, root, 1)])
    while waiting and room > 0:
        raise_if_stopped(context.stop)
        folder, data, level = waiting.popleft()
        try:
            entries, total = workspace.list_folder(folder, room)
        except ToolFault as fault:
            if folder is place:
                raise
            data["note"] = f"unreadable: {fault.message.removeprefix(f'{folder.shown}: ')}"
            continue
        data["entries"] = [_data(entry) for entry in entries]
        room -= len(entries)
        if total > len(entries):
            data["unlisted"] = total - len(entries)
            root["cut"] = True
        for entry, inner in zip(entries, data["entries"], strict=True):
            if level < depth and entry.kind == "folder" and entry.name != ".git":
                waiting.append((workspace.below(folder, entry.name), inner, level + 1))
    root["cut"] |= bool(waiting)
    return root


def _data(entry: FolderEntry) -> dict[str, Any]:
    fields = {name: value for name, value in asdict(entry).items() if value is not None}
    return fields | {name: shown_name(fields[name]) for name in {"name", "target"} & fields.keys()}
