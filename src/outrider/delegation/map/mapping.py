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

from outrider.agents.definitions import AgentDefinition
from outrider.delegation.api import schema_of_type, value_of_type
from outrider.delegation.map.engine import REFUSED, Engine, LocalEngine, MapRow, News, Order
from outrider.delegation.map.items import Item, given_values, items_of, pulled
from outrider.delegation.map.journal import Entry, Journal, JournalLost, journal_path, listed
from outrider.delegation.map.options import MapOptions
from outrider.delegation.map.purse import Money, Pace, Purse, Tally
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
LEFT, USED_UP = "its rows were not taken any more", "the purse is used up"
NEVER_SECONDS = 1e9
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
    """An item's place among all: what is asked for, and its row once that is known."""

    order: Order
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
        self._ask = caller.confirm
        caller = replace(caller, confirm=caller.confirm and self._is_agreed)
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
        self._failures, self._passed = 0, 0
        self._commit_at, self._hopeless_at = 0.0, inf
        self._is_open = self._is_over = self._at_end = self._cancels = self._fills_gaps = False
        self._repeatable: dict[tuple[str, Any], bool] = {}

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
            self.tally.begun, left = time.monotonic(), LEFT
            listening = asyncio.create_task(self._listen())
            listening.add_done_callback(lambda _: self._news.put_nowait(None))
            later, seconds = asyncio.get_running_loop().call_later, self.options.get("deadline")
            deadline = later(seconds or NEVER_SECONDS, self.stop, "its deadline has passed")
            try:
                journal.add({"call": self.total, "most": self.purse.most})
                while True:
                    await self._fill(time.monotonic())
                    if not self._ready:
                        if self._is_over and not (self._back or self.running or self._ended):
                            left = None
                            return
                        await self._hear()
                        if listening.done():  # which only a fault of the engine ends
                            listening.result()
                    while self._ready:
                        row = self._ready.popleft()
                        yield self._typed(journal.row(row) if isinstance(row, str) else row)
            finally:
                deadline.cancel()
                await self._end(listening)
                if self._cluster:
                    await self._cluster.close()
                with suppress(JournalLost):
                    done, failed = self.tally.done, self.tally.failed
                    journal.add({"stop": self.stopped or left, "done": done, "failed": failed})

    async def open(self) -> Journal:
        """Return the journal, once it is clear that items can be run; raises `Refusal`."""
        if not self._is_open:
            get, caller = self.options.get, self._caller
            for name in ("concurrency", "max_cost", "max_tokens", "deadline", "stop_after"):
                if (value := get(name)) is not None and not value > 0:
                    raise invalid(f"{name} must be more than 0, not {value}.")
            on, flags = get("on"), dict(get("config") or {})
            asked = self._agent, "-", get("output_schema"), get("model"), get("cwd")
            self._request = Request(*asked, check=get("check"), elsewhere=bool(on))
            self.prepared: Prepared = await prepare(
                self._request, env=caller.env, flags=flags, confirm=self._ask
            )
            if cost := get("max_cost"):
                check_price(self.prepared, f"--max-cost {cost:g}")
            with ExitStack() as held:
                try:
                    self.journal = held.enter_context(Journal(self._path, self.about))
                    self._end_lost_attempts()
                except JournalLost as lost:
                    raise invalid(f"The map can't start: {lost}.") from None
                if on:
                    from outrider.delegation.map.cluster.engine import ClusterEngine

                    self.engine = self._cluster = ClusterEngine(self.prepared, caller, self.say)
                    await self._cluster.join(on, flags, tuple(get("include") or ()))
                held.pop_all()
            self._is_open = True
            listed(self._path, caller.env)
            self._set_limits()
        return self.journal

    async def _is_agreed(self, agent: AgentDefinition, _reason: str) -> bool:
        """Whether the user agreed to an agent when the map began: none can ask while it works."""
        return agent == self.prepared.definition

    def _end_lost_attempts(self) -> None:
        """Record what the attempts have used that were under way when the last map died."""
        for key, entry in list(self.journal.entries.items()):
            used = Usage() if entry.outcome else _used_by(entry, runs_folder(self._caller.env))
            if used != Usage():
                self.journal.add({"back": key, "again": entry.again, "usage": to_json(used)})

    def _set_limits(self) -> None:
        """Work out how many run at once, and how much each may use."""
        get, project = self.options.get, self.prepared.project
        own = project.config.subagents
        places = self._cluster.places if self._cluster else own.max_concurrent
        at_once = get("concurrency") or places
        cost, tokens = get("max_cost") or inf, get("max_tokens") or inf
        each_cost = min(cost, own.budget.max_cost or cost / at_once)
        each_tokens = min(tokens, own.budget.max_tokens or tokens / at_once)
        self.pace = Pace(at_once)
        self.purse = Purse((cost, tokens), (each_cost, each_tokens), self.journal.spent)
        self._flags = dict(get("config") or {}) | {"subagents.maxConcurrent": at_once}
        if "subagents.retry.maxAttempts" not in project.settings.origins:
            self._flags["subagents.retry.maxAttempts"] = PATIENT_ATTEMPTS

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
            if place is None or not (place.is_settled or await self._begin(place)):
                return

    def _next(self) -> _Place | None:
        """Return the place to begin with next; None where there is none now."""
        # An item that a rate limit has ended lets others go first: they may get through.
        is_turn = bool(self._back) and self._back[0].begun_after < self._passed
        self._is_over |= self.stopped is not None and self._slow
        # A file is at its end only when nothing runs any more: it may have grown meanwhile.
        while not (is_turn or self._is_over or (self._at_end and self.running and not self._slow)):
            item: Any = next(self._items, _END)
            self._is_over, self._at_end = item is _END, item is None
            if isinstance(item, Item):
                return self._placed(item)
            if self._slow:
                break
        return self._back.popleft() if self._back else None

    def _placed(self, item: Item) -> _Place:
        """Return an item's place, with an order unless its row is known already."""
        key, entry, asked = item.key, self.journal.entry(item.key), self._request
        request = replace(
            asked,
            agent=item.agent or asked.agent,
            task=item.task,
            output_schema=asked.output_schema if item.schema is None else item.schema,
            model=item.model or asked.model,
            cwd=str(Path(asked.cwd or ".", item.cwd)) if item.cwd else asked.cwd,
        )
        place = _Place(Order(key, entry.attempt, request))
        if self._in_order is not None:
            self._in_order.append(place)
        if item.problem:
            self.journal.add({"refused": item.problem})
            self._refuse(place, REFUSED, item.problem)
        elif self.has_result(key):
            self.tally.recorded += 1
            self._give(place, self.journal.row(key), in_journal=True)
        elif not (entry.again or entry.outcome or self.options.get("rerun_unfinished")):
            self._refuse(place, "unfinished", UNSURE)
        return place

    def has_result(self, key: str) -> bool:
        """Whether the journal has a result of an item that counts."""
        outcome = self.journal.entry(key).outcome
        return outcome not in (None, REFUSED, *(self.options.get("retry") or ()))

    async def _begin(self, place: _Place) -> bool:
        """Start an item, or leave it out; return whether another one can be started."""
        key, attempt = place.order.key, place.order.attempt + 1
        part = None if self.stopped else self.purse.reserve(key)
        if part is None and not self.stopped and self.running:
            self._back.appendleft(place)
            return False
        if part is None:
            self.stopped = self.stopped or USED_UP
            self._leave_out(place)
            return True
        again = self._is_repeatable(place.order.request)
        part_there = {"part": to_json(self.purse.part_of(key))} if self._cluster else {}
        self.journal.add({"start": key, "attempt": attempt, "again": again, **part_there})
        if not again:  # or after a loss of power nobody would know of it
            await self.journal.sync()
        place.order = replace(place.order, attempt=attempt, flags=self._flags | _budget(part))
        place.overtaken += 0 <= place.begun_after < self._passed
        place.begun_after = self._passed
        self.running[key] = place
        await self.engine.start(place.order)
        return True

    def _is_repeatable(self, request: Request) -> bool:
        """Whether the agent only reads, or writes to a layer that doesn't land by itself."""
        asked = request.agent, request.cwd
        if asked not in self._repeatable:
            self._repeatable[asked] = True
            with suppress(Refusal):  # which is then the item's row
                project = open_project(request.cwd, self._caller.env, self._flags)
                agent = find_agent(request.agent, project.discovery)
                given, _ = project.permit(agent, interactive=self._caller.confirm is not None)
                is_layered = given.isolation != "none" and project.config.subagents.land != "auto"
                self._repeatable[asked] = given.readonly or is_layered
        return self._repeatable[asked]

    async def _hear(self) -> None:
        """Take in what has happened when something has, and give the rows that it makes sure."""
        self._take(await self._news.get())
        while not self._news.empty():
            self._take(self._news.get_nowait())
        if self._ended and (time.monotonic() >= self._commit_at or not self.running):
            await self.journal.sync()
            self._commit_at = time.monotonic() + COMMIT_SECONDS
            ended, self._ended = self._ended, []
            for place, row in ended:
                self._give(place, row, in_journal=True)
        if self._cancels:
            await self._cancel_all()

    def _take(self, news: News | None) -> None:
        """Take in what the engine says of an attempt, unless it doesn't count any more."""
        place = self.running.get(news.key) if news else None
        if not news or not place or news.attempt != place.order.attempt:
            if news and news.row:  # of an attempt that doesn't count any more
                self.say(f"a late result of {news.key} was dropped")
            return
        if news.row or news.is_lost:
            self._take_end(place, news, news.row)
        elif news.wait_seconds is not None:
            self._slow_down(news.wait_seconds)
        else:
            self.journal.add({"run": news.key, "runId": news.run_id})

    def _take_end(self, place: _Place, news: News, row: MapRow | None) -> None:
        """Record how an attempt ended; without a result the item may wait for its next one."""
        used = row.usage if row else self.purse.part_of(news.key)
        del self.running[news.key]
        self.purse.settle(news.key, used)
        is_cancelled = self._cancels and (not row or row.outcome == Outcome.CANCELLED)
        is_limited = news.wait_seconds is not None and place.overtaken < MAX_OVERTAKEN
        again = self._is_repeatable(place.order.request) or (is_limited and not news.has_effects)
        if row and not is_cancelled and not (is_limited and again):
            return self._record(place, row)
        self.journal.add({"back": news.key, "again": again, "usage": to_json(used)})
        if is_cancelled:
            return self._leave_out(place)
        if not (again or self.options.get("rerun_unfinished")):
            return self._refuse(place, "unfinished", UNSURE)
        self._back.append(place)
        if row and news.wait_seconds is not None:
            self._wait_for_provider(max(1.0, news.wait_seconds), row.error)
        return None

    def _record(self, place: _Place, row: MapRow) -> None:
        """Record the result of an item, and stop where all others would fail with it."""
        attempt = place.order.attempt
        self.journal.add({"end": row.id, "attempt": attempt, "row": to_json(row)})
        if not self._ended:
            self._wake_in(self._commit_at - time.monotonic())
        self._ended.append((place, row))
        self._count_failure(row)
        self._passed, self._hopeless_at = self._passed + 1, inf
        if row.completed:
            self.pace.speed_up()
        if row.has_no_room and row.error:
            self.stop(row.error.message)

    def _wait_for_provider(self, seconds: float, error: ErrorInfo | None) -> None:
        """Slow down where a rate limit has ended an attempt, and stop where none gets through."""
        now = time.monotonic()
        self._slow_down(seconds)
        if now >= self._hopeless_at and not self.running:
            why = error.message.rstrip(".") if error else "its rate limit"
            self.stop(f"no item got through for {HOPELESS_SECONDS / 60:g} minutes: {why}")
        self._hopeless_at = min(self._hopeless_at, now + seconds + HOPELESS_SECONDS)

    def _slow_down(self, seconds: float) -> None:
        self.pace.slow_down(time.monotonic(), seconds)
        self._wake_in(seconds)

    def _wake_in(self, seconds: float) -> None:
        """Let the map look again after a while at what it may do."""
        asyncio.get_running_loop().call_later(seconds, self._news.put_nowait, None)

    def _leave_out(self, place: _Place) -> None:
        """Count an item that this call of the map doesn't get to."""
        self.tally.not_run += 1
        error = ErrorInfo(ErrorCode.SUBAGENT_FAILED, f"It wasn't run: {self.stopped}.")
        row = MapRow(place.order.key, "not_run", error=error)
        self._settle(place, row if self._fills_gaps else None)

    def _refuse(self, place: _Place, outcome: str, why: str) -> None:
        """Give a row of an item that isn't run."""
        code = ErrorCode.INVALID_INPUT if outcome == REFUSED else ErrorCode.SUBAGENT_FAILED
        row = MapRow(place.order.key, outcome, error=ErrorInfo(code, why))
        self._count_failure(row)
        self._give(place, row)

    def _count_failure(self, row: MapRow) -> None:
        self._failures += not row.completed
        if self._failures >= (self.options.get("stop_after") or inf) and not self.stopped:
            self.stopped = f"{self._failures} item{'s' * (self._failures > 1)} failed"

    def _give(self, place: _Place, row: MapRow, *, in_journal: bool = False) -> None:
        """Count a row, and give it when it is its turn."""
        self.tally.rows[row.outcome, row.error.code if row.error else ""] += 1
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


def _used_by(entry: Entry, runs: Path) -> Usage:
    """Return what an attempt has used that broke off, as its run's transcript tells."""
    used = entry.part
    with suppress(OSError), open(runs / (entry.run_id or "-") / SESSION, "rb") as events:
        used = Usage()
        for line in events:
            with suppress(ValueError):
                event = as_object(jsonl.decode(line))
                if event.get("type") == "turn_end":
                    used = from_json(Usage, event.get("usage"))
    return used
