"""The task of a command: what is typed or piped in, with the files that are added to it."""

import json
import os
import select
import stat
import sys
from collections.abc import Sequence
from typing import Any, BinaryIO

from outrider.delegation.request import MAX_TASK_BYTES, invalid
from outrider.surfaces.terminal import output
from outrider.surfaces.text import count

MAX_ADDED_BYTES = 1 << 20
STDIN_WAIT_SECONDS = 2.0  # a pipe that is silent for longer has nobody who writes to it


def whole_task(task: str, files: Sequence[str]) -> str:
    """Return the task, read from stdin for `-`, with files and a pipe quoted; raises `Refusal`."""
    parts = [_read_task() if task == "-" else task]
    for path in files:
        parts.append(_add(_read(path, "--file"), path))
    if task != "-" and (piped := _read_pipe()).strip():
        parts.append(_add(piped, "stdin"))
    return "\n\n".join(parts)


def _add(raw: bytes, name: str) -> str:
    from outrider.protocol.quoting import untrusted

    if b"\0" in raw:
        raise invalid(f"{name} isn't text, so it can't be added to the task.")
    output.say(f"added {count(len(raw), 'byte')} from {name} to the task.")
    return untrusted(name, raw.decode("utf-8-sig", errors="replace"))


def _read(path: str, option: str, problem: str = "can't be read") -> bytes:
    try:
        with open(path, "rb") as file:
            return _read_bounded(file, f"{option} {path!r}")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise invalid(f"{option} {path!r} {problem}: {reason}.") from None


def _read_bounded(file: BinaryIO, name: str, most: int = MAX_ADDED_BYTES) -> bytes:
    raw = file.read(most + 1)
    if len(raw) > most:
        advice = "Put the path of a file in the task instead."
        raise invalid(f"{name} is longer than {most:,} bytes. {advice}")
    return raw


def _read_pipe() -> bytes:
    """Return what stdin sends, if it is a pipe or a file; a pipe that stays silent is left."""
    try:
        mode = os.fstat(0).st_mode
        if not (stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)):
            return b""
        if not select.select([0], [], [], STDIN_WAIT_SECONDS)[0]:
            output.say("stdin sent nothing, so it is ignored; use - as the task to wait for it.")
            return b""
        return _read_bounded(sys.stdin.buffer, "stdin")
    except OSError:
        return b""  # it can't be read: opened for writing, or a socket that is gone


def _read_task() -> str:
    """Return the task that a person types or a program pipes; raises `Refusal`."""
    if sys.stdin.isatty():
        output.say("type the task, then press Ctrl-D.")
    try:
        raw = _read_bounded(sys.stdin.buffer, "The task on stdin", MAX_TASK_BYTES)
        return raw.decode("utf-8-sig")
    except OSError as error:
        raise invalid(f"Can't read the task from stdin: {error.strerror}.") from None
    except UnicodeDecodeError as error:
        raise invalid(f"The task on stdin isn't UTF-8: see byte {error.start + 1}.") from None


def schema_from(given: str) -> Any:
    """Return the JSON Schema that is given as JSON, or as the path of a file that holds it."""
    inline, label = given.strip(), "--schema"
    raw = inline.encode(errors="replace")
    if not inline.startswith("{") and inline not in ("true", "false"):
        raw, label = _read(given, label, "is neither JSON nor a file"), f"{label} {given!r}"
    try:
        return json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise invalid(f"{label} isn't JSON: {error}.") from None
