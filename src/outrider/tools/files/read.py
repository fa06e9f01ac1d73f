"""The tool `read`: numbered lines of a text file of any size and encoding."""

import codecs
import os
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Annotated, Any, BinaryIO

from outrider.masking import Masker
from outrider.protocol.envelope import ToolCode, ToolFault
from outrider.tools.context import ToolContext
from outrider.tools.files.text import (
    LINES_ABOVE,
    SAMPLE_BYTES,
    Encoding,
    binary_kind,
    detect,
    notebook_text,
    shown_size,
)
from outrider.tools.formatting import Arguments, Formatter
from outrider.tools.registry import tool
from outrider.workspaces.workspace import raise_if_stopped

DEFAULT_LINES = 2_000
MAX_LINES = 20_000
MAX_BYTES = 45_000
MAX_LINE_CHARACTERS = 2_000
# The rest of a file is read to count its lines, unless it is larger than this.
MAX_BYTES_COUNTED = 32 * 1024 * 1024
_CHUNK_BYTES = 256 * 1024
# How much of a line is kept until its secrets are masked, so that none is cut in two.
_MAX_KEPT = 2 * MAX_LINE_CHARACTERS
# What a line number and its separators take.
_BYTES_AROUND_LINE = 8


def _format_long(data: Any, arguments: Arguments) -> str:
    if data["kind"] not in ("text", "notebook"):
        pixels = data.get("pixels")
        size = f"{pixels[0]}x{pixels[1]} pixels, " if pixels else ""
        return f"[{data['path']}: {data['mediaType']}, {size}{shown_size(data['size'])}; not shown]"
    if not data["totalLines"] and not data["lines"]:
        return f"[{data['path']} is empty]"
    numbered = (f"{number}\t{line}" for number, line in enumerate(data["lines"], data["startLine"]))
    return "\n".join([*numbered, *_notes(data)])


def _notes(data: Any) -> Iterator[str]:
    if data["kind"] == "notebook":
        yield "[a notebook, shown as its cells; edit works on its JSON]"
    if data["encoding"] != "utf-8":
        yield f"[encoding: {data['encoding']}]"
    if data["damaged"]:
        yield "[bytes that are not UTF-8 are shown as \ufffd]"
    if data["nextOffset"] is not None:
        first, following, total = data["startLine"], data["nextOffset"], data["totalLines"]
        of = f"{total:,}" if total is not None else f"a file of {shown_size(data['size'])}"
        yield f"[lines {first}-{following - 1} of {of}; read on with offset={following}]"


def _format_short(data: Any, arguments: Arguments) -> str:
    what = f"{len(data['lines'])} lines" if "lines" in data else data["mediaType"]
    return f"read {data['path']} → {what}"


@tool("file:read", name="read", format=Formatter(_format_long, _format_short))
def read(
    context: ToolContext,
    path: Annotated[str, {"minLength": 1}],
    offset: Annotated[int, {"minimum": 1}] = 1,
    limit: Annotated[int, {"minimum": 1, "maximum": MAX_LINES}] = DEFAULT_LINES,
) -> dict[str, Any]:
    """Read a text file with line numbers. Notebooks are shown as cells; images and other binary
    files are only named.

    Args:
        path: The file, relative to the working tree.
        offset: The first line to show, counted from 1.
        limit: How many lines to show.
    """
    with _opened(context, path) as (shown, file):
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        sample = file.read(SAMPLE_BYTES)
        about = {"path": shown, "size": size}
        encoding = None if sample.startswith(b"%PDF-") else detect(sample, size)
        if encoding is None:
            return about | binary_kind(shown, sample)
        above = 0 if context.mask is None else min(offset - 1, LINES_ABOVE)
        window = LineWindow(offset, limit, MAX_BYTES, above)
        file.seek(0)
        cells = notebook_text(file, size) if shown.endswith(".ipynb") else None
        if cells is not None:
            window.feed(cells)
        counted = cells is not None or _feed(window, file, size, encoding, context.stop)
        window.finish(context.mask)
        return about | _window_data(window, encoding, cells is not None, counted)


@contextmanager
def _opened(context: ToolContext, path: str) -> Generator[tuple[str, BinaryIO], None, None]:
    """Hold a file or a spilled result open, and yield its name for the caller too."""
    kept = context.spilled(path)
    if kept is not None:
        with kept.open("rb") as file:
            yield path, file
        return
    place = context.workspace.resolve(path)
    with context.workspace.open_file(place) as file:
        yield place.shown, file
    context.effects.file_read(place.path)


