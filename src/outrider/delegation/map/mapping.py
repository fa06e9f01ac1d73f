"""One agent over many items: `outrider.map` in Python, and the loop behind `outrider map`.

The loop starts items while the purse and the pace allow it, and takes in what the engine says.
"""

import asyncio
import logging
import os
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sized
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from outrider.delegation.api import schema_of_type, value_of_type
from outrider.delegation.map.engine import REFUSED, Engine, LocalEngine, MapRow, News, Order
from outrider.delegation.map.items import Item, given_values, items_of, pulled
from outrider.delegation.map.journal import Journal, JournalLost, journal_path, listed
from outrider.delegation.map.options import MapOptions
from outrider.delegation.map.purse import Money, Pace, Purse, Tally, added
from outrider.delegation.perform import Caller
from outrider.delegation.preparation import Prepared, check_price, find_agent, prepare
from outrider.delegation.project import open_project
from outrider.delegation.request import Request, invalid
from outrider.protocol import jsonl
from outrider.protocol.data import as_object, from_json, to_json
from outrider.protocol.errors import ErrorCode, Refusal
from outrider.protocol.outcomes import Outcome
from outrider.protocol.results import ErrorInfo
from outrider.protocol.usage import Usage
from outrider.records.runs import SESSION
from outrider.settings.layers import FlagValue
from outrider.settings.places import runs_folder

if TYPE_CHECKING:
    from outrider.delegation.map.cluster.engine import ClusterEngine

log = logging.getLogger("outrider")
PATIENT_ATTEMPTS = 6
"""How often a child sends a request that its provider was too busy for, unless a setting says."""
COMMIT_SECONDS = 0.2
"""How long rows are gathered before they are synced to the disk together (group commit)."""
HOPELESS_SECONDS = 600.0
"""How long a rate limit may let no item through before the map stops."""
MAX_OVERTAKEN = 5
"""How often a rate limit may end an item while others get through; the next time it has failed."""
UNSURE = (
    "It was running when its map ended, and may have changed files. To run it again, use "
    "--rerun-unfinished (in Python rerun_unfinished=True)."
)
LEFT = "its rows were not taken any more"
_END = object()


def map(  # noqa: A001 - the word for it
    agent: str,
    items: Iterable[str | Mapping[str, Any]],
    *,
    task: str | None = None,
    output_type: Any = None,
    journal: str | os.PathLike[str] | None = None,
    engine: Engine | None = None,
    **options: Unpack[MapOptions],
) -> "Map":
    """Return a map of `agent` over the items: take its rows with `async for`, or `gather` them.

    An item is a text, or a mapping from whose fields `task` is filled: `"Review {path}"`. Without
    a `journal` the map can't go on after an interruption.
    """
    if output_type is not None:
        options["output_schema"] = schema_of_type(output_type)
    caller = Caller(os.environ)
    path = Path(journal) if journal else journal_path(caller.env)
    given = items_of(given_values(items), task)
    work = Map(agent, given, path, caller, options, about={"agent": agent, "task": task})
    work.output_type, work.engine = output_type, engine or work.engine
    work.total = len(items) if isinstance(items, Sized) else None
    return work


@dataclass(slots=True)
class _Place:
    """An item's place among all: what is to be run of it, and its row once that is known."""

    order: Order | None = None
    row: MapRow | str | None = None
    """What is given of it; a row that the journal has may be its key."""
    is_settled: bool = False
    begun_after: int = -1
    """How many items had got through when it began."""
    overtaken: int = 0
    """How often others got through between two of its attempts."""


