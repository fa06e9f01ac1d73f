"""The tool `find`: files by the pattern of their names or paths."""

import heapq
import os
import threading
from collections.abc import Iterator
from typing import Annotated, Any

from outrider.protocol.envelope import Envelope
from outrider.tools.context import ToolContext
from outrider.tools.files.faults import answer, denied, fault_of
from outrider.tools.files.globs import Glob
from outrider.tools.files.opening import opened_folder
from outrider.tools.files.paths import Place, Realm, locate, realm_of, shown_path
from outrider.tools.files.ripgrep import ignoring_from, narrowed_to, ripgrep, running
from outrider.tools.formatting import Arguments, Formatter
from outrider.tools.registry import tool

DEFAULT_FILES = 500
MAX_FILES = 5_000
MAX_BYTES = 48_000


def format_long(data: Any, arguments: Arguments) -> str:
    """Return one path a line, and how many there are beyond."""
    return "\n".join([*(data["files"] or ["No files match."]), *_notes(data)])


def _notes(data: Any) -> Iterator[str]:
    if len(data["files"]) < data["total"]:
        yield (
            f"[{len(data['files']):,} of {data['total']:,} files shown: narrow the pattern or "
            "path, or raise the limit]"
        )
    if data["unreadable"]:
        yield f"[{data['unreadable']} entries could not be read]"


def format_short(data: Any, arguments: Arguments) -> str:
    """Return one line that says how much was found."""
    return f"find {arguments.get('pattern')!r} → {data['total']} files"


@tool("file:find", name="find", writes=False, format=Formatter(format_long, format_short))
async def find(
    context: ToolContext,
    pattern: Annotated[str, {"minLength": 1}],
    path: Annotated[str, {"minLength": 1}] = ".",
    limit: Annotated[int, {"minimum": 1, "maximum": MAX_FILES}] = DEFAULT_FILES,
) -> Envelope:
    """Find files by a glob such as *.py, src/**/*.ts or *.{js,jsx}, in the order of their paths.
    Honours .gitignore; hidden files are included.

    Args:
        pattern: The glob: without a slash it is held against names, with one against whole paths.
        path: The folder to search in.
        limit: How many files to show.
    """
    return await answer(_find, context, pattern, path, limit)


def _find(
    stop: threading.Event, context: ToolContext, pattern: str, path: str, limit: int
) -> dict[str, Any]:
    realm = realm_of(context)
    place = locate(realm, path, folder=True)
    glob = Glob(below(place.path, pattern))
    arguments = ["--files", "--null", *ignoring_from(place.path), *narrowed_to(glob.names())]
    try:
        with (
            opened_folder(place, listing=True) as folder,
            running(ripgrep(realm.roots), arguments, stop, folder=folder) as run,
        ):
            found = run.paths()
    except OSError as error:
        raise fault_of(error, place.shown) from None
    if not glob.settled_by_names:
        found = [name for name in found if glob.matches(name)]
    files = list(_shown(realm, place, heapq.nsmallest(limit, found)))
    return {"files": files, "total": len(found), "unreadable": run.unreadable()}


def below(folder: str, pattern: str) -> str:
    """Return a pattern relative to the folder that is searched; faults where it leads out of it."""
    if pattern.startswith("/"):
        inside = folder.rstrip("/") + "/"
        if not pattern.startswith(inside) or pattern == inside:
            raise denied(f"{pattern[:200]!r} is outside {folder}: write it relative to path")
        return "/" + pattern[len(inside) :]
    if ".." in pattern.split("/"):
        raise denied(f"{pattern[:200]!r} leads upwards: name the folder to search as path")
    return pattern


def _shown(realm: Realm, place: Place, names: list[str]) -> Iterator[str]:
    room = MAX_BYTES
    for name in names:
        shown = shown_path(realm, os.path.join(place.path, name))
        room -= len(shown.encode()) + 1
        if room < 0:
            return
        yield shown
