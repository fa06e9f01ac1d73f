"""Places and symbols that a server names, as a reader sees them.

What a server answers is hostile. Places outside the roots and in credential files are shown without
text; lines come through the workspace, masked together with what stands above them.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, cast

from outrider.protocol.envelope import ToolFault
from outrider.tools.context import ToolContext
from outrider.tools.files.text import LINES_ABOVE
from outrider.tools.lsp.connection import plain
from outrider.tools.lsp.positions import SourceText, path_of, read_source
from outrider.workspaces.names import shown_name

MAX_SHOWN = 100
MAX_LINE_CHARACTERS = 200
MAX_LABEL_CHARACTERS = 300
MAX_DEPTH = 8
_FUNCTIONS = (6, 9, 12)
"""Methods, constructors and functions: what they declare inside is nobody else's."""


class Hit(NamedTuple):
    """A place as a server counts it, what is to be said of it, and the names declared there."""

    uri: str
    line: int
    units: int
    label: str = ""
    names: tuple[str, ...] = ()


def entries(value: Any) -> list[dict[str, Any]]:
    """Return the objects in what should be a list of them, or one alone."""
    items = cast("list[Any]", value) if isinstance(value, list) else [value]
    return [item for item in items if isinstance(item, dict)]


def hit(uri: str, span: Any, label: str = "", names: tuple[str, ...] = ()) -> Hit:
    """Return the place where a range begins."""
    start, label = span["start"], " ".join(plain(label, MAX_LABEL_CHARACTERS).split())
    return Hit(uri, start["line"], start["character"], label, names)


def locations(answer: Any) -> list[Hit]:
    """Return the places of an answer, in either of the protocol's two forms."""
    return [
        hit(one["targetUri"], one["targetSelectionRange"])
        if "targetUri" in one
        else hit(one["uri"], one["range"])
        for one in entries(answer)
    ]


def symbols(answer: Any, uri: str = "", above: tuple[str, ...] = ()) -> Iterator[Hit]:
    """Yield the symbols of a document or a workspace, each before those in it."""
    for one in entries(answer):
        where: dict[str, Any] = one.get("location") or {"uri": uri, "range": one.get("range")}
        name = plain(one.get("name"), MAX_LABEL_CHARACTERS).partition("(")[0].strip()
        container = re.findall(r"\w+", plain(one.get("containerName"), MAX_LABEL_CHARACTERS))
        names = (*(above or container), name)
        yield hit(where["uri"], one.get("selectionRange") or where["range"], "", names)
        if one.get("kind") not in _FUNCTIONS and len(above) < MAX_DEPTH:
            yield from symbols(one.get("children") or [], uri, names)


def name_parts(symbol: str | None) -> tuple[str, ...]:
    """Return the names in `Task.run` or `task::run`."""
    return tuple(re.findall(r"[^.:#\s]+", symbol or ""))


def matching(found: Iterable[Hit], wanted: tuple[str, ...]) -> list[Hit]:
    """Return the symbols whose names end with these."""
    return [one for one in found if one.names[-len(wanted) :] == wanted]


def word_at(source: SourceText, name: str, line: int, column: int = 1) -> tuple[int, int] | None:
    """Return where a name stands as a word: in this line from a column on, or in those after it."""
    word = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)")
    for number, text in enumerate(source.lines[line - 1 :], line):
        if match := word.search(text, column - 1 if number == line else 0):
            return number, match.start() + 1
    return None


def name_place(source: SourceText, found: Hit) -> tuple[int, int] | None:
    """Return where a place is; of a symbol its name, for some servers name the declaration."""
    at = source.from_server(found.line, found.units)
    return word_at(source, found.names[-1], *at) or at if at and found.names else at


def listed(context: ToolContext, found: Iterable[Hit]) -> dict[str, Any]:
    """Return places grouped by file, with their lines; of a long list the first, and a count."""
    by_file: dict[str, list[Hit]] = {}
    for one in dict.fromkeys(found):
        by_file.setdefault(one.uri, []).append(one)
    files, total = list[dict[str, Any]](), 0
    for uri, hits_there in by_file.items():
        if shown := hits_there[: max(0, MAX_SHOWN - total)]:
            files.append(_file(context, uri, shown))
        total += len(hits_there)
    return {"files": files, "total": total, "inFiles": len(by_file)}


def _file(context: ToolContext, uri: str, found: Sequence[Hit]) -> dict[str, Any]:
    path = path_of(uri)
    try:
        place = context.workspace.resolve(path or "/")
        source = read_source(context.workspace, place)
    except ToolFault:  # of a library, or not to be shown: its name is all there is
        shown, source = shown_name(path or plain(uri, MAX_LABEL_CHARACTERS)), SourceText("")
    else:
        shown = place.shown
        context.effects.file_read(place.path)
    places = [name_place(source, one) or (one.line + 1, one.units + 1) for one in found]
    # Masked together with what stands above them: a secret may begin there.
    first = max(0, min(places)[0] - 1 - LINES_ABOVE)
    texts = source.lines[first : max(places)[0]]
    texts = dict(enumerate(context.mask.lines(texts) if context.mask else texts, first + 1))
    lines: list[dict[str, Any]] = []
    for one, (line, column) in zip(found, places, strict=True):
        text = plain(texts.get(line, "").strip(), MAX_LINE_CHARACTERS)
        text = "  " * (len(one.names) - 1) + text
        lines.append({"line": line, "column": column, "label": one.label, "text": text})
    return {"path": shown, "lines": lines}
