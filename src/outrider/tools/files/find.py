"""The tool `find`: files whose names or paths match a glob, in the order of paths."""

from collections.abc import Iterable, Iterator
from typing import Annotated, Any

from outrider.protocol.envelope import ToolCode, ToolFault
from outrider.tools.context import ToolContext
from outrider.tools.files.globs import Glob
from outrider.tools.files.ripgrep import narrowed_to, searching
from outrider.tools.formatting import Arguments, Formatter
from outrider.tools.registry import tool

DEFAULT_FILES = 500
MAX_FILES = 5_000
MAX_BYTES = 48_000


def _format_long(data: Any, arguments: Arguments) -> str:
    return "\n".join([*(data["files"] or ["No files match."]), *_notes(data)])


def _notes(data: Any) -> Iterator[str]:
    if len(data["files"]) < data["total"] or not data["exact"]:
        total = f"{'' if data['exact'] else 'more than '}{data['total']:,}"
        yield (
            f"[{len(data['files']):,} of {total} files shown: narrow the pattern or path, or raise "
            "the limit]"
        )
    if data["unreadable"]:
        yield f"[{data['unreadable']} entries could not be read]"


def _format_short(data: Any, arguments: Arguments) -> str:
    return f"find {arguments.get('pattern')!r} → {data['total']} files"


@tool("file:find", name="find", format=Formatter(_format_long, _format_short))
def find(
    context: ToolContext,
    pattern: Annotated[str, {"minLength": 1}],
    path: Annotated[str, {"minLength": 1}] = ".",
    limit: Annotated[int, {"minimum": 1, "maximum": MAX_FILES}] = DEFAULT_FILES,
) -> dict[str, Any]:
    """Find files by a glob such as *.py, src/**/*.ts or *.{js,jsx}, in the order of their paths.
    Honours .gitignore; hidden files are included.

    Args:
        pattern: The glob: without a slash it is held against names, with one against whole paths.
        path: The folder to search in.
        limit: How many files to show.
    """
    workspace = context.workspace
    place = workspace.resolve(path)
    glob = Glob(_relative(place.path, pattern))
    arguments = ["--files", "--null", *narrowed_to(glob.names())]
    with workspace.open_folder(place) as folder, searching(context, arguments, folder) as search:
        found = search.paths()
        if not glob.settled_by_names:
            found = [name for name in found if glob.matches(name)]
        found = [name for name in found if folder.size(name) is not None]
    files = list(_fitting(workspace.below(place, name).shown for name in found[:limit]))
    unreadable = search.unreadable()
    return {"files": files, "total": len(found), "exact": not search.cut, "unreadable": unreadable}


def _relative(folder: str, pattern: str) -> str:
    """Return a pattern relative to the searched folder; raises where it leads out of it."""
    if pattern.startswith("/"):
        inside = folder.rstrip("/") + "/"
        if not pattern.startswith(inside) or pattern == inside:
            message = f"{pattern[:200]!r} is outside {folder}: write it relative to path"
            raise ToolFault(ToolCode.DENIED, message)
        return "/" + pattern[len(inside) :]
    if ".." in pattern.split("/"):
        message = f"{pattern[:200]!r} leads upwards: name the folder to search as path"
        raise ToolFault(ToolCode.DENIED, message)
    return pattern


def _fitting(paths: Iterable[str]) -> Iterator[str]:
    room = MAX_BYTES
    for path in paths:
        room -= len(path.encode()) + 1
        if room < 0:
            return
        yield path
