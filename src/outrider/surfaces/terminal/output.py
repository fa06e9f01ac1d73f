"""Writing to people and programs: the answer goes to stdout, everything else to stderr."""

import os
import select
import stat
import sys
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any, TextIO, cast

from outrider.protocol import jsonl
from outrider.protocol.envelope import Envelope, is_success
from outrider.protocol.errors import OutriderError
from outrider.protocol.exit_codes import EXIT_FAILED
from outrider.surfaces.text import clean, clean_line, escape_json, warnings_of

if TYPE_CHECKING:
    from outrider.surfaces.table import Report

_COLOURS = {"bold": 1, "dim": 2, "red": 31, "green": 32, "yellow": 33, "cyan": 36}


class OutputLost(OutriderError):
    """Stdout takes no more output: its reader has gone, or the disk is full."""


def open_streams() -> None:
    """Make the three standard streams usable, also where the caller closed some of them."""
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            # Otherwise the next file that is opened would become a standard stream.
            os.open(os.devnull, os.O_RDWR)
    sys.stdin = sys.stdin or os.fdopen(0, closefd=False)
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)
    for stream in (sys.stdout, sys.stderr):
        cast("TextIOWrapper", stream).reconfigure(errors="backslashreplace")


def watch_reader(stop: Callable[[], None]) -> None:
    """Call `stop` as soon as nobody can read stdout: whoever wanted the answer has ended."""
    import asyncio  # whoever calls this has loaded it

    loop = asyncio.get_running_loop()

    def look() -> None:
        loop.remove_reader(1)
        if reader_has_gone():
            stop()

    if stat.S_IFMT(os.fstat(1).st_mode) in (stat.S_IFIFO, stat.S_IFSOCK):
        loop.add_reader(1, look)


def reader_has_gone() -> bool:
    (hung_up := select.poll()).register(1, 0)
    return bool(hung_up.poll(0))


def is_plain(stream: TextIO) -> bool:
    """Whether `stream` gets neither colour nor a live view."""
    draws = stream.isatty() and "utf" in stream.encoding.lower()
    return not draws or os.environ.get("TERM") == "dumb"


def coloured(text: str, colour: str | None) -> str:
    """Return `text` in a colour, where stdout shows colours."""
    if colour is None or is_plain(sys.stdout) or os.environ.get("NO_COLOR"):
        return text
    return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m"


def say(message: str) -> None:
    with suppress(OSError, ValueError):
        print(f"outrider: {clean_line(message)}", file=sys.stderr, flush=True)


def warn(warnings: Iterable[str]) -> None:
    for warning in warnings_of(warnings):
        say(warning)


def end_line() -> None:
    """End the terminal's line after Ctrl-C or Ctrl-D."""
    if sys.stderr.isatty():
        with suppress(OSError, ValueError):
            print(file=sys.stderr, flush=True)


@contextmanager
def _stdout() -> Generator[TextIO]:
    try:
        yield sys.stdout
    except OSError as error:
        raise OutputLost(error.strerror or str(error)) from error


def write_clean(text: str) -> None:
    """Write text to stdout that is clean already."""
    with _stdout() as stdout:
        stdout.write(text)


def write_text(text: str) -> None:
    """Write any text to stdout, cleaned, with a newline at its end."""
    cleaned = clean(text)
    write_clean(cleaned if cleaned.endswith("\n") else f"{cleaned}\n")


def write_answer(text: str) -> None:
    """Write an answer to stdout: Markdown that is drawn on a terminal, as it is in a pipe."""
    if is_plain(sys.stdout):
        return write_text(text)
    from outrider.surfaces.terminal.drawing import Answer, console

    with _stdout() as stdout:
        return console(stdout).print(Answer(text))


def write_json(value: Any) -> None:
    """Write a JSON value to stdout: indented on a terminal, on one line in a pipe."""
    write_json_text(jsonl.pretty(value) if sys.stdout.isatty() else jsonl.encode(value).decode())


def write_envelope(envelope: Envelope, text: str, *, as_json: bool) -> int:
    """Write what a tool answered, whole or as text, or say why it didn't; return the exit code."""
    if as_json:
        write_json(envelope)
    elif is_success(envelope):
        write_text(text)
    else:
        from outrider.tools.formatting import error_line  # late: it loads all of the tools' room

        say(error_line(envelope))
    return 0 if is_success(envelope) else EXIT_FAILED


def write_json_text(text: str) -> None:
    """Write JSON text to stdout, in UTF-8 in every locale."""
    flush()
    with _stdout() as stdout:
        stdout.buffer.write(escape_json(text).encode() + b"\n")
        stdout.buffer.flush()


def flush() -> None:
    """Flush stdout, or raise `OutputLost`."""
    with _stdout() as stdout:
        stdout.flush()


def write_report(report: "Report", *, as_json: bool) -> None:
    """Write a report: as JSON, cut to fit on a terminal, or whole; its notes go to stderr."""
    if as_json:
        return write_json(report.data)
    from shutil import get_terminal_size

    room = get_terminal_size().columns if sys.stdout.isatty() else None
    for line in report.drawn(room, coloured):
        write_clean(f"{line}\n")
    flush()
    for note in report.notes:
        say(note)
    return None
