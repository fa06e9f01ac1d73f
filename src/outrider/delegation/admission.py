"""Admission: how many children run at once, first come, first served.

It is also the backpressure that a provider asks for: no child starts during its pause. There is
one admission for the whole process, for callers in all threads and event loops.
"""

import asyncio
import os
import resource
import threading
import time
from collections import deque
from collections.abc import AsyncGenerator
from concurrent.futures import Future
from contextlib import asynccontextmanager

DESCRIPTORS_PER_CHILD = 8
"""Its connections, the files of its record, and what its start needs."""
MIN_FREE_DESCRIPTORS = 32


class Admission:
    """Admits callers up to the limit that each of them states; the others wait in order."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._admitted = 0
        self._queue: deque[tuple[Future[None], int]] = deque()
        self._pauses: dict[str, float] = {}

    @asynccontextmanager
    async def enter(self, limit: int, provider: str) -> AsyncGenerator[None]:
        """Wait for admission; the place is free again when the context is left."""
        await self._queued(limit)
        try:
            while (left := self._pauses.get(provider, 0.0) - time.monotonic()) > 0:
                await asyncio.sleep(left)
            yield
        finally:
            self._admit(leaving=True)

    def pause(self, provider: str, seconds: float) -> None:
        """Admit no caller to `provider` for so long: it is overloaded, or limits the rate."""
        until = time.monotonic() + seconds
        self._pauses[provider] = max(until, self._pauses.get(provider, 0.0))

    async def _queued(self, limit: int) -> None:
        with self._lock:
            if not self._queue and self._admitted < limit:
                self._admitted += 1
                return
            place: Future[None] = Future()
            self._queue.append((place, limit))
        try:
            await asyncio.wrap_future(place)
        except asyncio.CancelledError:
            # A future that can't be cancelled has just been admitted: its place is passed on.
            self._admit(leaving=not place.cancel())
            raise

    def _admit(self, *, leaving: bool) -> None:
        """Admit those who waited longest, as far as there is room after a caller that leaves."""
        admitted: list[Future[None]] = []
        with self._lock:
            self._admitted -= leaving
            while self._queue and (self._queue[0][0].done() or self._admitted < self._queue[0][1]):
                place, _ = self._queue.popleft()
                if place.set_running_or_notify_cancel():
                    self._admitted += 1
                    admitted.append(place)
        for place in admitted:
            place.set_result(None)


# By process: a fork has admitted none of those whom its parent has.
_admissions: dict[int, Admission] = {}


def admission() -> Admission:
    """Return the admission of this process."""
    return _admissions.setdefault(os.getpid(), Admission())


def max_children(wanted: int) -> int:
    """Return how many children at once this process has descriptors for, up to `wanted`."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return wanted
    return min(wanted, max(1, (limit - MIN_FREE_DESCRIPTORS) // DESCRIPTORS_PER_CHILD))
