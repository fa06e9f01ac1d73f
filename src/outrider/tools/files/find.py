"""The tool `find`: files whose paths match a glob, or the places that a question is about."""

from collections.abc import Iterator
from itertools import accumulate
from typing import Annotated, Any

from outrider.tools import Arguments, Formatter, ToolCode, ToolContext, ToolFault, tool
from outrider.tools.files.globs import Glob
from outrider.tools.files.ranked.search import MAX_FILE_BYTES, ranked_places
from outrider.tools.files.ripgrep import narrowed_to, searching

DEFAULT_FILES = 500
MAX_FILES = 5_000
MAX_BYTES = 48_000
DEFAULT_PLACES = 8


def _format_long(data: Any, arguments: Arguments) -> str:
    if "places" in data:
        lines = [*map(_place, data["places"]), *_place_notes(data)]
    else:
        lines = [*(data["files"] or ["No files match."]), *_notes(data)]
    lines += [f"[{data['unreadable']} entries could not be read]"] if data["unreadable"] else []
    return "\n".join(lines)


def _notes(data: Any) -> Iterator[str]:
    if len(data["files"]) < data["total"] or not data["exact"]:
        total = f"{'' if data['exact'] else 'more than '}{data['total']:,}"
        shown = f"{len(data['files']):,} of {total} files shown"
        yield f"[{shown}: narrow the pattern or path, or raise the limit]"


def _place(place: Any) -> str:
    inside = f" in {place['definition']}" if place["definition"] else ""
    head = f"{place['path']}:{place['line']}-{place['endLine']}{inside}{why(place)}"
    return "\n".join([head, *(f"  {one['line']}: {one['text']}" for one in place["lines"])])


def why(place: Any) -> str:
    """Return for which words a place was found."""
    path = [word for word in place["pathWords"] if word not in place["words"]]
    said = ", ".join([*place["words"], *(f"{word} (path)" for word in path)])
    return f" [{said}]" if said else ""


def _place_notes(data: Any) -> Iterator[str]:
    if not data["words"] and not data["places"]:
        yield "Nothing to look for: name a thing, a file or an identifier."
    elif not data["places"]:
        yield f"Nothing found in {data['files']:,} files."
    if data["weak"]:
        yield "[weak match: no place has most of what you ask for]"
    if data["missing"]:
        yield f"[in no file: {', '.join(data['missing'])}]"
    if foreign := [word for word in data["missing"] if not word.isascii()]:
        yield f"[no English is known for {', '.join(foreign)}: ask with the words of the code]"
    if data["large"]:
        yield f"[{data['large']} files over {MAX_FILE_BYTES >> 20} MB not searched]"


@tool("file:find", name="find", format=Formatter(_format_long))
def find(
    context: ToolContext,
    pattern: Annotated[str | None, {"minLength": 1}] = None,
    about: Annotated[str | None, {"minLength": 1}] = None,
    path: Annotated[str, {"minLength": 1}] = ".",
    limit: Annotated[int | None, {"minimum": 1, "maximum": MAX_FILES}] = None,
) -> dict[str, Any]:
    """Find files by a glob such as *.py, src/**/*.ts or *.{js,jsx}, in the order of their paths;
    or, with about, the places in files that a question is about, best first. Honours .gitignore;
    hidden files are included.

    Args:
        pattern: The glob: without a slash it is held against names, with one against whole paths.
        about: A question or a few words, instead of a pattern.
        path: The folder to search in.
        limit: How many files (500) or places (8) to show.
    """
    workspace = context.workspace
    if (pattern is None) == (about is None):
        raise ToolFault(ToolCode.BAD_PARAMETER, "give either pattern or about")
    place = workspace.resolve(path)
    if pattern is None:
        return ranked_places(context, about or "", place, limit or DEFAULT_PLACES)
    limit = limit or DEFAULT_FILES
    glob = Glob(_relative(place.path, pattern))
    arguments = ["--files", "--null", *narrowed_to(glob.names())]
    with workspace.open_folder(place) as folder, searching(context, arguments, folder) as search:
        matching = filter(glob.matches, search.paths())
        found = [name for name in matching if folder.size(name) is not None]
    shown = [workspace.below(place, name).shown for name in found[:limit]]
    sizes = accumulate(len(name.encode()) + 1 for name in shown)
    files = shown[: sum(size <= MAX_BYTES for size in sizes)]
    unreadable = search.unreadable()
    return {"files": files, "total": len(found), "exact": not search.cut, "unreadable": unreadable}


def _relative(folder: str, pattern: str) -> str:
    """Return a pattern relative to the searched folder; raises where it leads out of it."""
    relative = pattern.removeprefix(folder.rstrip("/") + "/")
    if not relative or relative.startswith("/") or ".." in relative.split("/"):
        raise ToolFault(ToolCode.DENIED, f"{pattern[:200]!r} must be relative to {folder}")
    return relative if relative == pattern else f"/{relative}"