def _feed(
    window: "LineWindow", file: BinaryIO, size: int, encoding: Encoding, stop: threading.Event
) -> bool:
    """Feed a file to the window; returns whether all of it was read, and its lines counted."""
    decoder = codecs.getincrementaldecoder(encoding.codec)("replace")
    at = file.seek(len(encoding.mark))
    while chunk := file.read(_CHUNK_BYTES):
        raise_if_stopped(stop)
        at += len(chunk)
        window.feed(decoder.decode(chunk))
        if window.more and size - at > MAX_BYTES_COUNTED:
            return False
    window.feed(decoder.decode(b"", True))
    return True


def _window_data(
    window: "LineWindow", encoding: Encoding, is_notebook: bool, counted: bool
) -> dict[str, Any]:
    if not window.lines and window.first > max(window.total, 1):
        lines = f"{window.total} line{'' if window.total == 1 else 's'}"
        message = f"offset {window.first} is past the end: the file has {lines}"
        raise ToolFault(ToolCode.BAD_PARAMETER, message)
    return {
        "kind": "notebook" if is_notebook else "text",
        "encoding": encoding.shown,
        "startLine": window.first,
        "lines": window.lines,
        "totalLines": window.total if counted else None,
        "nextOffset": window.first + len(window.lines) if window.more else None,
        "damaged": encoding.codec == "utf-8" and any("\ufffd" in line for line in window.lines),
    }


@dataclass(slots=True)
class LineWindow:
    """Takes a text piece by piece and keeps the lines from `first` on, as many as fit.

    Only a newline ends a line; a carriage return before it is dropped. Memory doesn't grow with
    the text.
    """

    first: int
    max_lines: int
    max_bytes: int
    above: int = 0
    """How many lines before the first are kept to the end, to tell whether a secret began there."""
    lines: list[str] = field(default_factory=list[str])
    cut: dict[int, int] = field(default_factory=dict[int, int])
    """By their place in `lines`: how many characters the lines have that are to be cut."""
    more: bool = False
    """Whether there is text after the window."""
    _newlines: int = 0
    _open: bool = False
    """Whether the text so far ends within a line."""
    _kept: str = ""
    _length: int = 0
    _bytes: int = 0

    @property
    def total(self) -> int:
        """How many lines the text fed so far has."""
        return self._newlines + self._open

    @property
    def _room(self) -> int:
        """How many more lines may be kept, if they are short enough."""
        lines = self.above + self.max_lines - len(self.lines)
        return lines if self._bytes < self.max_bytes else 0

    def feed(self, text: str) -> None:
        """Take the next piece of the text."""
        if not text:
            return
        found, skipped = text.count("\n"), self.first - self.above - 1 - self._newlines
        self._newlines += found
        self._open = not text.endswith("\n")
        if found < skipped:
            return
        if skipped > 0:
            text = text.split("\n", skipped)[-1]
        *ended, rest = text.split("\n", self._room)
        for piece in ended:
            if self._bytes >= self.max_bytes:
                self.more = True
                return
            self._end_line(piece)
        if rest and not self._room:
            self.more = True
        elif rest:
            self._kept = (self._kept + rest[:_MAX_KEPT])[:_MAX_KEPT]
            self._length += len(rest)

    def finish(self, mask: Masker | None = None) -> None:
        """Take the end of the text, mask the lines, and drop what was kept only for that."""
        if self._length:  # a last line needs no newline
            self._end_line("")
        self.lines = mask.lines(self.lines) if mask else self.lines
        for at, length in self.cut.items():
            line = self.lines[at][:MAX_LINE_CHARACTERS]
            self.lines[at] = f"{line}… [cut: {length:,} characters]"
        del self.lines[: self.above]

    def _end_line(self, piece: str) -> None:
        line, length = self._kept + piece[:_MAX_KEPT], self._length + len(piece)
        self._kept, self._length = "", 0
        if length <= MAX_LINE_CHARACTERS:
            line = line.removesuffix("\r")
        else:
            self.cut[len(self.lines)] = length
        self.lines.append(line)
        if len(self.lines) > self.above:
            shown = line[:MAX_LINE_CHARACTERS]
            self._bytes += len(shown.encode(errors="replace")) + _BYTES_AROUND_LINE
