"""Questions to the person at the terminal: yes or no, or any line."""

import asyncio
import os
import sys

from outrider.agents.definitions import AgentDefinition
from outrider.surfaces.terminal import output
from outrider.surfaces.text import clean_line


async def confirm(_agent: AgentDefinition, reason: str) -> bool:
    """Ask whether an agent may run, and return whether the answer is yes."""
    print(f"{clean_line(reason)}. Run it? [y/N] ", end="", file=sys.stderr, flush=True)
    said = sys.stdin.readline()
    if not said.endswith("\n"):
        output.end_line()
    return said.strip().lower() in ("y", "yes")


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
