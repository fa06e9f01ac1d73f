"""How many children run at once: first come, first served, and none into a provider's pause.

There is one for the whole process, whichever threads and event loops its callers are in.
"""

import asyncio
import os
import threading
import time
from collections import deque
from collections.abc import AsyncGenerator
from concurrent.futures import Future
from contextlib import asynccontextmanager

DESCRIPTORS_EACH = 8
"""What one child takes: its connections, the files of its record, and what its start needs."""
DESCRIPTORS_KEPT_FREE = 32


class Admission:
    """Lets at most as many callers in as each of them allows; the others wait in order."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._queue: deque[tuple[Future[None], int]] = deque()
        self._pauses: dict[str, float] = {}

    @asynccontextmanager
    async def enter(self, most: int, provider: str) -> AsyncGenerator[None]:
        """Return an async context manager that is entered when it is the caller's turn."""
        await self._wait(most, provider)
        try:
            yield
        finally:
            self._admit(left=True)

    def pause(self, provider: str, seconds: float) -> None:
        """Keep new children away from a provider that asked for patience."""
        until = time.monotonic() + seconds
        self._pauses[provider] = max(until, self._pauses.get(provider, 0.0))

    async def _wait(self, most: int, provider: str) -> None:
        turn = self._queued(most)
        if turn is not None:
            try:
                await asyncio.wrap_future(turn)
            except asyncio.CancelledError:
                # Where it can't be cancelled, our turn had come just then: it is passed on.
                self._admit(left=not turn.cancel())
                raise
        await self._sit_out_pause(provider)

    def _queued(self, most: int) -> Future[None] | None:
        """Return what to wait for; None where the caller is inside already."""
        with self._lock:
            if not self._queue and self._inside < most:
                self._inside += 1
                return None
            turn: Future[None] = Future()
            self._queue.append((turn, most))
            return turn

    async def _sit_out_pause(self, provider: str) -> None:
        try:
            while (left := self._pauses.get(provider, 0.0) - time.monotonic()) > 0:
                await asyncio.sleep(left)
        except asyncio.CancelledError:
            self._admit(left=True)
            raise

    def _admit(self, *, left: bool) -> None:
        """Let in whoever waits longest and finds room; `left` says that somebody went out."""
        admitted: list[Future[None]] = []
        with self._lock:
            self._inside -= left
            while self._queue and (self._queue[0][0].done() or self._inside < self._queue[0][1]):
                turn, _ = self._queue.popleft()
                if turn.set_running_or_notify_cancel():
                    self._inside += 1
                    admitted.append(turn)
        for turn in admitted:
            turn.set_result(None)


# By process: whoever is inside in a host is not inside in its fork.
_admissions: dict[int, Admission] = {}


def admission() -> Admission:
    """Return the admission of this process."""
    return _admissions.setdefault(os.getpid(), Admission())


def max_children(wanted: int) -> int:
    """Return how many children at once this process has the descriptors for, up to `wanted`."""
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return wanted
    return min(wanted, max(1, (limit - DESCRIPTORS_KEPT_FREE) // DESCRIPTORS_EACH))
