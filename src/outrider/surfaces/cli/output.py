"""Writing to the person or program at the other end: plain in a pipe, a little colour for people.

The answer goes to stdout, all else to stderr; a reader that has left ends the command in silence.
"""

import os
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, TextIO

from outrider.protocol import jsonl
from outrider.surfaces.cli.text import clean, escape_json, fit, one_line, pad, width

EXIT_READER_LEFT = 141
_COLOURS = {"dim": 2, "bold": 1, "red": 31, "green": 32, "yellow": 33, "cyan": 36}


class OutputLost(Exception):
    """Stdout can't take any more: the reader has left, or the disk is full."""


def open_streams() -> None:
    """Make the three standard streams usable, whatever the caller did to them."""
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            # Else the next file that is opened would be taken for a standard stream.
            os.open(os.devnull, os.O_RDWR)
    sys.stdin = sys.stdin or os.fdopen(0, closefd=False)
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType] - a TextIOWrapper has it


def is_terminal(stream: TextIO) -> bool:
    """Whether a person looks at `stream`."""
    try:
        return stream.isatty()
    except (OSError, ValueError):
        return False


def terminal_columns(stream: TextIO) -> int | None:
    """Return the width that a person sees; None where nobody looks and nothing is cut."""
    if not is_terminal(stream):
        return None
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


def is_plain(stream: TextIO) -> bool:
    """Whether `stream` gets neither colour nor a moving view."""
    return not is_terminal(stream) or os.environ.get("TERM") == "dumb"


def coloured(text: str, colour: str, stream: TextIO | None = None) -> str:
    """Return `text` in a colour, where `stream` (stdout) shows colours to a person."""
    if is_plain(stream or sys.stdout) or os.environ.get("NO_COLOR"):
        return text
    return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m"


def say(message: str) -> None:
    """Tell the person one line, on stderr."""
    with suppress(OSError, ValueError):
        print(f"outrider: {one_line(message)}", file=sys.stderr, flush=True)


def end_line() -> None:
    """End the line on which a person's Ctrl-C or Ctrl-D stands."""
    if is_terminal(sys.stderr):
        with suppress(OSError, ValueError):
            print(file=sys.stderr, flush=True)


def write(text: str) -> None:
    """Write to stdout as it is: for text that was cleaned, and coloured, already."""
    try:
        sys.stdout.write(text)
    except OSError as error:
        raise OutputLost from error


def write_text(text: str) -> None:
    """Write foreign text to stdout, cleaned, with a line's end."""
    cleaned = clean(text)
    write(cleaned if cleaned.endswith("\n") else f"{cleaned}\n")


def write_json(value: Any) -> None:
    """Write a JSON value to stdout: in lines for a person, in one line for a program."""
    pretty = is_terminal(sys.stdout)
    text = jsonl.pretty(value) if pretty else jsonl.encode(value).decode()
    # JSON's own line ends stay; everything else that steers can only stand inside of strings.
    write_json_text(text)


def write_json_text(text: str) -> None:
    """Write what is JSON already; always in UTF-8, whatever the locale."""
    flush()
    try:
        sys.stdout.buffer.write(escape_json(text).encode() + b"\n")
        sys.stdout.buffer.flush()
    except OSError as error:
        raise OutputLost from error


def flush() -> None:
    """Send off what was written, or raise `OutputLost`."""
    try:
        sys.stdout.flush()
    except OSError as error:
        raise OutputLost from error


def give_up_stdout() -> None:
    """Lead stdout nowhere, so that the interpreter's last flush finds nothing to complain about."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def write_table(
    headings: Sequence[str], rows: Iterable[Sequence[str]], *, colours: Sequence[str | None]
) -> None:
    """Write aligned columns: for people with headings and cut to the terminal, in a pipe whole."""
    cells = [[one_line(cell) for cell in row] for row in rows]
    room = terminal_columns(sys.stdout)
    if room is not None:
        cells = [list(headings), *cells]
    widths = [max(width(line[column]) for line in cells) for column in range(len(headings))]
    if room is not None:
        widths = [min(size, max(room * 2 // 5, 10)) for size in widths]
        widths[-1] = max(room - sum(widths[:-1]) - 2 * (len(widths) - 1), 8)
    for number, line in enumerate(cells):
        fitted = [pad(fit(cell, size), size) for cell, size in zip(line, widths, strict=True)]
        fitted[-1] = fitted[-1].rstrip()
        paints = colours if number or room is None else ["dim"] * len(line)
        painted = [
            coloured(cell, paint) if paint else cell
            for cell, paint in zip(fitted, paints, strict=True)
        ]
        write("  ".join(painted).rstrip() + "\n")
