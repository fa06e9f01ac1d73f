"""The tool `edit`: exact replacements in a file, all of them or none, and a short diff of them."""

import difflib
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice, pairwise
from os.path import commonprefix
from typing import Annotated, Any, NamedTuple, NotRequired, TypedDict

from outrider.tools import Arguments, Formatter, ToolCode, ToolContext, ToolFault, tool
from outrider.tools.files.text import Encoding, detect, shown_size
from outrider.workspaces.place import MAX_CONTENT_BYTES, FileVersion

MAX_EDITS = 200
MAX_PLACES_NAMED = 10
MAX_COMPARED_LINES = 1_000
MAX_DIFF_LINES = 80
MAX_LINE_CHARACTERS = 300
_CONTEXT_LINES = 2
_HUNK = re.compile(r"@@ -\S+ \+(\d+)")


class Edit(TypedDict):
    """One replacement, as the caller writes it."""

    oldText: Annotated[str, {"minLength": 1}, "The exact text to replace, blanks included."]
    newText: Annotated[str, "What takes its place."]
    all: NotRequired[Annotated[bool, "Replace it everywhere; else it must be there once."]]


def _format_long(data: Any, arguments: Arguments) -> str:
    head = f"Edited {data['path']}: +{data['added']:,} -{data['removed']:,} lines."
    return f"{head}\n{data['diff']}" if data["diff"] else head


def _format_short(data: Any, arguments: Arguments) -> str:
    return f"edit {data['path']} → +{data['added']} -{data['removed']} lines"


@tool("file:edit", name="edit", format=Formatter(_format_long, _format_short))
def edit(
    context: ToolContext,
    path: Annotated[str, {"minLength": 1}],
    edits: Annotated[list[Edit], {"minItems": 1, "maxItems": MAX_EDITS}],
) -> dict[str, Any]:
    """Replace exact pieces of text in a file. All edits are made against the file as it is, and
    either all are made or none. Line endings and encoding are kept.

    Args:
        path: The file, relative to the working tree.
        edits: The replacements; they must not overlap.
    """
    place = context.workspace.resolve(path, writing=True)
    data: dict[str, Any] = {"path": place.shown, "edits": len(edits)}

    def rewrite(old: FileVersion | None) -> bytes:
        encoding, before = editable_text(old, place.shown)
        after = edited_text(before, edits, place.shown)
        data.update(change(before, after))
        return encoded_text(after, encoding)

    old, after = context.workspace.replace(place, rewrite, context.stop)
    before = old and old.hash
    context.effects.file_written(place.path, before, after)
    return {**data, "before": before, "after": after}


def editable_text(old: FileVersion | None, shown: str) -> tuple[Encoding, str]:
    """Return a file's text, and an encoding that gives back the same bytes."""
    if old is None:
        raise ToolFault(ToolCode.NOT_FOUND, f"there is no {shown}: use write to create it")
    if old.content is None:
        sizes = f"{shown_size(old.size)}, more than the {shown_size(MAX_CONTENT_BYTES)}"
        raise ToolFault(ToolCode.TOO_LARGE, f"{shown} has {sizes} that can be edited")
    encoding = detect(old.content, old.size)
    if encoding is None:
        raise ToolFault(ToolCode.TOO_LARGE, f"{shown} is not text: it can't be edited")
    with suppress(UnicodeError):
        text = encoding.decode(old.content)
        if encoding.encode(text) == old.content:
            return encoding, text
    # The first bytes misled. As Latin-1 every byte stays as it is.
    encoding = Encoding("latin-1")
    return encoding, encoding.decode(old.content)


def encoded_text(text: str, encoding: Encoding) -> bytes:
    try:
        return encoding.encode(text)
    except UnicodeEncodeError as error:
        letter = error.object[error.start]
        message = f"{letter!r} can't be written in {encoding.shown}, the file's encoding"
        raise ToolFault(ToolCode.BAD_PARAMETER, message) from None


class Replacement(NamedTuple):
    """A piece of the text by its bounds, what replaces it, and the number of the edit."""

    start: int
    end: int
    new: str
    edit: int


