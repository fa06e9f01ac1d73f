"""Questions on a terminal, answered with a line, while the event loop goes on."""

import asyncio
import os
import sys
import termios
from contextlib import suppress


async def read_answer(question: str) -> str:
    """Return what a person types after the question, in small letters."""
    with suppress(termios.error):  # what was typed before they saw it is no answer
        termios.tcflush(0, termios.TCIFLUSH)
    return (await read_line(question)).strip().lower()


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
