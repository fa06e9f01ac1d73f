"""The tool `read`: numbered lines of a text file, whatever its size and encoding."""

import codecs
import os
import threading
from collections.abc import Iterator
from typing import Annotated, Any

from outrider.protocol.envelope import Envelope
from outrider.tools.context import ToolContext
from outrider.tools.files.encoding import SAMPLE_BYTES, Encoding, detect
from outrider.tools.files.faults import answer, bad, fault_of, go_on
from outrider.tools.files.kinds import is_document, kind_of
from outrider.tools.files.lines import LineWindow, Windows
from outrider.tools.files.notebook import MAX_NOTEBOOK_BYTES, notebook_text
from outrider.tools.files.opening import opened_file
from outrider.tools.files.paths import Place, locate, realm_of
from outrider.tools.files.sizes import shown_size
from outrider.tools.formatting import Arguments, Formatter
from outrider.tools.registry import tool

DEFAULT_LINES = 2_000
MAX_LINES = 20_000
MAX_BYTES = 45_000
# What is left of a file is read on to count its lines, up to this much.
MAX_BYTES_COUNTED = 32 * 1024 * 1024
_CHUNK = 256 * 1024


def format_long(data: Any, arguments: Arguments) -> str:
    """Return the lines with their numbers, and how to read on."""
    if data["kind"] not in ("text", "notebook"):
        pixels = data.get("pixels")
        size = f"{pixels[0]}x{pixels[1]} pixels, " if pixels else ""
        return f"[{data['path']}: {data['mediaType']}, {size}{shown_size(data['size'])}; not shown]"
    if not data["totalLines"] and not data["lines"]:
        return f"[{data['path']} is empty]"
    first = data["startLine"]
    cut = {entry["line"]: entry["characters"] for entry in data["cut"]}
    shown = [
        f"{number}\t{line}" + (f"… [cut: {cut[number]:,} characters]" if number in cut else "")
        for number, line in enumerate(data["lines"], first)
    ]
    return "\n".join([*shown, *_notes(data)])


def _notes(data: Any) -> Iterator[str]:
    if data["kind"] == "notebook":
        yield "[a notebook, shown as its cells; edit works on its JSON]"
    if data["encoding"] != "utf-8":
        yield f"[encoding: {data['encoding']}]"
    if data["damaged"]:
        yield "[bytes that are not UTF-8 are shown as \ufffd]"
    if data["nextOffset"] is not None:
        last = data["nextOffset"] - 1
        total = data["totalLines"]
        of = f"{total:,}" if total is not None else f"a file of {shown_size(data['size'])}"
        yield (
            f"[lines {data['startLine']}-{last} of {of}; read on with offset={data['nextOffset']}]"
        )


def format_short(data: Any, arguments: Arguments) -> str:
    """Return one line that says how much was read."""
    what = f"{len(data['lines'])} lines" if "lines" in data else data["mediaType"]
    return f"read {data['path']} → {what}"


@tool("file:read", name="read", writes=False, format=Formatter(format_long, format_short))
async def read(
    context: ToolContext,
    path: Annotated[str, {"minLength": 1}],
    offset: Annotated[int, {"minimum": 1}] = 1,
    limit: Annotated[int, {"minimum": 1, "maximum": MAX_LINES}] = DEFAULT_LINES,
) -> Envelope:
    """Read a text file with line numbers. Notebooks are shown as cells; images and other binary
    files are only named.

    Args:
        path: The file, relative to the working tree.
        offset: The first line to show, counted from 1.
        limit: How many lines to show.
    """
    return await answer(_read, context, path, offset, limit)


def _read(
    stop: threading.Event, context: ToolContext, path: str, offset: int, limit: int
) -> dict[str, Any]:
    kept = context.spilled(path)
    if kept is not None:
        place = Place(str(kept.parent), (kept.name,), path)
    else:
        place = locate(realm_of(context), path)
    try:
        with opened_file(place) as file:
            data = _read_opened(
                stop, file, place, Windows.of(offset, limit, MAX_BYTES, context.mask)
            )
    except OSError as error:
        raise fault_of(error, place.shown) from None
    if kept is None:
        context.effects.file_read(place.path)
    return data


def _read_opened(
    stop: threading.Event, file: int, place: Place, windows: Windows
) -> dict[str, Any]:
    size = os.fstat(file).st_size
    sample = os.pread(file, SAMPLE_BYTES, 0)
    encoding = None if is_document(sample) else detect(sample, whole=len(sample) == size)
    about: dict[str, Any] = {"path": place.shown, "size": size}
    if encoding is None:
        kind = kind_of(sample)
        family = "image" if kind.media_type.startswith("image/") else "binary"
        about |= {"kind": family, "mediaType": kind.media_type}
        return about | ({"pixels": list(kind.pixels)} if kind.pixels else {})
    cells = _cells(file, size) if place.parts[-1].endswith(".ipynb") else None
    counted = True
    if cells is not None:
        windows.feed(cells)
    else:
        counted = _feed(stop, file, size, encoding, windows)
    windows.finish()
    return about | _window_data(windows.shown, encoding, cells is not None, counted)


def _cells(file: int, size: int) -> str | None:
    if size > MAX_NOTEBOOK_BYTES:
        return None
    with open(os.dup(file), "rb") as content:
        return notebook_text(content.read(MAX_NOTEBOOK_BYTES))


def _feed(
    stop: threading.Event, file: int, size: int, encoding: Encoding, windows: Windows
) -> bool:
    """Feed the file to the windows; returns whether all of it was, and so its lines are counted."""
    decoder = codecs.getincrementaldecoder(encoding.codec)("replace")
    at = len(encoding.mark)
    while chunk := os.pread(file, _CHUNK, at):
        go_on(stop)
        at += len(chunk)
        windows.feed(decoder.decode(chunk))
        if windows.shown.more and size - at > MAX_BYTES_COUNTED:
            return False
    windows.feed(decoder.decode(b"", True))
    return True


def _window_data(
    window: LineWindow, encoding: Encoding, is_notebook: bool, counted: bool
) -> dict[str, Any]:
    if not window.lines and window.first > max(window.total, 1):
        raise bad(
            f"offset {window.first} is past the end: the file has {window.total} "
            f"line{'' if window.total == 1 else 's'}"
        )
    return {
        "kind": "notebook" if is_notebook else "text",
        "encoding": encoding.shown,
        "startLine": window.first,
        "lines": window.lines,
        "cut": [{"line": line, "characters": length} for line, length in window.cut.items()],
        "totalLines": window.total if counted else None,
        "nextOffset": window.first + len(window.lines) if window.more else None,
        "damaged": encoding.codec == "utf-8" and any("\ufffd" in line for line in window.lines),
    }