def edited_text(text: str, edits: Sequence[Edit], shown: str) -> str:
    """Return `text` with every edit made against the text as it was; raises if one can't be."""
    replacements: list[Replacement] = []
    for number, one in enumerate(edits, 1):
        replacements += _replacements(text, one, number, shown)
    replacements.sort(key=lambda one: one.start)
    for one, following in pairwise(replacements):
        if following.start < one.end:
            where = f"overlap at line {_line_at(text, following.start)}: merge them into one"
            message = f"edits {one.edit} and {following.edit} {where}. Nothing was changed"
            raise ToolFault(ToolCode.CONFLICT, message)
    after = "".join(edited_pieces(text, replacements))
    if after == text:
        message = "nothing would change: the texts are the same, or differ in line endings only"
        raise ToolFault(ToolCode.BAD_PARAMETER, message)
    return after


def edited_pieces(text: str, replacements: Iterable[Replacement]) -> Iterator[str]:
    """Yield the pieces of a text with replacements made, which are sorted and don't overlap."""
    at = 0
    for one in replacements:
        yield text[at : one.start]
        yield one.new
        at = one.end
    yield text[at:]


def _replacements(text: str, one: Edit, number: int, shown: str) -> list[Replacement]:
    # Exactly this text, with either of the two line endings.
    wanted = one["oldText"].replace("\r\n", "\n").split("\n")
    pattern = re.compile(r"\r?\n".join(map(re.escape, wanted)))
    found = [match.span() for match in pattern.finditer(text)]
    why = None
    if not found:
        why = f"is not in {shown}, nothing was changed. "
        why += "Read the file, and give the text as it stands there, without line numbers"
    # Places that overlap count too: it is unclear which one was meant.
    elif not one.get("all") and pattern.search(text, found[0][0] + 1):
        lines = ", ".join(str(_line_at(text, start)) for start, _ in found[:MAX_PLACES_NAMED])
        why = f"is in {shown} more than once (from lines {lines}), nothing was changed. "
        why += "Add lines around it until it is unique, or set all"
    if why is not None:
        raise ToolFault(ToolCode.CONFLICT, f"edit {number}: oldText {why}")
    crlf = 2 * text.count("\r\n") > text.count("\n")
    return [
        Replacement(start, end, ended_alike(text[start:end], one["newText"], crlf), number)
        for start, end in found
    ]


def ended_alike(old: str, new: str, crlf: bool) -> str:
    """Return the new text with the line endings of what it replaces, or else of the file."""
    plain = new.replace("\r\n", "\n")
    if "\n" in old:
        crlf = "\r\n" in old
    return plain.replace("\n", "\r\n") if crlf else plain


def _line_at(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def change(before: str, after: str) -> dict[str, Any]:
    """Return how many lines a change removed and added, and a diff of it unless it is too large."""
    old, new = before.splitlines(), after.splitlines()
    lines = diff_of(old, new)
    if lines is None:
        start, end = _equal_ends(old, new)
        return {"removed": len(old) - start - end, "added": len(new) - start - end, "diff": ""}
    shown = [line[:MAX_LINE_CHARACTERS] for line in lines[:MAX_DIFF_LINES]]
    if len(lines) > len(shown):
        shown.append(f"[{len(lines) - len(shown)} more lines of diff]")
    removed, added = (sum(line.startswith(sign) for line in lines) for sign in "-+")
    return {"removed": removed, "added": added, "diff": "\n".join(shown)}


def diff_of(old: list[str], new: list[str]) -> list[str] | None:
    """Return the lines of a diff, with the numbers of the new ones; None if it is too large."""
    start, end = _equal_ends(old, new)
    if max(len(old), len(new)) - start - end > MAX_COMPARED_LINES:
        return None
    first = max(0, start - _CONTEXT_LINES)
    tail = end - min(end, _CONTEXT_LINES)
    parts = old[first : len(old) - tail], new[first : len(new) - tail]
    unified = difflib.unified_diff(*parts, n=_CONTEXT_LINES, lineterm="")
    return [
        f"@@ line {first + int(hunk[1])} @@" if (hunk := _HUNK.match(line)) else line
        for line in islice(unified, 2, None)  # without the header
    ]


def _equal_ends(old: list[str], new: list[str]) -> tuple[int, int]:
    """Return how many lines are equal at the beginning, and how many at the end."""
    start = len(commonprefix((old, new)))  # noqa: RUF071  # of lines, not of paths
    end = len(commonprefix((old[start:][::-1], new[start:][::-1])))  # noqa: RUF071
    return start, end