class Map:
    """A map. It goes on while its rows are taken, and ends with their iterator."""

    def __init__(
        self,
        agent: str,
        items: Iterator[Item | None],
        journal: Path,
        caller: Caller,
        options: MapOptions,
        *,
        about: Mapping[str, Any],
        slow: bool = False,
    ) -> None:
        """`about` is for the journal; `slow` says that the next item may be long in coming."""
        self.options, self.about, self.output_type = options, about, None
        self.engine: Engine = LocalEngine(caller)
        self._cluster: ClusterEngine | None = None
        self.say: Callable[[str], object] = log.warning
        """Told of nodes that can't be used, and of those that are lost."""
        self.tally, self.pace, self.purse = Tally(), Pace(1), Purse()
        self.stopped: str | None = None
        """Why it ended before its items did."""
        self.total: int | None = None
        """How many items there are, if that is known beforehand."""
        self.running: dict[str, _Place] = {}
        self._agent, self._path, self._caller, self._slow = agent, journal, caller, slow
        self._news: asyncio.Queue[News | None] = asyncio.Queue()
        self._items = pulled(items, partial(self._news.put_nowait, None)) if slow else items
        self._back: deque[_Place] = deque()
        """Items that wait for the purse or, after a rate limit, for their next attempt."""
        self._ended: list[tuple[_Place, MapRow]] = []
        """Rows that may not be on the disk yet."""
        self._ready: deque[MapRow | str] = deque()
        self._in_order: deque[_Place] | None = None
        """The items without a row, and those behind them, where the order counts."""
        self._failures, self._passed, self._commit_at = 0, 0, 0.0
        self._deadline = self._hopeless_at = inf
        self._is_open = self._is_over = self._at_end = self._cancels = self._fills_gaps = False
        self._repeatable: dict[tuple[str, str | None], bool] = {}

    def stop(self, reason: str) -> None:
        """End the map and its children, which are run again when it goes on."""
        self.stopped, self._cancels = self.stopped or reason, True
        self._news.put_nowait(None)

    async def gather(self) -> list[MapRow]:
        """Return a row for each item, in their order; those it didn't get to are `not_run`."""
        self.options["ordered"] = self._fills_gaps = True
        return [row async for row in self]

    async def __aiter__(self) -> AsyncGenerator[MapRow]:
        """Yield the rows, recorded ones included; raises `Refusal` and `JournalLost`."""
        with await self.open() as journal:
            self._in_order = deque() if self.options.get("ordered") else None
            self.tally.begun = time.monotonic()
            self._deadline = self.tally.begun + (self.options.get("deadline") or inf)
            listening = asyncio.create_task(self._listen())
            listening.add_done_callback(lambda _: self._news.put_nowait(None))
            left: str | None = LEFT
            try:
                journal.add({"call": self.total, "most": self.purse.most})
                while True:
                    now = time.monotonic()
                    await self._fill(now)
                    if not self._ready:
                        if self._is_over and not (self._back or self.running or self._ended):
                            left = None
                            return
                        await self._hear(now)
                        if listening.done():  # which only a fault of the engine ends
                            listening.result()
                    while self._ready:
                        row = self._ready.popleft()
                        yield self._typed(journal.row(row) if isinstance(row, str) else row)
            finally:
                await self._end(listening)
                if self._cluster:
                    await self._cluster.close()
                with suppress(JournalLost):
                    done, failed = self.tally.done, self.tally.failed
                    journal.add({"stop": self.stopped or left, "done": done, "failed": failed})

    async def open(self) -> Journal:
        """Return the journal, once it is clear that items can be run; raises `Refusal`."""
        if not self._is_open:
            options, caller = self.options, self._caller
            for name in ("concurrency", "max_cost", "max_tokens", "deadline", "stop_after"):
                if (value := options.get(name)) is not None and not value > 0:
                    raise invalid(f"{name} must be more than 0, not {value}.")
            asked = (options.get(name) for name in ("output_schema", "model", "cwd"))
            on, flags = options.get("on"), dict(options.get("config") or {})
            check = options.get("check")
            request = Request(self._agent, "-", *asked, check=check, elsewhere=bool(on))
            self.prepared: Prepared = await prepare(
                request, env=caller.env, flags=flags, confirm=caller.confirm
            )
            if cost := options.get("max_cost"):
                check_price(self.prepared, f"--max-cost {cost:g}")
            with ExitStack() as held:
                self.journal = held.enter_context(Journal(self._path, self.about))
                if on:
                    await self._join(on, flags)
                held.pop_all()
            self._is_open = True
            listed(self._path, caller.env)
            self._set_limits()
        return self.journal

    async def _join(self, on: str, flags: Mapping[str, Any]) -> None:
        from outrider.delegation.map.cluster.engine import ClusterEngine

        self.engine = self._cluster = ClusterEngine(self.prepared, self._caller, self.say)
        await self._cluster.join(on, flags, tuple(self.options.get("include") or ()))

    def _set_limits(self) -> None:
        """Work out how many run at once, and how much each may use."""
        get, project = self.options.get, self.prepared.project
        own = project.config.subagents
        at_once, cost, tokens = (get("concurrency"), get("max_cost"), get("max_tokens"))
        places = self._cluster.places if self._cluster else own.max_concurrent
        at_once, cost, tokens = at_once or places, cost or inf, tokens or inf
        each = (own.budget.max_cost or cost / at_once, own.budget.max_tokens or tokens / at_once)
        self.pace = Pace(at_once)
        self.purse = Purse((cost, tokens), (min(each[0], cost), min(each[1], tokens)))
        self._flags = dict(get("config") or {}) | {"subagents.maxConcurrent": at_once}
        if "subagents.retry.maxAttempts" not in project.settings.origins:
            self._flags["subagents.retry.maxAttempts"] = PATIENT_ATTEMPTS
        self.purse.spent = self.journal.spent
        for one in self.journal.entries.values():
            if not one.outcome:
                run = runs_folder(self._caller.env) / (one.run_id or "none")
                used = _used_by(run) if run.exists() else one.part
                self.purse.spent = added(self.purse.spent, used)

    async def _listen(self) -> None:
        while True:
            for news in await self.engine.wait():
                self._news.put_nowait(news)

    async def _fill(self, now: float) -> None:
        """Start what may start now, up to an item whose row is ready at once."""
        while not self._ready:
            if len(self.running) >= self.pace.allowed(now) and not self.stopped:
                return
            place = self._next()
            if place is None or (place.order and not await self._begin(place, place.order)):
                return

    def _next(self) -> _Place | None:
        """Return the place to begin with next; None where there is none now.

        An item that a rate limit has ended lets others go first: they may get through.
        """
        if self._back and self._back[0].begun_after < self._passed:
            return self._back.popleft()
        return self._next_new() or (self._back.popleft() if self._back else None)

    def _next_new(self) -> _Place | None:
        """Return the place of the next item; None where there is none now."""
        self._is_over |= self.stopped is not None and self._slow
        # A file is at its end only when nothing runs any more: it may have grown meanwhile.
        while not self._is_over and (self._slow or not (self._at_end and self.running)):
            item: Any = next(self._items, _END)
            self._is_over, self._at_end = item is _END, item is None
            if isinstance(item, Item):
                return self._placed(item)
            if self._slow:
                break
        return None

    def _placed(self, item: Item) -> _Place:
        """Return an item's place, with an order unless its row is known already."""
        get, key, entry, place = self.options.get, item.key, self.journal.entry(item.key), _Place()
        if self._in_order is not None:
            self._in_order.append(place)
        if item.problem:
            self.journal.add({"refused": item.problem})
            self._refuse(place, _failed(key, REFUSED, item.problem, ErrorCode.INVALID_INPUT))
        elif entry.is_done and entry.outcome not in tuple(get("retry") or ()):
            self.tally.recorded += 1
            self._give(place, self.journal.row(key), in_journal=True)
        elif not (entry.again or entry.outcome or get("rerun_unfinished")):
            self._refuse(place, _failed(key, "unfinished", UNSURE))
        else:
            schema = get("output_schema") if item.schema is None else item.schema
            cwd = str(Path(get("cwd") or ".", item.cwd)) if item.cwd else get("cwd")
            asked = (item.agent or self._agent, item.task, schema, item.model or get("model"))
            place.order = Order(key, entry.attempt, *asked, cwd, get("check"))
        return place

    async def _begin(self, place: _Place, order: Order) -> bool:
        """Start an order, or leave it out; return whether another one can be started."""
        part = None if self.stopped else self.purse.reserve(order.key)
        if part is None and not self.stopped and self.running:
            self._back.appendleft(place)
            return False
        if part is None:
            self.stopped = self.stopped or "the purse is used up"
            self._leave_out(place, order)
            return True
        attempt, again = order.attempt + 1, self._is_repeatable(order)
        begun = {"start": order.key, "attempt": attempt, "again": again}
        part_there = {"part": to_json(self.purse.part_of(order.key))} if self._cluster else {}
        self.journal.add(begun | part_there)
        if not again:  # or after a loss of power nobody would know of it
            await self.journal.sync()
        place.order = replace(order, attempt=attempt, flags=self._flags | _budget(part))
        place.overtaken += 0 <= place.begun_after < self._passed
        place.begun_after = self._passed
        self.running[order.key] = place
        await self.engine.start(place.order)
        return True

    def _is_repeatable(self, order: Order) -> bool:
        """Whether the agent only reads, or writes to a layer that doesn't land by itself."""
        asked = order.agent, order.cwd
        if asked not in self._repeatable:
            self._repeatable[asked] = True
            with suppress(Refusal):  # which is then the item's row
                project = open_project(order.cwd, self._caller.env, self._flags)
                agent = find_agent(order.agent, project.discovery)
                given, _ = project.permit(agent, interactive=self._caller.confirm is not None)
                is_layered = given.isolation != "none" and project.config.subagents.land != "auto"
                self._repeatable[asked] = given.readonly or is_layered
        return self._repeatable[asked]

    async def _hear(self, now: float) -> None:
        """Take in what has happened since `now`, when there is something or a time has come."""
        times = [self._deadline, self._commit_at if self._ended else inf]
        times += [self.pace.until] if self.pace.until > now else []
        with suppress(TimeoutError):
            async with asyncio.timeout(None if min(times) == inf else max(0, min(times) - now)):
                self._take(await self._news.get())
        while not self._news.empty():
            self._take(self._news.get_nowait())
        now = time.monotonic()
        if now >= self._deadline:
            self._deadline = inf
            self.stop("its deadline has passed")
        if self._ended and (now >= self._commit_at or not self.running):
            await self.journal.sync()
            self._commit_at = time.monotonic() + COMMIT_SECONDS
            ended, self._ended = self._ended, []
            for place, row in ended:
                self._give(place, row, in_journal=True)
        if self._cancels:
            await self._cancel_all()

    def _take(self, news: News | None) -> None:
        """Take in what the engine says of an order."""
        place = self.running.get(news.key) if news else None
        if not news or not place or not place.order or news.attempt != place.order.attempt:
            if news and news.row:  # of an attempt that doesn't count any more
                self.say(f"a late result of {news.key} was dropped")
            return
        if news.is_lost:
            self._lose(place, place.order)
        elif news.row is not None:
            del self.running[news.key]
            self.purse.settle(news.key, news.row.usage)
            self._take_row(place, place.order, news, news.row)
        elif news.wait_seconds is not None:
            self.pace.slow_down(time.monotonic(), news.wait_seconds)
        else:
            self.journal.add({"run": news.key, "runId": news.run_id})

    def _lose(self, place: _Place, order: Order) -> None:
        """Give an order back of which nothing is known, as one whose map was interrupted."""
        part = self.purse.part_of(order.key)
        del self.running[order.key]
        self.purse.settle(order.key, part)
        if self._cancels:
            self._leave_out(place, order)
        elif self._is_repeatable(order) or self.options.get("rerun_unfinished"):
            self.journal.add({"back": order.key, "usage": to_json(part)})
            self._back.append(place)
        else:
            self._refuse(place, _failed(order.key, "unfinished", UNSURE))

    def _take_row(self, place: _Place, order: Order, news: News, row: MapRow) -> None:
        """Record how an attempt ended; after a rate limit the item waits for its next one."""
        is_harmless = not news.has_effects or self._is_repeatable(order)
        if self._cancels and row.outcome == Outcome.CANCELLED:
            return self._leave_out(place, order)
        if news.wait_seconds is not None and is_harmless and place.overtaken < MAX_OVERTAKEN:
            return self._put_back(place, row, max(1.0, news.wait_seconds))
        self.journal.add({"end": order.key, "attempt": order.attempt, "row": to_json(row)})
        self._ended.append((place, row))
        self._count_failure(row)
        self._passed, self._hopeless_at = self._passed + 1, inf
        if row.completed:
            self.pace.speed_up()
        if row.has_no_room and row.error:
            self.stop(row.error.message)
        return None

    def _put_back(self, place: _Place, row: MapRow, wait_seconds: float) -> None:
        """Let an item wait that a rate limit has ended, and stop where none gets through."""
        now = time.monotonic()
        self.pace.slow_down(now, wait_seconds)
        self.journal.add({"back": row.id, "usage": to_json(row.usage)})
        self._back.append(place)
        if now >= self._hopeless_at and not self.running:
            why = row.error.message.rstrip(".") if row.error else "its rate limit"
            self.stop(f"no item got through for {HOPELESS_SECONDS / 60:g} minutes: {why}")
        self._hopeless_at = min(self._hopeless_at, now + wait_seconds + HOPELESS_SECONDS)

    def _leave_out(self, place: _Place, order: Order) -> None:
        """Count an item that this call of the map doesn't get to."""
        self.tally.not_run += 1
        row = _failed(order.key, "not_run", f"It wasn't run: {self.stopped}.")
        self._settle(place, row if self._fills_gaps else None)

    def _refuse(self, place: _Place, row: MapRow) -> None:
        """Give a row of an item that isn't run."""
        self._count_failure(row)
        self._give(place, row)

    def _count_failure(self, row: MapRow) -> None:
        self._failures += not row.completed
        if self._failures >= (self.options.get("stop_after") or inf) and not self.stopped:
            self.stopped = f"{self._failures} item{'s' * (self._failures > 1)} failed"

    def _give(self, place: _Place, row: MapRow, *, in_journal: bool = False) -> None:
        """Count a row, and give it when it is its turn."""
        self.tally.rows[row.outcome, row.error.code if row.error else ""] += 1
        self.tally.used = added(self.tally.used, row.usage)
        # Where it may have to wait for long, its key is enough.
        self._settle(place, row.id if in_journal and self._in_order is not None else row)

    def _settle(self, place: _Place, row: MapRow | str | None) -> None:
        place.row, place.is_settled = row, True
        places = deque([place]) if self._in_order is None else self._in_order
        while places and places[0].is_settled:
            if (ready := places.popleft().row) is not None:
                self._ready.append(ready)

    def _typed(self, row: MapRow) -> MapRow:
        if self.output_type is None or not row.completed:
            return row
        try:
            return replace(row, output=value_of_type(self.output_type, row.structured_output))
        except ValueError as error:
            error = ErrorInfo(ErrorCode.SUBAGENT_OUTPUT_INVALID, str(error))
            return replace(row, outcome=Outcome.SCHEMA_FAILED, error=error)

    async def _cancel_all(self) -> None:
        for key in list(self.running):
            await self.engine.cancel(key)

    async def _end(self, listening: "asyncio.Task[None]") -> None:
        """End what still runs, where nobody wants more rows or the journal takes none."""
        self._cancels = True
        await self._cancel_all()
        while self.running and not listening.done():
            with suppress(JournalLost):
                self._take(await self._news.get())
        listening.cancel()


def _budget(part: Money) -> dict[str, Any]:
    """Return the settings that keep a child to its part of the purse."""
    cost, tokens = part
    flags: dict[str, Any] = {}
    if cost < inf:
        flags["subagents.budget.maxCost"] = FlagValue(cost, f"--max-cost {cost:g}")
    if tokens < inf:
        flags["subagents.budget.maxTokens"] = max(1, int(tokens))
    return flags


def _failed(
    key: str, outcome: str, why: str, code: ErrorCode = ErrorCode.SUBAGENT_FAILED
) -> MapRow:
    return MapRow(key, outcome, error=ErrorInfo(code, why))


def _used_by(run: Path) -> Usage:
    """Return what a run has used that broke off, as its transcript tells."""
    used = Usage()
    with suppress(OSError), open(run / SESSION, "rb") as events:
        for line in events:
            with suppress(ValueError):
                event = as_object(jsonl.decode(line))
                used = from_json(Usage, event["usage"]) if event["type"] == "turn_end" else used
    return used
