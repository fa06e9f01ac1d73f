"""What runs the items of a map, behind an interface of three calls.

All that crosses it is frozen data that can be pickled: an `Order` goes in, `News` come out. The
map decides what runs and when; an engine only runs it. It never repeats an order by itself: the
attempt is a fencing token, and the map drops what it hears of any attempt but the last.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import field, replace
from functools import partial
from typing import Any, Protocol

from outrider.delegation.perform import PROVIDER_IS_BUSY, Caller, perform
from outrider.delegation.preparation import Prepared
from outrider.delegation.request import Request
from outrider.processes.shielding import wait_for_all
from outrider.protocol.data import frozen
from outrider.protocol.errors import ErrorCode
from outrider.protocol.events import Event, RetryEvent, TaskFinishEvent
from outrider.protocol.outcomes import FailureKind, Outcome
from outrider.protocol.results import ErrorInfo, ToolResult
from outrider.protocol.usage import Usage

REFUSED = "refused"
"""The outcome of an item that no child was started for."""
MAX_OUTPUT, MAX_TASK = 100_000, 200
"""How many characters a row has of the answer and of the task; the run's record has all."""


@frozen
class Order:
    """One attempt at one item: a request, with the settings and limits that count for it."""

    key: str
    attempt: int
    agent: str
    task: str
    schema: Any = None
    model: str | None = None
    cwd: str | None = None
    check: str | None = None
    flags: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Settings by their dotted names, its share of the purse among them."""


@frozen
class MapRow:
    """The result of one item."""

    id: str
    outcome: str
    """As a run's; or `refused`, `unfinished` or `not_run`."""
    task: str = ""
    output: Any = None
    """The answer; where `output_type` was given, a value of it."""
    structured_output: Any = None
    has_structured_output: bool = False
    is_cut: bool | None = None
    """True where the answer is longer: `outrider show` has all of it."""
    error: ErrorInfo | None = None
    usage: Usage = field(default_factory=Usage)
    run_id: str | None = None

    @property
    def completed(self) -> bool:
        """Whether the task was done."""
        return self.outcome == Outcome.COMPLETED


@frozen
class Began:
    """The attempt has a run with a record."""

    key: str
    attempt: int
    run_id: str


@frozen
class Busy:
    """The provider is overloaded or limits the rate, and the child waits for so long."""

    key: str
    seconds: float


@frozen
class Ended:
    """The attempt is over. One that the provider's rate limit has ended can be made again."""

    key: str
    attempt: int
    row: MapRow
    rate_limited: bool = False
    retry_after: float = 0.0
    tool_calls: int = 0


News = Began | Busy | Ended


class Engine(Protocol):
    """Runs orders, as many at once as it is given."""

    async def start(self, order: Order) -> None:
        """Begin with an order, and return without waiting for it. What goes wrong is a row."""
        ...

    async def wait(self) -> list[News]:
        """Return what has happened since the last call, at least one thing; may be cancelled.

        Each order that was started leads to one `Ended`, whatever becomes of it. `Began` comes
        before that where there is a run. `Busy` can be left out: then only failures slow the map.
        """
        ...

    async def cancel(self, key: str) -> None:
        """End an order that was started; its `Ended` still comes, when nothing of it is left."""
        ...


class LocalEngine:
    """Runs orders as children of this process."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._news: list[News] = []
        self._changed = asyncio.Event()
        self._stops: dict[str, asyncio.Event] = {}

    async def start(self, order: Order) -> None:
        """Begin with an order."""
        self._stops[order.key] = stop = asyncio.Event()
        work = asyncio.create_task(self._perform(order, stop))
        work.add_done_callback(partial(self._end, order))

    async def wait(self) -> list[News]:
        """Return what has happened."""
        await self._changed.wait()
        self._changed.clear()
        news, self._news = self._news, []
        return news

    async def cancel(self, key: str) -> None:
        """End an order."""
        if stop := self._stops.get(key):
            stop.set()

    def _tell(self, news: News) -> None:
        self._news.append(news)
        self._changed.set()

    async def _perform(self, order: Order, stop: asyncio.Event) -> Ended:
        finish = TaskFinishEvent()

        def on_event(event: Event) -> None:
            nonlocal finish
            if isinstance(event, RetryEvent) and event.kind in PROVIDER_IS_BUSY:
                self._tell(Busy(order.key, event.delay_ms / 1000))
            elif isinstance(event, TaskFinishEvent):
                finish = event

        def on_start(_prepared: Prepared, run_id: str) -> None:
            self._tell(Began(order.key, order.attempt, run_id))

        asked = (order.agent, order.task, order.schema, order.model, order.cwd)
        caller = replace(self._caller, flags=order.flags, cancelled=stop)
        caller = replace(caller, on_event=on_event, on_start=on_start)
        result = await perform(Request(*asked, check=order.check), caller)
        return Ended(
            order.key,
            order.attempt,
            row_of(order, result),
            rate_limited=finish.failure_kind == FailureKind.RATE_LIMIT,
            retry_after=finish.retry_after or 0.0,
            tool_calls=result.result.receipt.get("toolCalls", 0) if result.result else 0,
        )

    def _end(self, order: Order, work: "asyncio.Task[Ended]") -> None:
        del self._stops[order.key]
        if work.cancelled() or work.exception():
            error = ErrorInfo(ErrorCode.SUBAGENT_FAILED, f"It broke off: {work!r}")
            self._tell(Ended(order.key, order.attempt, MapRow(order.key, "failed", error=error)))
        else:
            self._tell(work.result())


def row_of(order: Order, result: ToolResult) -> MapRow:
    """Return what a map keeps of a result."""
    run = result.result
    if run is None:
        return MapRow(order.key, REFUSED, order.task[:MAX_TASK], error=result.details.error)
    text = None if run.has_structured_output else run.output
    return MapRow(
        id=order.key,
        outcome=run.outcome,
        task=run.task[:MAX_TASK],
        output=text and text[:MAX_OUTPUT],
        structured_output=run.structured_output,
        has_structured_output=run.has_structured_output,
        is_cut=True if text and len(text) > MAX_OUTPUT else None,
        error=None if result.completed else result.details.error,
        usage=run.usage,
        run_id=result.details.run_id,
    )
