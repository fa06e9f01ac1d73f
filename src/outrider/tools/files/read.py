"""The tool `read`: numbered lines of a text file of any size and encoding."""

import os
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from mimetypes import guess_type
from typing import Annotated, Any, BinaryIO, TextIO

from outrider.processes.threads import raise_if_stopped
from outrider.tools import Arguments, Formatter, ToolCode, ToolContext, ToolFault, tool
from outrider.tools.files.text import LINES_ABOVE, SAMPLE_BYTES, detect, shown_size

DEFAULT_LINES = 2_000
MAX_LINES = 20_000
MAX_BYTES = 45_000
MAX_LINE_CHARACTERS = 2_000
# The rest of a file is read to count its lines, unless it is larger than this.
MAX_BYTES_COUNTED = 32 * 1024 * 1024
_CHUNK_CHARACTERS = 256 * 1024
# How much of a line is kept until its secrets are masked, so that none is cut in two.
_MAX_KEPT = 2 * MAX_LINE_CHARACTERS


def _format_long(data: Any, arguments: Arguments) -> str:
    if data["kind"] != "text":
        return f"[{data['path']}: {data['mediaType']}, {shown_size(data['size'])}; not shown]"
    if not data["totalLines"] and not data["lines"]:
        return f"[{data['path']} is empty]"
    numbered = (f"{number}\t{line}" for number, line in enumerate(data["lines"], data["startLine"]))
    return "\n".join([*numbered, *_notes(data)])


def _notes(data: Any) -> Iterator[str]:
    if data["encoding"] != "utf-8":
        yield f"[encoding: {data['encoding']}]"
    if data["damaged"]:
        yield "[bytes that are not UTF-8 are shown as \ufffd]"
    if data["nextOffset"] is not None:
        first, following, total = data["startLine"], data["nextOffset"], data["totalLines"]
        of = f"{total:,}" if total is not None else f"a file of {shown_size(data['size'])}"
        yield f"[lines {first}-{following - 1} of {of}; read on with offset={following}]"


@tool("file:read", name="read", format=Formatter(_format_long))
def read(
    context: ToolContext,
    path: Annotated[str, {"minLength": 1}],
    offset: Annotated[int, {"minimum": 1}] = 1,
    limit: Annotated[int, {"minimum": 1, "maximum": MAX_LINES}] = DEFAULT_LINES,
) -> dict[str, Any]:
    """Read a text file with line numbers. Images and other binary files are only named.

    Args:
        path: The file, relative to the working tree.
        offset: The first line to show, counted from 1.
        limit: How many lines to show.
    """
    with _open_source(context, path) as (shown, file):
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        sample = file.read(SAMPLE_BYTES)
        about = {"path": shown, "size": size}
        encoding = None if sample.startswith(b"%PDF-") else detect(sample, size)
        if encoding is None:
            kind = guess_type(shown)[0] or "application/octet-stream"
            return about | {"kind": "binary", "mediaType": kind}
        file.seek(len(encoding.mark))
        text = TextIOWrapper(file, encoding.codec, "replace", newline="\n")
        lines, end = window(text, offset, limit, context)
        left = lines_left(text, context.stop) if size - file.tell() <= MAX_BYTES_COUNTED else None
    if not lines and offset > max(end, 1):
        has = f"the file has {end} line{'' if end == 1 else 's'}"
        raise ToolFault(ToolCode.BAD_PARAMETER, f"offset {offset} is past the end: {has}")
    about |= {"kind": "text", "encoding": encoding.shown, "startLine": offset, "lines": lines}
    damaged = encoding.codec == "utf-8" and any("\ufffd" in line for line in lines)
    total, following = None if left is None else end + left, None if left == 0 else end + 1
    return about | {"totalLines": total, "nextOffset": following, "damaged": damaged}


@contextmanager
def _open_source(context: ToolContext, path: str) -> Generator[tuple[str, BinaryIO], None, None]:
    """Hold a file or a spilled result open, and yield its name for the caller too."""
    if kept := context.open_spilled(path):
        with kept as file:
            yield path, file
        return
    place = context.workspace.resolve(path)
    with context.workspace.open_file(place) as file:
        yield place.shown, file
    context.effects.file_read(place.path)


def window(text: TextIO, first: int, most: int, context: ToolContext) -> tuple[list[str], int]:
    """Return the lines of a text from `first` on, as many as fit, and the number of the last."""
    # Only a newline ends a line; a carriage return before it is dropped.
    # With those above it can be told whether a secret began there.
    above = 0 if context.mask is None else min(first - 1, LINES_ABOVE)
    kept, lengths, number, room = list[str](), list[int](), 0, MAX_BYTES
    lines = _lines(text, context.stop)
    while number < first - 1 + most and room > 0 and (found := next(lines, None)):
        number += 1
        if number >= first - above:
            kept.append(found[0].removesuffix("\n").removesuffix("\r"))
            lengths.append(found[1])
        if number >= first:
            shown = found[0][:MAX_LINE_CHARACTERS].encode(errors="replace")
            room -= len(shown) + 8  # with its number and what separates it
    masked = kept if context.mask is None else context.mask.lines(kept)
    return list(map(_shown, masked, lengths))[above:], number


def _lines(text: TextIO, stop: threading.Event) -> Iterator[tuple[str, int]]:
    """Yield the start of each line, and how many characters the line has."""
    while start := text.readline(_MAX_KEPT):
        piece, length = start, len(start)
        while not piece.endswith("\n") and (piece := text.readline(_CHUNK_CHARACTERS)):
            raise_if_stopped(stop)
            length += len(piece)
        raise_if_stopped(stop)
        yield start, length - piece.endswith("\n")


def _shown(line: str, length: int) -> str:
    if length <= MAX_LINE_CHARACTERS:
        return line
    return f"{line[:MAX_LINE_CHARACTERS]}… [cut: {length:,} characters]"


def lines_left(text: TextIO, stop: threading.Event) -> int:
    """Return how many lines come after those that were read."""
    newlines, chunk = 0, "\n"
    while more := text.read(_CHUNK_CHARACTERS):
        raise_if_stopped(stop)
        chunk = more
        newlines += chunk.count("\n")
    return newlines + (not chunk.endswith("\n"))
