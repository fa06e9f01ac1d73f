"""Watching a child to its end: its pipes, its deadlines, its limits, all on one selector."""

import asyncio
import os
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

from outrider.delegation.collecting import Collector
from outrider.delegation.lines import ErrorText, Flooded, LineReader
from outrider.protocol.outcomes import TimeoutReason
from outrider.runtimes.cold import Child
from outrider.settings.keys import Config

CHUNK = 1 << 18
MAX_STOP_SECONDS = 20.0
MAX_WARM_START_SECONDS = 30.0
"""How long a warm process may take to fork: many wait for it at once on a small machine."""

T = TypeVar("T")
Reason = Literal["finished", "died", "not_started", "stuck", "timed_out", "flooded", "cancelled"]


@dataclass(frozen=True, slots=True)
class Ending:
    """Why a child is no more, as its parent saw it; `stuck` is a warm process that doesn't fork."""

    reason: Reason
    detail: str = ""
    timeout: TimeoutReason | None = None
    signal: int | None = None
    errors: str = ""


class Watch:
    """Follows one child. `run` returns when the child and all it started are gone."""

    def __init__(
        self, child: Child, collector: Collector, config: Config, changed: Callable[[], None]
    ) -> None:
        limits = config.limits
        self._child = child
        self._collector = collector
        self._changed = changed
        self._timeout_seconds = config.subagents.timeout_ms / 1000
        self._idle_seconds = config.subagents.idle_timeout_ms / 1000
        self._lines = LineReader(max_bytes=limits.stdout_bytes, max_line=limits.event_bytes)
        self._errors = ErrorText(limits.stderr_bytes)
        self._status = b""
        self._started = False
        self._begun = time.monotonic()
        self._loop = asyncio.get_running_loop()
        self._stopping: asyncio.Future[Ending] = self._loop.create_future()
        self._gone: asyncio.Future[None] = self._loop.create_future()

    async def run(self, cancelled: asyncio.Event) -> Ending:
        """Return how the child ended; `cancelled` ends it from outside."""
        cancelling = asyncio.ensure_future(cancelled.wait())
        cancelling.add_done_callback(self._on_cancel)
        deadline = self._loop.call_later(self._timeout_seconds, self._on_deadline)
        late = self._loop.call_later(MAX_WARM_START_SECONDS, self._on_late)
        idle = asyncio.ensure_future(self._watch_idleness())
        try:
            self._listen()
            ending = await self._stopping
        finally:
            for waiting in (cancelling, idle, deadline, late):
                waiting.cancel()
            await self._until_gone()
        return self._completed(ending)

    def _listen(self) -> None:
        self._loop.add_reader(self._child.events, self._on_events)
        self._loop.add_reader(self._child.errors, self._on_errors)
        self._loop.add_reader(self._child.status, self._on_status)
        if not self._child.send_start():
            self._loop.add_writer(self._child.lifeline, self._on_writable)

    def _on_writable(self) -> None:
        if self._child.send_start():
            self._loop.remove_writer(self._child.lifeline)

    def _on_events(self) -> None:
        data = self._read(self._child.events)
        if data and not self._stopping.done():
            self._take_in(data)

    def _take_in(self, data: bytes) -> None:
        try:
            for line in self._lines.feed(data):
                self._collector.feed(line)
        except Flooded as flood:
            self._end(Ending("flooded", str(flood)))
        if self._collector.finish is not None:
            self._end(Ending("finished"))
        self._changed()

    def _on_errors(self) -> None:
        data = self._read(self._child.errors)
        try:
            self._errors.feed(data or b"")
        except Flooded as flood:
            self._end(Ending("flooded", str(flood)))

    def _on_status(self) -> None:
        data = self._read(self._child.status)
        if data:
            self._status += data
            self._note_guardian()
        elif data is None:
            self._drain()
            self._end(Ending("died" if self._started else "not_started"))
            if not self._gone.done():
                self._gone.set_result(None)

    def _note_guardian(self) -> None:
        """Take down who guards the child; that it is known shows that the child was started."""
        first, end, _ = self._status.partition(b"\n")
        if end:
            self._child.guardian = int(first.removeprefix(b"pid "))
            self._started = True

    def _drain(self) -> None:
        """Take in what the child said last: it may still be in the pipe."""
        while not self._stopping.done() and (data := self._read(self._child.events)):
            self._take_in(data)

    def _read(self, descriptor: int) -> bytes | None:
        """Return what is there now, empty for nothing yet, None where nothing more will come."""
        try:
            data = os.read(descriptor, CHUNK)
        except BlockingIOError:
            return b""
        if data:
            return data
        self._loop.remove_reader(descriptor)
        return None

    def _on_cancel(self, waiting: asyncio.Future[Literal[True]]) -> None:
        if not waiting.cancelled():
            self._end(Ending("cancelled"))

    def _on_deadline(self) -> None:
        self._on_late()
        self._end(Ending("timed_out", timeout=TimeoutReason.RUNTIME))

    @property
    def _is_nobody(self) -> bool:
        """Whether there is no process yet that could be waited for: a warm one hasn't forked."""
        return self._child.process is None and not self._started

    def _on_late(self) -> None:
        if self._is_nobody:
            self._end(Ending("stuck"))

    async def _watch_idleness(self) -> None:
        while (left := self._idle_since() + self._idle_seconds - time.monotonic()) > 0:
            await asyncio.sleep(left)
        self._on_late()
        self._end(Ending("timed_out", timeout=TimeoutReason.IDLE))

    def _idle_since(self) -> float:
        return max(self._begun, self._collector.idle_since())

    def _end(self, ending: Ending) -> None:
        """Settle why the child ends. The first reason counts: what follows is its consequence."""
        if not self._stopping.done():
            self._stopping.set_result(ending)

    async def _until_gone(self) -> None:
        """Let the guardian end what is left, and see to it that it does."""
        self._loop.remove_writer(self._child.lifeline)
        self._child.stop()
        try:
            # A child begins only after we were told of it, and with its lifeline whole: so one
            # that we know nothing of now never will, and another can be started in its place.
            self._on_status()
            if not self._is_nobody:
                await _shielded(asyncio.wait_for(self._gone, MAX_STOP_SECONDS))
        except TimeoutError:
            self._child.kill()
        finally:
            for descriptor in (self._child.events, self._child.errors, self._child.status):
                self._loop.remove_reader(descriptor)
            self._child.release()

    def _completed(self, ending: Ending) -> Ending:
        killed: int | None = None
        if ending.reason == "stuck" and self._started:  # at the very last moment
            ending = replace(ending, reason="died")
        if ending.reason == "died":
            last = self._status.decode(errors="replace").splitlines()[-1:]
            kind, _, number = "".join(last).partition(" ")
            # No last word from the guardian: it was killed itself, and the child with it.
            killed = int(number) if kind == "signal" else (9 if kind == "pid" else None)
        return replace(ending, signal=killed, errors=self._errors.text)


async def _shielded(work: Coroutine[Any, Any, T]) -> T:
    """Return what `work` returns, however often we are cancelled meanwhile; then be cancelled."""
    task = asyncio.ensure_future(work)
    cancelled = False
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            cancelled = True
    if cancelled:
        task.exception()
        raise asyncio.CancelledError
    return task.result()
