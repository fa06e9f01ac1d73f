"""The places for background runs, which all processes of one user share.

A place is a lock on a file, and so is the queue before them: the kernel releases both when their
holder dies, however it dies. Only the first in the queue looks for a free place.
"""

import asyncio
import fcntl
import os
from collections.abc import AsyncGenerator
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from outrider.processes.threads import in_thread

LOOK_EVERY_SECONDS = 0.05


@asynccontextmanager
async def user_place(folder: Path, limit: int) -> AsyncGenerator[None]:
    """Wait for one of `limit` places, first come, first served, and hold it in the context."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    with _opened(folder / "queue") as queue:
        # If this is cancelled, the thread lets go of the queue as soon as it has its turn.
        await in_thread(fcntl.flock)(queue, fcntl.LOCK_EX)
        while (place := _free_place(folder, limit)) is None:
            await asyncio.sleep(LOOK_EVERY_SECONDS)
    with place:
        yield


def free_places(folder: Path, limit: int) -> int:
    """Return how many of the places are free now."""
    with ExitStack() as held:
        places = (_free_place(folder, limit) for _ in range(limit if folder.exists() else 0))
        taken = [held.enter_context(place) for place in iter(places.__next__, None)]
    return len(taken) if folder.exists() else limit


def _free_place(folder: Path, limit: int) -> BinaryIO | None:
    """Return a file that holds a place while it is open; None where all of them are taken."""
    for number in range(limit):
        place = _opened(folder / str(number))
        with suppress(BlockingIOError):
            fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return place
        place.close()
    return None


def _opened(path: Path) -> BinaryIO:
    return open(path, "wb")
