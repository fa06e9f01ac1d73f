"""What a command is given: the task, files or a pipe that are added to it, what a person types."""

import asyncio
import json
import os
import select
import stat
import sys
from collections.abc import Sequence
from typing import Any, BinaryIO

from outrider.delegation.request import MAX_TASK_BYTES, invalid
from outrider.surfaces.cli import output
from outrider.surfaces.text import count

MAX_ADDED_BYTES = 1 << 20
STDIN_WAIT_SECONDS = 2.0
"""How long a pipe may say nothing before it counts as one that nobody writes to."""


def whole_task(task: str, files: Sequence[str]) -> str:
    """Return the task with what is piped in and the files that are named; raises `Refusal`.

    Each of them is quoted as data, and told on stderr. `-` for a task reads it from stdin.
    """
    parts = [_typed() if task == "-" else task]
    for path in files:
        parts.append(_added(_read(path, "--file"), path))
    if task != "-" and (piped := _piped()).strip():
        parts.append(_added(piped, "stdin"))
    return "\n\n".join(parts)


def _added(raw: bytes, name: str) -> str:
    from outrider.protocol.quoting import untrusted

    if b"\0" in raw:
        raise invalid(f"{name} can't be added to the task: it isn't text.")
    output.say(f"{count(len(raw), 'byte')} of {name} are added to the task.")
    return untrusted(name, raw.decode("utf-8-sig", errors="replace"))


def _read(path: str, option: str, problem: str = "can't be read") -> bytes:
    try:
        with open(path, "rb") as file:
            return _bounded(file, f"{option} {path!r}")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise invalid(f"{option} {path!r} {problem}: {reason}.") from None


def _bounded(file: BinaryIO, name: str) -> bytes:
    raw = file.read(MAX_ADDED_BYTES + 1)
    if len(raw) > MAX_ADDED_BYTES:
        advice = "Name the file in the task, so that the agent reads what it needs."
        raise invalid(f"{name} has more than {MAX_ADDED_BYTES:,} bytes. {advice}")
    return raw


def _piped() -> bytes:
    """Return what stdin sends, if it is a pipe or a file; a pipe that stays silent is left."""
    try:
        mode = os.fstat(0).st_mode
        if not (stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)):
            return b""
        if not select.select([0], [], [], STDIN_WAIT_SECONDS)[0]:
            output.say("nothing comes from stdin, so the task goes without it; - waits for it.")
            return b""
        return _bounded(sys.stdin.buffer, "stdin")
    except OSError:
        return b""  # it can't be read: opened for writing, or a socket that is gone


def _typed() -> str:
    """Return the task that a person types or a program pipes; raises `Refusal`."""
    if sys.stdin.isatty():
        output.say("type the task, then press Ctrl-D.")
    try:
        raw = sys.stdin.buffer.read(MAX_TASK_BYTES + 1)
        if len(raw) > MAX_TASK_BYTES:
            advice = "Put the bulk into a file and name the file in the task."
            raise invalid(f"The task on stdin is longer than {MAX_TASK_BYTES:,} bytes. {advice}")
        return raw.decode("utf-8-sig")
    except OSError as error:
        raise invalid(f"The task can't be read from stdin: {error.strerror}.") from None
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


async def typed_line(question: str) -> str:
    """Return the line that a person types after the question."""
    print(question, end="", file=sys.stderr, flush=True)
    loop, typed = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(0, typed.set)
    try:
        await typed.wait()
        return os.read(0, 4096).decode(errors="replace")
    finally:
        loop.remove_reader(0)
