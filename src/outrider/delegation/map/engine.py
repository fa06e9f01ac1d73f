"""What runs the items of a map, behind three calls: `start`, `wait` and `cancel`.

All that crosses is frozen data that can be pickled: an `Order` goes in, `News` come out. The map
decides what runs and when. An engine never repeats an order by itself: the attempt is a fencing
token, and the map ignores what it hears of any attempt but the last.
"""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any, Protocol

from outrider.delegation.perform import PROVIDER_IS_BUSY, Caller, perform
from outrider.delegation.preparation import Prepared
from outrider.delegation.request import Request
from outrider.protocol.data import frozen
from outrider.protocol.errors import ErrorCode
from outrider.protocol.events import Event, RetryEvent, TaskFinishEvent
from outrider.protocol.outcomes import FailureKind, Outcome
from outrider.protocol.results import ErrorInfo, ToolResult
from outrider.protocol.usage import Usage

log = logging.getLogger("outrider")
REFUSED = "refused"
"""The outcome of an item that no child was started for."""
MAX_OUTPUT, MAX_TASK = 100_000, 200
"""How many characters a row has of the answer and of the task; the run's record has all."""


@frozen
class Order:
    """One attempt at one item: the request, and its settings with what it may use at most."""

    key: str
    attempt: int
    request: Request
    flags: Mapping[str, Any] = field(default_factory=dict[str, Any])


@frozen
class MapRow:
    """The result of one item; its outcome is a run's, or `refused`, `unfinished` or `not_run`."""

    id: str
    outcome: str
    task: str | None = None
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

    @property
    def has_no_room(self) -> bool:
        """Whether its run's record can't be kept, nor that of any other run on the machine."""
        code = self.error and self.error.code
        return self.outcome == REFUSED and code is ErrorCode.SUBAGENT_FAILED


@frozen
class News:
    """What has happened to an attempt: it has a run, its provider is busy, or it has ended."""

    key: str
    attempt: int
    run_id: str | None = None
    wait_seconds: float | None = None
    """How long the busy provider is waited for. With a row: its rate limit has ended the task."""
    row: MapRow | None = None
    is_lost: bool = False
    """Whether nobody will know how it ended: the machine is gone that it ran on."""
    has_effects: bool = False
    """With a row: whether a tool was called, so that to do it again may be to do it twice."""


class Engine(Protocol):
    """Runs as many orders at once as it is given."""

    async def start(self, order: Order) -> None:
        """Begin with an order without waiting for it. What goes wrong with it is a row."""
        ...

    async def wait(self) -> list[News]:
        """Return what has happened since the last call, when there is something.

        Each order leads to one row or is said to be lost, whatever becomes of it, and to its
        run's id before that if there is a run. That a provider is busy may be left out: then only
        failures slow the map.
        """
        ...

    async def cancel(self, key: str) -> None:
        """End an order; its row still comes, when nothing of it is left."""
        ...


async def all_there(queue: asyncio.Queue[News]) -> list[News]:
    """Return all that is in a queue, when there is something."""
    news = [await queue.get()]
    while not queue.empty():
        news.append(queue.get_nowait())
    return news


class LocalEngine:
    """Runs orders as children of this process."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._news: asyncio.Queue[News] = asyncio.Queue()
        self._orders: dict[str, tuple[asyncio.Event, asyncio.Task[None]]] = {}

    async def start(self, order: Order) -> None:
        """Begin with an order."""
        stop = asyncio.Event()
        self._orders[order.key] = stop, asyncio.create_task(self._run(order, stop))

    async def wait(self) -> list[News]:
        """Return what has happened."""
        return await all_there(self._news)

    async def cancel(self, key: str) -> None:
        """End an order."""
        if key in self._orders:
            self._orders[key][0].set()

    async def _run(self, order: Order, stop: asyncio.Event) -> None:
        finish, tell = TaskFinishEvent(), self._news.put_nowait

        def on_event(event: Event) -> None:
            nonlocal finish
            if isinstance(event, RetryEvent) and event.kind in PROVIDER_IS_BUSY:
                tell(News(order.key, order.attempt, wait_seconds=event.delay_ms / 1000))
            elif isinstance(event, TaskFinishEvent):
                finish = event

        def on_start(_prepared: Prepared, run_id: str) -> None:
            tell(News(order.key, order.attempt, run_id))

        row = MapRow(order.key, "failed", error=ErrorInfo(ErrorCode.SUBAGENT_FAILED, "It broke."))
        calls, wait = 0, None
        try:
            told = {"on_event": on_event, "on_start": on_start}
            caller = replace(self._caller, flags=order.flags, cancelled=stop, **told)
            result = await perform(order.request, caller)
            row, ended = kept_row(order, result), result.result
            calls = ended.receipt["toolCalls"] if ended else 0
            if finish.failure_kind == FailureKind.RATE_LIMIT:
                wait = finish.retry_after or 0.0
        except Exception as error:
            log.exception("an item's run broke")
            message = f"It broke: {type(error).__name__}: {error}"
            row = replace(row, error=ErrorInfo(ErrorCode.SUBAGENT_FAILED, message))
        finally:
            self._orders.pop(order.key, None)
            tell(News(order.key, order.attempt, None, wait, row, has_effects=bool(calls)))


def kept_row(order: Order, result: ToolResult) -> MapRow:
    """Return what a map keeps of a result."""
    run = result.result
    if run is None:
        task = order.request.task[:MAX_TASK]
        return MapRow(order.key, REFUSED, task, error=result.details.error)
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
