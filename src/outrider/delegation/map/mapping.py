"""One agent over many items: `outrider.map` in Python, and the loop behind `outrider map`.

The loop starts items while the purse and the pace allow it, and takes in what the engine says.
"""

import asyncio
import os
import time
from collections import Counter, deque
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from typing import Any, TypedDict, Unpack

from outrider.delegation.api import schema_of_type, value_of_type
from outrider.delegation.map.engine import REFUSED, Engine, LocalEngine, MapRow, News, Order
from outrider.delegation.map.items import Item, given_values, items_of
from outrider.delegation.map.journal import Journal, JournalLost, journal_path
from outrider.delegation.map.purse import Money, Pace, Purse, added
from outrider.delegation.perform import Caller
from outrider.delegation.preparation import Prepared, find_agent, prepare
from outrider.delegation.project import open_project
from outrider.delegation.request import Request
from outrider.processes.threads import in_thread
from outrider.protocol import jsonl
from outrider.protocol.data import as_object, from_json, to_json
from outrider.protocol.errors import ErrorCode, Refusal
from outrider.protocol.outcomes import Outcome
from outrider.protocol.results import ErrorInfo
from outrider.protocol.usage import Usage
from outrider.records.runs import SESSION
from outrider.settings.layers import FlagValue
from outrider.settings.places import runs_folder

PATIENT_ATTEMPTS = 6
"""How often a child sends a request that its provider was too busy for, unless a setting says."""
MAX_READY = 100
UNSURE = (
    "It was running when its map ended, and may have changed files. To run it again, use "
    "--rerun-unfinished (in Python rerun_unfinished=True)."
)
_END = object()


class MapOptions(TypedDict, total=False):
    """What a caller may say beside the agent and the items."""

    output_schema: Any
    """The JSON Schema of the answers, where no `output_type` is given."""
    model: str | None
    cwd: str | None
    check: str | None
    """As in `subagent`, for all items that don't say otherwise."""
    config: Mapping[str, Any]
    concurrency: int | None
    max_cost: float | None
    max_tokens: int | None
    deadline: float | None
    """For all items together: US dollars, tokens, seconds."""
    retry: Iterable[str]
    """The recorded outcomes that don't count: such items are run again."""
    rerun_unfinished: bool
    """Run again what may have changed files when its map was interrupted."""
    stop_after: int | None
    """Start no more items after so many that didn't complete."""
    ordered: bool


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
    return work


