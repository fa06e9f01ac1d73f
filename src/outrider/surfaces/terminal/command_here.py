"""A command of ours in the terminal of another one, such as `chat`."""

import asyncio
import signal
import sys
from collections.abc import Sequence


async def run_here(command: str, words: Sequence[str]) -> int:
    """Return the exit code of a command that has this terminal. Ctrl-C ends that command alone."""
    running = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "outrider", command, *words)
    )
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, lambda: None)  # the terminal sends it to both
    try:
        return await running.wait()
    finally:
        loop.remove_signal_handler(signal.SIGINT)
