"""Supervises one run to its end: its hard and idle deadlines, its limits, its cancellation."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any, Literal

from outrider.delegation.collecting import Collector
from outrider.delegation.deadlines import Deadlines
from outrider.delegation.event_masking import EventMasker, MaskedEvent
from outrider.delegation.output_limits import ErrorText, Flooded, LineReader
from outrider.processes.shielding import wait_for_all
from outrider.protocol import jsonl
from outrider.protocol.brief import Brief
from outrider.protocol.data import frozen
from outrider.protocol.events import ParentRequestEvent, SessionEvent
from outrider.protocol.outcomes import TimeoutReason
from outrider.runtimes.runtime import ChildExit, Runtime
from outrider.settings.keys import Config

Reason = Literal["finished", "died", "not_started", "timed_out", "flooded", "cancelled"]


@frozen
class Ending:
    """Why a run is over, as its parent saw it; `errors` is what the child printed to stderr."""

    reason: Reason
    detail: str = ""
    timeout: TimeoutReason | None = None
    signal: int | None = None
    errors: str = ""


OnRequest = Callable[[ParentRequestEvent], Awaitable[Any]]
"""Returns the answer to a main agent's request, as JSON has it."""


class Supervisor:
    """Listens to one child, and ends it at a deadline, a limit or a cancellation.

    `changed` is told of each event, masked; `on_request` answers the requests of a main agent.
    `on_begun` is called when the child has its brief or is waited for, and before its events.
    """

    def __init__(
        self,
        masker: EventMasker,
        collector: Collector,
        config: Config,
        changed: Callable[[MaskedEvent], None],
        on_request: OnRequest | None = None,
        on_begun: Callable[[], object] = lambda: None,
    ) -> None:
        limits = config.limits
        self._masker = masker
        self._collector = collector
        self._changed = changed
        self._on_request = on_request
        self._on_begun = on_begun
        self._answers: set[asyncio.Future[None]] = set()
        self._send: Callable[[bytes], None] | None = None  # sends to the child, once there is one
        self._is_listening = False  # whether the child has read its brief, and takes messages
        self._unsent: list[bytes] = []
        timeout_ms, idle_ms = config.subagents.timeout_ms, config.subagents.idle_timeout_ms
        self._limits = timeout_ms / 1000, idle_ms / 1000
        self._deadlines = Deadlines(*self._limits, time.monotonic())
        self._lines = LineReader(max_bytes=limits.stdout_bytes, max_line=limits.event_bytes)
        self._errors = ErrorText(limits.stderr_bytes)
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[Ending] = self._loop.create_future()
        self._timer: asyncio.TimerHandle | None = None

    async def run(
        self,
        runtime: Runtime,
        brief: Brief,
        environment: Mapping[str, str],
        cancelled: asyncio.Event | None,
        place: AbstractAsyncContextManager[None] | None = None,
    ) -> Ending:
        """Return why the run is over, once the child and everything it started are gone.

        `place` is what the child waits for; until it has that, no deadline comes closer.
        """
        start = partial(runtime.run, brief, environment, self)
        child = asyncio.ensure_future(self._run_in(place or nullcontext(), start))
        child.add_done_callback(self._on_exit)
        waiting = cancelled and asyncio.ensure_future(cancelled.wait())
        if waiting is not None:
            waiting.add_done_callback(lambda done: done.cancelled() or self.stop())
        try:
            ending = await self._ended
        finally:
            for pending in (waiting, self._timer, child, *self._answers):
                if pending is not None:
                    pending.cancel()
            await wait_for_all({child, *self._answers})
            for masked in self._masker.close():
                self._take(masked)
        # Masked before anything is cut: half a secret can't be recognised.
        return replace(
            ending,
            detail=self._masker.text(ending.detail),
            errors=self._masker.text(self._errors.text),
        )

    async def _run_in(
        self, place: AbstractAsyncContextManager[None], start: Callable[[], Awaitable[ChildExit]]
    ) -> ChildExit:
        async with place:
            self._deadlines = Deadlines(*self._limits, time.monotonic())
            self._enforce_deadlines()
            # Behind this step, in which a child is sent its brief unless it has to be waited for.
            self._loop.call_soon(self._on_begun)
            return await start()

    def tell(self, text: str) -> str:
        """Pass a message on to the child, and return the id that the transcript has it under."""
        message = os.urandom(8).hex()
        self._unsent.append(jsonl.encode({"id": message, "text": text}) + b"\n")
        self._send_messages()
        return message

    def _send_messages(self) -> None:
        if self._send is not None and self._is_listening:
            for message in self._unsent:
                self._send(message)
            self._unsent.clear()

    def stop(self) -> None:
        """End the run as one that was cancelled."""
        self._end(Ending("cancelled"))

    def on_events(self, data: bytes) -> None:
        if self._ended.done():
            return
        self._on_begun()
        try:
            for line in self._lines.feed(data):
                for masked in self._masker.events(line):
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
        if isinstance(event, ParentRequestEvent) and self._on_request is None:
            self._collector.refuse(event)
            return
        if self._collector.finish is None:
            self._deadlines.on_event(event, time.monotonic())
        self._collector.take(masked)
        if isinstance(event, SessionEvent):
            self._is_listening = True
            self._send_messages()
        if isinstance(event, ParentRequestEvent) and self._on_request is not None:
            answer = asyncio.ensure_future(self._answer(event, self._on_request))
            self._answers.add(answer)
            answer.add_done_callback(self._on_answered)
        self._changed(masked)

    async def _answer(self, event: ParentRequestEvent, on_request: OnRequest) -> None:
        answer = await on_request(event)
        self._collector.take_answer(answer)
        self._deadlines.on_answer(event.id, time.monotonic())
        if self._send is not None:
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

    def _enforce_deadlines(self) -> None:
        """End the run where its time is over, else look again when it could be."""
        found = self._deadlines.check(time.monotonic())
        if isinstance(found, TimeoutReason):
            self._end(Ending("timed_out", timeout=found))
        else:
            self._timer = self._loop.call_later(found, self._enforce_deadlines)

    def _end(self, ending: Ending) -> None:
        """Settle why the run is over. The first reason counts: what follows is its consequence."""
        if not self._ended.done():
            self._ended.set_result(ending)
