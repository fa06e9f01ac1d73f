"""Asking the person whether the main agent may write, or run a command."""

import asyncio
import os
import sys
import termios
from contextlib import suppress
from typing import Any

from outrider.delegation.main_session import Decision
from outrider.schemas.values import is_object
from outrider.surfaces.terminal.progress import View
from outrider.surfaces.text import as_text, clean_line, quoted

MAX_SHOWN = 4_000
CHOICES = "Allow it? [o]nce, for the [s]ession, [N]o: "
ANSWERS: dict[str, Decision] = {"o": "once", "y": "once", "yes": "once", "s": "session"}


async def ask_permission(view: View, name: str, args: Any) -> Decision:
    """Return what the person says to a call, which they see whole or are told they don't."""
    command = args.get("command") if is_object(args) else None
    shown = quoted(command if isinstance(command, str) else as_text(args), MAX_SHOWN)
    with view.pause():
        with suppress(termios.error):  # what was typed before they saw it is no answer
            termios.tcflush(0, termios.TCIFLUSH)
        said = await read_line(f"main wants to use {clean_line(name)}:\n{shown}\n{CHOICES}")
    return ANSWERS.get(said.strip().lower(), "no")


async def read_line(question: str) -> str:
    """Return the line that a person types after the question."""
    print(question, end="", file=sys.stderr, flush=True)
    loop, typed = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(0, typed.set)
    try:
        await typed.wait()
        return os.read(0, 4096).decode(errors="replace")
    finally:
        loop.remove_reader(0)
