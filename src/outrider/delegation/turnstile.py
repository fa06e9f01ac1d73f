"""How many children run at once: first come, first served, and none into a provider's pause."""

import asyncio
import time
import weakref
from collections import deque
from types import TracebackType


class Turnstile:
    """Lets at most as many callers in as each of them allows; the others wait in order."""

    def __init__(self) -> None:
        self._inside = 0
        self._queue: deque[tuple[asyncio.Future[None], int]] = deque()
        self._pauses: dict[str, float] = {}

    def enter(self, most: int, provider: str) -> "Pass":
        """Return an async context manager that is entered when it is the caller's turn."""
        return Pass(self, most, provider)

    def pause(self, provider: str, seconds: float) -> None:
        """Keep new children away from a provider that asked for patience."""
        until = time.monotonic() + seconds
        self._pauses[provider] = max(until, self._pauses.get(provider, 0.0))

    async def wait(self, most: int, provider: str) -> None:
        """Return when the caller may go in; `leave` must follow."""
        if self._queue or self._inside >= most:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._queue.append((turn, most))
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self.leave()  # our turn had come just then: pass it on
                raise
        else:
            self._inside += 1
        await self._sit_out_pause(provider)

    async def _sit_out_pause(self, provider: str) -> None:
        try:
            while (left := self._pauses.get(provider, 0.0) - time.monotonic()) > 0:
                await asyncio.sleep(left)
        except asyncio.CancelledError:
            self.leave()
            raise

    def leave(self) -> None:
        """Make room for whoever waits longest."""
        self._inside -= 1
        while self._queue and (self._queue[0][0].done() or self._inside < self._queue[0][1]):
            turn, _ = self._queue.popleft()
            if not turn.done():
                self._inside += 1
                turn.set_result(None)


class Pass:
    """One caller's way in and out."""

    def __init__(self, turnstile: Turnstile, most: int, provider: str) -> None:
        self._turnstile = turnstile
        self._most = most
        self._provider = provider

    async def __aenter__(self) -> None:
        await self._turnstile.wait(self._most, self._provider)

    async def __aexit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self._turnstile.leave()


# One for each event loop: futures of one loop mean nothing to another.
_turnstiles: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Turnstile]" = (
    weakref.WeakKeyDictionary()
)


def turnstile() -> Turnstile:
    """Return the turnstile of the running event loop."""
    return _turnstiles.setdefault(asyncio.get_running_loop(), Turnstile())
