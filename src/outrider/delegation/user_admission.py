"""The places for background runs, which all processes of one user share.

A place is a lock on a file, and so is the queue before them: the kernel releases both when their
holder dies, however it dies. Only the first in the queue looks for a free place.
"""

import asyncio
import fcntl
import os
import threading
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from outrider.processes.threads import in_thread

LOOK_EVERY_SECONDS = 0.05


@asynccontextmanager
async def user_place(folder: Path, limit: int) -> AsyncGenerator[None]:
    """Wait for one of `limit` places, first come, first served, and hold it in the context."""
    given_up = threading.Event()
    os.makedirs(folder, mode=0o700, exist_ok=True)
    try:
        place: int | None = await in_thread(_wait_for_place)(folder, limit, given_up)
    except asyncio.CancelledError:
        given_up.set()
        raise
    try:
        yield
    finally:
        if place is not None:
            os.close(place)


def _wait_for_place(folder: Path, limit: int, given_up: threading.Event) -> int | None:
    """Return a descriptor that holds a place; None where the wait was given up."""
    queue = _opened(folder / "queue")
    try:
        fcntl.flock(queue, fcntl.LOCK_EX)
        while not given_up.is_set():
            if (place := _free_place(folder, limit)) is not None:
                return place
            time.sleep(LOOK_EVERY_SECONDS)
        return None
    finally:
        os.close(queue)


def _free_place(folder: Path, limit: int) -> int | None:
    """Return a descriptor that holds a place; None where all of them are taken."""
    for number in range(limit):
        place = _opened(folder / str(number))
        with suppress(BlockingIOError):
            fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return place
        os.close(place)
    return None


def _opened(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
