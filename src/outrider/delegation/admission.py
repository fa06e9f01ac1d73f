"""Admission: how many children run at once, first come, first served.

It is also the backpressure that a provider asks for: no child starts during its pause. Whoever
waits for a provider holds no place, so that the children of other providers go first.
"""

import asyncio
import heapq
import os
import resource
import threading
import time
from collections.abc import AsyncGenerator
from concurrent.futures import Future
from contextlib import asynccontextmanager
from itertools import count

DESCRIPTORS_PER_CHILD = 8  # its connections, the files of its record, and what its start needs
MIN_FREE_DESCRIPTORS = 32


class ProcessAdmission:
    """The queue of one process, for callers in all its threads and event loops."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tickets = count()
        self._admitted = 0
        self._queue: list[tuple[int, Future[bool], int, str]] = []
        """A heap by ticket: the future that is told, the caller's limit, and its provider."""
        self._pauses: dict[str, float] = {}

    @asynccontextmanager
    async def enter(self, limit: int, provider: str) -> AsyncGenerator[None]:
        """Wait for a place among `limit`; it is free again when the context is left."""
        ticket, is_admitted = next(self._tickets), False
        while not is_admitted:
            if left := self._pause_left(provider):
                await asyncio.sleep(left)
            is_admitted = await self._wait_for_place(ticket, limit, provider)
        try:
            yield
        finally:
            self._admit(leaving=True)

    def pause(self, provider: str, seconds: float) -> None:
        """Admit no caller to `provider` for so long: it is overloaded, or limits the rate."""
        until = time.monotonic() + seconds
        self._pauses[provider] = max(until, self._pauses.get(provider, 0.0))

    def _pause_left(self, provider: str) -> float:
        return max(0.0, self._pauses.get(provider, 0.0) - time.monotonic())

    async def _wait_for_place(self, ticket: int, limit: int, provider: str) -> bool:
        """Return whether there is a place now; false where the provider has paused meanwhile."""
        with self._lock:
            if not self._queue and self._admitted < limit:
                is_free = not self._pause_left(provider)
                self._admitted += is_free
                return is_free
            place: Future[bool] = Future()
            heapq.heappush(self._queue, (ticket, place, limit, provider))
        self._admit(leaving=False)  # one that slept may be before all who wait
        try:
            return await asyncio.wrap_future(place)
        except asyncio.CancelledError:
            # A future that can't be cancelled has just been told: its place is passed on.
            self._admit(leaving=not place.cancel() and place.result())
            raise

    def _admit(self, *, leaving: bool) -> None:
        """Admit those who came first, as far as there is room after a caller that leaves."""
        told: list[tuple[Future[bool], bool]] = []
        with self._lock:
            self._admitted -= leaving
            while self._queue:
                _, place, limit, provider = self._queue[0]
                is_free = not self._pause_left(provider)
                if is_free and self._admitted >= limit and not place.cancelled():
                    break
                heapq.heappop(self._queue)
                if place.set_running_or_notify_cancel():
                    self._admitted += is_free
                    told.append((place, is_free))
        for place, is_free in told:
            place.set_result(is_free)


# By process: a fork has admitted none of those whom its parent has.
_admissions: dict[int, ProcessAdmission] = {}


def process_admission() -> ProcessAdmission:
    return _admissions.setdefault(os.getpid(), ProcessAdmission())


def max_children(wanted: int) -> int:
    """Return how many children at once this process has descriptors for, up to `wanted`."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return wanted
    return min(wanted, max(1, (limit - MIN_FREE_DESCRIPTORS) // DESCRIPTORS_PER_CHILD))
