"""Places in source text, as servers name them and as a reader sees them.

Ours count lines and characters from 1. The protocol counts from 0, and UTF-16 units within a line:
an emoji is one character and two units. What a server answers is hostile, and may lie beyond the
file. Places outside the roots and in credential files are shown without text; lines come through
the workspace, masked together with what stands above them.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast
from urllib.parse import unquote_to_bytes, urlsplit

from outrider.tools import ToolCode, ToolContext, ToolFault
from outrider.tools.files.ranked.code import KEYWORDS, defined
from outrider.tools.files.text import LINES_ABOVE, detect, shown_size
from outrider.tools.lsp.json_rpc import ANY_SHAPE, plain
from outrider.workspaces.names import shown_name
from outrider.workspaces.path_guard import Workspace
from outrider.workspaces.place import Place

T = TypeVar("T")
MAX_SHOWN = 100
MAX_LINE_CHARACTERS = 200
MAX_LABEL_CHARACTERS = 300
MAX_DEPTH = 8
_FUNCTIONS = (6, 9, 12)  # methods, constructors, functions: what is inside is nobody else's
MAX_SOURCE_BYTES = 4 << 20
# Not `splitlines`, which ends lines at form feeds and other characters too.
_LINE_END = re.compile(r"\r\n|\n|\r")


@dataclass(frozen=True)
class SourceText:
    text: str

    @cached_property
    def lines(self) -> list[str]:
        return _LINE_END.split(self.text)

    def to_server(self, line: int, column: int) -> dict[str, int]:
        """Return a place as servers count it; raises `ToolFault` where the file has none there."""
        text = self.lines[line - 1] if line <= len(self.lines) else ""
        if line > len(self.lines) or column > len(text) + 1:
            has = f"the file has {len(self.lines)} lines, and line {line} {len(text)} characters"
            raise ToolFault(ToolCode.BAD_PARAMETER, f"{line}:{column} is past the end: {has}")
        units = len(text[: column - 1].encode("utf-16-le", "surrogatepass")) // 2
        return {"line": line - 1, "character": units}

    def from_server(self, line: int, units: int) -> tuple[int, int] | None:
        """Return the line and column of what a server names; None where there is no such line."""
        if not 0 <= line < len(self.lines):
            return None
        cut = self.lines[line].encode("utf-16-le", "surrogatepass")[: 2 * max(0, units)]
        return line + 1, len(cut.decode("utf-16-le", "ignore")) + 1

    def offset(self, position: Any) -> int | None:
        """Return how many characters stand before what a server names."""
        place = self.from_server(position["line"], position["character"])
        return None if place is None else self._starts[place[0] - 1] + place[1] - 1

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *(end.end() for end in _LINE_END.finditer(self.text))]


def read_source(workspace: Workspace, place: Place) -> SourceText:
    """Return the text of a file; raises `ToolFault` where it has none, or too much of it."""
    with workspace.open_file(place) as file:
        content = file.read(MAX_SOURCE_BYTES + 1)
    encoding = detect(content, len(content))
    if encoding is None or len(content) > MAX_SOURCE_BYTES:
        most = shown_size(MAX_SOURCE_BYTES)
        message = f"{place.shown} is not text of at most {most}: language servers don't get it"
        raise ToolFault(ToolCode.TOO_LARGE, message)
    return SourceText(encoding.readable(content))


def uri_of(path: str) -> str:
    return Path(path).as_uri()


def path_of(uri: object) -> str | None:
    """Return the absolute path of a local file that a server names; None where it isn't one."""
    try:
        parts = urlsplit(str(uri))
        path = os.fsdecode(unquote_to_bytes(parts.path))
    except ValueError:
        return None
    local = parts.scheme == "file" and parts.netloc in ("", "localhost")
    return path if local and path.startswith("/") and "\0" not in path else None


class Hit(NamedTuple):
    """A place as a server counts it, what is to be said of it, and the names declared there."""

    uri: str
    line: int
    units: int
    label: str = ""
    names: tuple[str, ...] = ()
    extent: tuple[int, int] = (0, 0)
    """How many lines and units a declaration goes on from its name: a definition has a body."""

    @property
    def where(self) -> tuple[str, int]:
        return path_of(self.uri) or "/", self.line


