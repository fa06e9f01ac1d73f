"""Supervises one run to its end: its hard and idle deadlines, its limits, its cancellation."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from outrider.delegation.collecting import Collector
from outrider.delegation.gate import Gate, MaskedEvent
from outrider.delegation.lines import ErrorText, Flooded, LineReader
from outrider.processes.shielding import wait_for_all
from outrider.protocol import jsonl
from outrider.protocol.brief import Brief
from outrider.protocol.events import Event, RequestEvent
from outrider.protocol.outcomes import TimeoutReason
from outrider.runtimes.runtime import ChildExit, Runtime
from outrider.settings.keys import Config

Reason = Literal["finished", "died", "not_started", "timed_out", "flooded", "cancelled"]


@dataclass(frozen=True, slots=True)
class Ending:
    """Why a run is over, as its parent saw it; `errors` is what the child printed to stderr."""

    reason: Reason
    detail: str = ""
    timeout: TimeoutReason | None = None
    signal: int | None = None
    errors: str = ""


OnRequest = Callable[[RequestEvent], Awaitable[Any]]
"""Returns the answer to a main agent's request, as JSON has it."""


class Supervisor:
    """Listens to one child, and ends it at a deadline, a limit or a cancellation.

    `changed` is told of each event, masked; `on_request` answers the requests of a main agent.
    """

    def __init__(
        self,
        gate: Gate,
        collector: Collector,
        config: Config,
        changed: Callable[[Event], None],
        on_request: OnRequest | None = None,
    ) -> None:
        limits = config.limits
        self._gate = gate
        self._collector = collector
        self._changed = changed
        self._on_request = on_request
        self._answers: set[asyncio.Future[None]] = set()
        self._timeout_seconds = config.subagents.timeout_ms / 1000
        self._idle_seconds = config.subagents.idle_timeout_ms / 1000
        self._lines = LineReader(max_bytes=limits.stdout_bytes, max_line=limits.event_bytes)
        self._errors = ErrorText(limits.stderr_bytes)
        self._begun = time.monotonic()
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[Ending] = self._loop.create_future()
        self._idle_timer: asyncio.TimerHandle | None = None
        self._deadline: asyncio.TimerHandle | None = None

    async def run(
        self,
        runtime: Runtime,
        brief: Brief,
        environment: Mapping[str, str],
        cancelled: asyncio.Event | None,
    ) -> Ending:
        """Return why the run is over, once the child and everything it started are gone."""
        child = asyncio.ensure_future(runtime.run(brief, environment, self))
        child.add_done_callback(self._on_exit)
        waiting = cancelled and asyncio.ensure_future(cancelled.wait())
        if waiting is not None:
            waiting.add_done_callback(self._on_cancel)
        self._deadline = self._loop.call_later(self._timeout_seconds, self._on_deadline)
        self._check_idleness()
        try:
            ending = await self._ended
        finally:
            for pending in (waiting, self._idle_timer, self._deadline, child, *self._answers):
                if pending is not None:
                    pending.cancel()
            await wait_for_all({child, *self._answers})
            for masked in self._gate.close():
                self._take(masked)
        # Masked before anything is cut: half a secret can't be recognised.
        return replace(
            ending,
            detail=self._gate.text(ending.detail),
            errors=self._gate.text(self._errors.text),
        )

    def on_events(self, data: bytes) -> None:
        """Take in bytes of events."""
        if self._ended.done():
            return
        try:
            for line in self._lines.feed(data):
                for masked in self._gate.events(line):
                    self._take(masked)
        except Flooded as flood:
            self._end(Ending("flooded", str(flood)))
        if self._collector.finish is not None:
            self._end(Ending("finished"))

    def on_link(self, send: Callable[[bytes], None]) -> None:
        """Take the way by which answers reach the child."""
        self._send = send

    def _take(self, masked: MaskedEvent) -> None:
        event = masked.event
        if isinstance(event, RequestEvent) and self._on_request is None:
            self._collector.refuse(event)
            return
        self._collector.take(masked)
        if isinstance(event, RequestEvent) and self._on_request is not None:
            answer = asyncio.ensure_future(self._answered(event, self._on_request))
            self._answers.add(answer)
            answer.add_done_callback(self._on_answered)
        self._changed(event)

    async def _answered(self, event: RequestEvent, on_request: OnRequest) -> None:
        answer = await on_request(event)
        self._collector.answered(event.id, answer)
        self._send(jsonl.encode({"id": event.id, "answer": answer}) + b"\n")

    def _on_answered(self, answer: asyncio.Future[None]) -> None:
        self._answers.discard(answer)
        if not answer.cancelled() and (error := answer.exception()) and not self._ended.done():
            self._ended.set_exception(error)

    def on_errors(self, data: bytes) -> None:
        """Take in what the child printed to stderr."""
        try:
            self._errors.feed(data)
        except Flooded as flood:
            self._end(Ending("flooded", str(flood)))

    def _on_exit(self, child: asyncio.Future[ChildExit]) -> None:
        if child.cancelled():
            return
        if error := child.exception():
            if not self._ended.done():
                self._ended.set_exception(error)
            return
        ended = child.result()
        reason: Reason = "died" if ended.started else "not_started"
        self._end(Ending(reason, ended.reason, signal=ended.signal))

    def _on_cancel(self, waiting: asyncio.Future[Literal[True]]) -> None:
        if not waiting.cancelled():
            self._end(Ending("cancelled"))

    def _on_deadline(self) -> None:
        """Enforce the hard deadline, which the time of unanswered requests doesn't count for."""
        left = self._begun + self._timeout_seconds + self._collector.waited() - time.monotonic()
        if self._collector.waited() and left > 0:
            self._deadline = self._loop.call_later(max(left, 0.05), self._on_deadline)
        else:
            self._end(Ending("timed_out", timeout=TimeoutReason.RUNTIME))

    def _check_idleness(self) -> None:
        """Enforce the idle timeout: look again when it would be over if nothing came."""
        since = max(self._begun, self._collector.idle_since())
        left = since + self._idle_seconds - time.monotonic()
        if left > 0:  # looked at again before a tool's time is over: it may end early
            wait = min(left, self._idle_seconds)
            self._idle_timer = self._loop.call_later(wait, self._check_idleness)
        else:
            self._end(Ending("timed_out", timeout=TimeoutReason.IDLE))

    def _end(self, ending: Ending) -> None:
        """Settle why the run is over. The first reason counts: what follows is its consequence."""
        if not self._ended.done():
            self._ended.set_result(ending)