@dataclass(slots=True)
class Tally:
    """How far a map is."""

    rows: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    """How many rows there are with each outcome and error code."""
    recorded: int = 0
    not_run: int = 0
    used: Money = (0.0, 0.0)
    begun: float = field(default_factory=time.monotonic)

    @property
    def done(self) -> int:
        """How many rows there are."""
        return self.rows.total()

    @property
    def failed(self) -> int:
        """How many of them aren't of completed tasks."""
        return self.done - self.rows[Outcome.COMPLETED, ""]


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
        self.options, self.about, self.slow, self.output_type = options, about, slow, None
        self.engine: Engine = LocalEngine(caller)
        self.tally, self.pace, self.purse = Tally(), Pace(1), Purse()
        self.stopped: str | None = None
        """Why it ended before its items did."""
        self.running: dict[str, tuple[Order, int]] = {}
        """The orders at work, each with the number of its item."""
        self._agent, self._items, self._path, self._caller = agent, items, journal, caller
        self._back: deque[tuple[Order, int]] = deque()
        self._ready: deque[MapRow | str] = deque()
        self._held: dict[int, MapRow | str | None] = {}
        """Rows by the number of their item, before it is their turn; a recorded one by its key."""
        self._taken, self._given, self._failures, self._deadline = 0, 1, 0, inf
        self._is_open = self._is_over = self._at_end = self._cancels = self._fills_gaps = False
        self._repeatable: dict[tuple[str, str | None], bool] = {}
        self._news: asyncio.Queue[list[News]] = asyncio.Queue()
        self._pulling: asyncio.Future[Any] | None = None

    def stop(self, reason: str) -> None:
        """End the map and its children, which are run again when it goes on."""
        self.stopped, self._cancels = self.stopped or reason, True
        self._news.put_nowait([])

    async def gather(self) -> list[MapRow]:
        """Return a row for each item, in their order; those it didn't get to are `not_run`."""
        self.options["ordered"] = self._fills_gaps = True
        return [row async for row in self]

    async def __aiter__(self) -> AsyncGenerator[MapRow]:
        """Yield the rows, recorded ones included; raises `Refusal` and `JournalLost`."""
        with await self.open() as journal:
            listening = asyncio.create_task(self._listen())
            self.tally.begun = time.monotonic()
            self._deadline = self.tally.begun + (self.options.get("deadline") or inf)
            try:
                while await self._step():
                    while self._ready:
                        row = self._ready.popleft()
                        yield self._typed(journal.row(row) if isinstance(row, str) else row)
            finally:
                await self._end()
                listening.cancel()

    async def open(self) -> Journal:
        """Return the journal, once it is clear that items can be run; raises `Refusal`."""
        if not self._is_open:
            options, caller = self.options, self._caller
            config = dict(options.get("config") or {})
            flags = config | _budget((options.get("max_cost") or inf, inf))
            asked = (options.get(name) for name in ("output_schema", "model", "cwd"))
            request = Request(self._agent, "-", *asked, check=options.get("check"))
            self.prepared: Prepared = await prepare(
                request, env=caller.env, flags=flags, confirm=caller.confirm
            )
            self.journal, self._is_open = Journal(self._path, self.about), True
            self._set_limits(config)
        return self.journal

    def _set_limits(self, config: dict[str, Any]) -> None:
        """Work out how many run at once, and how much each may use."""
        get, project = self.options.get, self.prepared.project
        own = open_project(project.folder, self._caller.env, config).config.subagents
        at_once, cost, tokens = (get("concurrency"), get("max_cost"), get("max_tokens"))
        at_once, cost, tokens = at_once or own.max_concurrent, cost or inf, tokens or inf
        each = (own.budget.max_cost or cost / at_once, own.budget.max_tokens or tokens / at_once)
        self.pace = Pace(at_once)
        self.purse = Purse((cost, tokens), (min(each[0], cost), min(each[1], tokens)))
        self._flags = config | {"subagents.maxConcurrent": at_once}
        if "subagents.retry.maxAttempts" not in project.settings.origins:
            self._flags["subagents.retry.maxAttempts"] = PATIENT_ATTEMPTS
        self.purse.spent = self.journal.spent
        broken_off = (one.run_id for one in self.journal.entries.values() if not one.outcome)
        for run_id in filter(None, broken_off):
            used = _used_by(runs_folder(self._caller.env) / run_id)
            self.purse.spent = added(self.purse.spent, used)

    async def _listen(self) -> None:
        while True:
            self._news.put_nowait(await self.engine.wait())

    async def _step(self) -> bool:
        """Start what can be, or take in what has happened; return whether there may be more."""
        await self._fill()
        if self._ready:
            return True
        if self._is_over and not self._back and not self.running:
            return False
        now = time.monotonic()
        ends = [one - now for one in (self.pace.until, self._deadline) if one > now]
        with suppress(TimeoutError):
            async with asyncio.timeout(min(ends, default=None)):
                news = await self._news.get()
            await self._take(news)
        if time.monotonic() >= self._deadline:
            self._deadline = inf
            self.stop("its deadline has passed")
        if self._cancels:
            await self._cancel_all()
        return True

    async def _fill(self) -> None:
        """Start what may start now; rows that need no child are ready at once."""
        while len(self._ready) < MAX_READY:
            room = self.pace.allowed(time.monotonic()) - len(self.running)
            if room <= 0 and not self.stopped:
                return
            if self._back:
                order, number = self._back.popleft()
            elif (item := await self._next()) is None:
                return
            else:
                self._taken = number = self._taken + 1
                if (order := self._order(item, number)) is None:
                    continue
            if not await self._begin(order, number):
                return

    async def _next(self) -> Item | None:
        """Return the next item; None where there is none now."""
        self._is_over |= self.stopped is not None and self.slow
        if self._is_over or (self._at_end and self.running):  # it may have grown when these end
            return None
        item: Any = _END
        if not self.slow:
            item = next(self._items, _END)
        elif self._pulling is None:
            self._pulling = asyncio.ensure_future(in_thread(next)(self._items, _END))
            self._pulling.add_done_callback(lambda _: self._news.put_nowait([]))
            return None
        elif not self._pulling.done():
            return None
        else:
            item, self._pulling = self._pulling.result(), None
        self._is_over, self._at_end = item is _END, item is None
        return await self._next() if item in (None, _END) else item

    def _order(self, item: Item, number: int) -> Order | None:
        """Return what is to be run of an item; None where its row is known already."""
        get, key, entry = self.options.get, item.key, self.journal.entry(item.key)
        if item.problem:
            self._give(number, _failed(key, REFUSED, item.problem, ErrorCode.INVALID_INPUT))
        elif entry.is_done and entry.outcome not in tuple(get("retry") or ()):
            self.tally.recorded += 1
            self._give(number, self.journal.row(key), is_recorded=True)
        elif not (entry.again or entry.outcome or get("rerun_unfinished")):
            self._give(number, _failed(key, "unfinished", UNSURE))
        else:
            schema = get("output_schema") if item.schema is None else item.schema
            cwd = str(Path(get("cwd") or ".", item.cwd)) if item.cwd else get("cwd")
            asked = (item.agent or self._agent, item.task, schema, item.model or get("model"))
            return Order(key, entry.attempt, *asked, cwd, get("check"))
        return None

    async def _begin(self, order: Order, number: int) -> bool:
        """Start an order, or leave it out; return whether another one can be started."""
        part = None if self.stopped else self.purse.reserve(order.key)
        if part is None and not self.stopped and self.running:
            self._back.appendleft((order, number))
            return False
        if part is None:
            self.stopped = self.stopped or "the purse is used up"
            self._leave_out(order, number)
            return True
        attempt, again = order.attempt + 1, self._is_repeatable(order)
        self.journal.add({"start": order.key, "attempt": attempt, "again": again})
        if not again:  # or after a loss of power nobody would know of it
            await self.journal.sync()
        order = replace(order, attempt=attempt, flags=self._flags | _budget(part))
        self.running[order.key] = order, number
        await self.engine.start(order)
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

    async def _take(self, news: list[News]) -> None:
        """Take in what the engine says; rows are given when they are on the disk."""
        ended: list[tuple[News, MapRow, Order, int]] = []
        for one in news:
            order, number = self.running.get(one.key, (None, 0))
            if order is None or one.attempt != order.attempt:
                continue  # of an attempt that doesn't count any more
            if one.row is not None:
                del self.running[one.key]
                self.purse.settle(one.key, one.row.usage)
                ended.append((one, one.row, order, number))
            elif one.wait_seconds is not None:
                self.pace.slow_down(time.monotonic(), one.wait_seconds)
            else:
                self.journal.add({"run": one.key, "runId": one.run_id})
        is_over = [self._record(*one) for one in ended]
        if ended:
            await self.journal.sync()
        for (_, row, _, number), over in zip(ended, is_over, strict=True):
            if over:
                self._give(number, row, is_kept=True)

    def _record(self, news: News, row: MapRow, order: Order, number: int) -> bool:
        """Record how an attempt ended; return whether the item's row is known with that."""
        is_harmless = not news.has_effects or self._is_repeatable(order)
        if self._cancels and row.outcome == Outcome.CANCELLED:
            self._leave_out(order, number)
        elif news.wait_seconds is not None and is_harmless:
            self.pace.slow_down(time.monotonic(), max(1.0, news.wait_seconds))
            self.journal.add({"back": order.key, "usage": to_json(row.usage)})
            self._back.append((order, number))
        else:
            self.journal.add({"end": order.key, "attempt": order.attempt, "row": to_json(row)})
            if row.completed:
                self.pace.speed_up()
            # No room for the run's record: none will do better.
            if row.outcome == REFUSED and row.error and row.error.code is ErrorCode.SUBAGENT_FAILED:
                self.stop(row.error.message)
            return True
        return False

    def _leave_out(self, order: Order, number: int) -> None:
        """Count an item that this call of the map doesn't get to."""
        self.tally.not_run += 1
        row = _failed(order.key, "not_run", f"It wasn't run: {self.stopped}.")
        self._emit(number, row if self._fills_gaps else None)

    def _give(
        self, number: int, row: MapRow, *, is_kept: bool = False, is_recorded: bool = False
    ) -> None:
        """Count a row, and give it when it is its turn."""
        self.tally.rows[row.outcome, row.error.code if row.error else ""] += 1
        self.tally.used = added(self.tally.used, row.usage)
        self._failures += not (is_recorded or row.completed)
        if self._failures >= (self.options.get("stop_after") or inf) and not self.stopped:
            self.stopped = f"{self._failures} item{'s' * (self._failures > 1)} failed"
        in_journal = self.options.get("ordered") and (is_kept or is_recorded)
        self._emit(number, row.id if in_journal else row)  # where it may have to wait for long

    def _emit(self, number: int, row: MapRow | str | None) -> None:
        self._held[number if self.options.get("ordered") else self._given] = row
        while self._given in self._held:
            if (ready := self._held.pop(self._given)) is not None:
                self._ready.append(ready)
            self._given += 1

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

    async def _end(self) -> None:
        """End what still runs, where nobody wants more rows or the journal takes none."""
        self._cancels = True
        await self._cancel_all()
        while self.running:
            with suppress(JournalLost):
                await self._take(await self._news.get())
        if self._pulling is not None:
            self._pulling.cancel()


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