def usable(answer: Any, read: Callable[[Any], Iterable[T]]) -> list[T]:
    """Return what is read from an answer's entries without the bad ones; raises if all are bad."""
    found, fault = list[T](), None
    alone = [] if answer is None else [answer]
    for one in cast("list[Any]", answer) if isinstance(answer, list) else alone:
        try:
            found += read(one)
        except ANY_SHAPE as error:
            fault = error
    if fault is not None and not found:
        raise fault
    return found


def entries(answer: Any) -> list[dict[str, Any]]:
    """Return the objects in what should be a list of them, or one alone."""
    return usable(answer, lambda one: [{**one}])


def hit(uri: Any, span: Any, label: Any = "", names: tuple[str, ...] = ()) -> Hit:
    """Return the place where a range begins; raises `ValueError` where it isn't one."""
    line, units = (span["start"][name] for name in ("line", "character"))
    if not (isinstance(uri, str) and type(line) is type(units) is int and min(line, units) >= 0):
        raise ValueError("a place that is none")
    return Hit(uri, line, units, " ".join(plain(label, MAX_LABEL_CHARACTERS).split()), names)


def locations(answer: Any) -> list[Hit]:
    """Return the places of an answer, in either of the protocol's two forms."""

    def place(one: Any) -> list[Hit]:
        span = one.get("targetSelectionRange") or one.get("range")
        return [hit(one.get("targetUri") or one.get("uri"), span)]

    return usable(answer, place)


def symbols(answer: Any, uri: str = "", above: tuple[str, ...] = ()) -> list[Hit]:
    """Return the symbols of a document or a workspace, each before those in it."""

    def declared(one: Any) -> Iterator[Hit]:
        where: dict[str, Any] = one.get("location") or {"uri": uri, "range": one.get("range")}
        name = plain(one.get("name"), MAX_LABEL_CHARACTERS).partition("(")[0].strip()
        container = re.findall(r"\w+", plain(one.get("containerName"), MAX_LABEL_CHARACTERS))
        names = (*(above or container), name)
        span, end = one.get("selectionRange") or where["range"], where["range"]["end"]
        found = hit(where["uri"], span, "", names)
        yield Hit(*found[:5], (end["line"] - found.line, end["character"] - found.units))
        if one.get("kind") not in _FUNCTIONS and len(above) < MAX_DEPTH:
            yield from symbols(one.get("children") or [], uri, names)

    return usable(answer, declared)


def name_parts(symbol: str | None) -> tuple[str, ...]:
    """Return the names in `Task.run` or `task::run`."""
    return tuple(re.findall(r"[^.:#\s]+", symbol or ""))


def with_names(found: Iterable[Hit], wanted: tuple[str, ...]) -> list[Hit]:
    """Return the symbols whose names end with these."""
    return [one for one in found if one.names[-len(wanted) :] == wanted]


def word_at(source: SourceText, name: str, line: int, column: int = 1) -> tuple[int, int] | None:
    """Return where a name stands as a word: in this line from a column on, or in those after it."""
    word = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)")
    for number, text in enumerate(source.lines[line - 1 :], line):
        if match := word.search(text, column - 1 if number == line else 0):
            return number, match.start() + 1
    return None


def first_name(source: SourceText, line: int) -> int:
    """Return the column of the name that a line defines, or else of the first one in it."""
    text = source.lines[line - 1] if line <= len(source.lines) else ""
    name = defined(text)
    names = [one for one in re.finditer(r"[^\W\d]\w*", text) if one[0] not in KEYWORDS]
    found = [one for one in names if one[0] == name] or names
    return found[0].start() + 1 if found else 1


def name_place(source: SourceText, found: Hit) -> tuple[int, int] | None:
    """Return where a place is; of a symbol its name, for some servers name the declaration."""
    at = source.from_server(found.line, found.units)
    return word_at(source, found.names[-1], *at) or at if at and found.names else at


def read_places(context: ToolContext, found: Iterable[Hit]) -> dict[str, Any]:
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
