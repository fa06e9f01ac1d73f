"""The loop of a map: starts items while purse and pace allow it, and takes in what the engine says.

A row is recorded before anybody gets it.
"""

import asyncio
import time
from collections import Counter, deque
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from outrider.delegation.map.engine import REFUSED, Engine, LocalEngine, MapRow, News, Order
from outrider.delegation.map.items import Item
from outrider.delegation.map.journal import Journal, JournalLost
from outrider.delegation.map.purse import UNLIMITED, Money, Pace, Purse, added
from outrider.delegation.perform import Caller
from outrider.delegation.preparation import Prepared, find_agent, prepare
from outrider.delegation.project import open_project
from outrider.delegation.request import Request
from outrider.processes.threads import in_thread
from outrider.protocol import jsonl
from outrider.protocol.data import as_object, from_json, frozen, member
from outrider.protocol.errors import ErrorCode, Refusal
from outrider.protocol.outcomes import Outcome
from outrider.protocol.results import ErrorInfo
from outrider.protocol.usage import Usage
from outrider.records.runs import SESSION
from outrider.settings.layers import FlagValue
from outrider.settings.places import runs_folder

PATIENT_ATTEMPTS = 6
"""How often a child of a map sends a request that the provider was too busy for."""
MAX_READY = 100
UNFINISHED, NOT_RUN = "unfinished", "not_run"
_UNSURE = (
    "It was running when the map ended, and may have changed files. --rerun-unfinished "
    "(rerun_unfinished=True) runs it again."
)
_NO_ROOM = ErrorCode.SUBAGENT_FAILED
"""Why a run was refused that couldn't be recorded: no other one will do better."""
_END = object()


@frozen
class Plan:
    """What a map does with each item, and its limits."""

    agent: str
    schema: Any = None
    model: str | None = None
    cwd: str | None = None
    check: str | None = None
    flags: Mapping[str, Any] = field(default_factory=dict[str, Any])
    concurrency: int | None = None
    max_cost: float | None = None
    max_tokens: int | None = None
    deadline: float | None = None
    """How many seconds the map may take."""
    retry: frozenset[str] = frozenset()
    """The outcomes of items that are run again."""
    rerun_unfinished: bool = False
    stop_after: int | None = None
    ordered: bool = False


@dataclass(slots=True)
class Tally:
    """How far a map is."""

    rows: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    """How many rows there are with each outcome and error code."""
    recorded: int = 0
    """How many of these were made before."""
    not_run: int = 0
    used: Money = (0.0, 0.0)
    begun: float = field(default_factory=time.monotonic)

    def add(self, row: MapRow) -> None:
        """Count a row."""
        self.rows[row.outcome, row.error.code if row.error else ""] += 1
        self.used = added(self.used, row.usage)

    @property
    def done(self) -> int:
        """How many rows there are."""
        return self.rows.total()

    @property
    def failed(self) -> int:
        """How many of them have another outcome than `completed`."""
        return self.done - self.rows[Outcome.COMPLETED, ""]


class Map:
    """A map at work. It goes on while its rows are taken, and ends with their iterator."""

    def __init__(
        self,
        plan: Plan,
        items: Iterator[Item | None],
        journal: Path,
        caller: Caller,
        engine: Engine | None = None,
        *,
        about: Mapping[str, Any],
        slow: bool = False,
    ) -> None:
        """`about` is for the journal; `slow` says that the next item may be long in coming."""
        self.plan, self.tally, self.pace, self.purse = plan, Tally(), Pace(1), Purse()
        self.stopped: str | None = None
        """Why it ended before its items did."""
        self.running: dict[str, tuple[Order, int]] = {}
        """The orders at work, each with the number of its item."""
        self.fills_gaps = False
        """Whether items that it doesn't get to have rows too."""
        self._items, self._caller, self.slow = items, caller, slow
        self._engine = engine or LocalEngine(caller)
        self._path, self.about = journal, about
        self._back: deque[tuple[Order, int]] = deque()
        self._ready: deque[MapRow | str] = deque()
        self._held: dict[int, MapRow | str | None] = {}
        self._taken = self._failures = 0
        self._given = 1  # the number of the item whose row is next
        self._is_open = self._at_end = self._is_over = self._is_ending = False
        self._repeatable: dict[tuple[str, str | None], bool] = {}
        self._halt = asyncio.Event()
        self._pulling: asyncio.Future[Any] | None = None
        self._news: asyncio.Future[list[News]] | None = None

    def stop(self, reason: str) -> None:
        """End the map: its children are ended, and run again when the map goes on."""
        self.stopped = self.stopped or reason
        self._halt.set()

    async def _prepare(self) -> Prepared:
        """Return what each item is run with by default; raises `Refusal` where none could be."""
        plan, caller = self.plan, self._caller
        flags = {**plan.flags, **_budget((plan.max_cost or UNLIMITED[0], UNLIMITED[1]))}
        request = Request(plan.agent, "-", plan.schema, plan.model, plan.cwd, check=plan.check)
        return await prepare(request, env=caller.env, flags=flags, confirm=caller.confirm)

    async def rows(self) -> AsyncGenerator[MapRow]:
        """Yield the rows, those that are recorded included; raises `Refusal`, `JournalLost`."""
        with await self.open():
            try:
                while await self._step():
                    while self._ready:
                        row = self._ready.popleft()
                        yield self.journal.row(row) if isinstance(row, str) else row
            finally:
                await self._end()

    async def open(self) -> Journal:
        """Return the journal, once it is clear that items can be run; raises `Refusal`."""
        if not self._is_open:
            self.prepared = await self._prepare()
            self.journal, self._is_open = Journal(self._path, self.about), True
            self._set_limits()
        return self.journal

    def _set_limits(self) -> None:
        """Work out how many run at once, and how much money each may use."""
        plan, project = self.plan, open_project(self.plan.cwd, self._caller.env, self.plan.flags)
        subagents, own = project.config.subagents, project.settings.origins
        at_once = plan.concurrency or subagents.max_concurrent
        self._flags = {**plan.flags, "subagents.maxConcurrent": at_once}
        if "subagents.retry.maxAttempts" not in own:
            self._flags["subagents.retry.maxAttempts"] = PATIENT_ATTEMPTS
        cost, tokens = plan.max_cost or UNLIMITED[0], plan.max_tokens or UNLIMITED[1]
        each = subagents.budget.max_cost or cost / at_once
        each_tokens = subagents.budget.max_tokens or tokens / at_once
        self.pace = Pace(at_once)
        self.purse = Purse((cost, tokens), (min(each, cost), min(each_tokens, tokens)))
        self.purse.spent = self.journal.spent
        if self.purse.most != UNLIMITED:
            broken_off = (one for one in self.journal.entries.values() if one.outcome is None)
            for run_id in filter(None, (entry.run_id for entry in broken_off)):
                used = _used_by(runs_folder(self._caller.env) / run_id)
                self.purse.spent = added(self.purse.spent, used)

    async def _step(self) -> bool:
        """Go on until something has happened; return whether more can."""
        await self._fill()
        if self._ready:
            return True
        is_over = self._is_over and not self._back
        if not self.running and (is_over or self._halt.is_set()):
            return False
        await self._listen()
        return True

    async def _fill(self) -> None:
        """Start what may start; rows that need no child are ready at once."""
        while len(self._ready) < MAX_READY and not self._halt.is_set():
            room = self.pace.allowed(time.monotonic()) - len(self.running)
            if room <= 0 and not self.stopped:
                return
            if self._back:
                order, number = self._back.popleft()
            elif self.stopped and self.slow:
                self._is_over = True
                return
            elif (item := await self._next()) is None:
                return
            else:
                self._taken += 1
                number = self._taken
                if (order := self._order(item, number)) is None:
                    continue
            if not await self._begin(order, number):
                return

    async def _next(self) -> Item | None:
        """Return the next item; None where there is none now."""
        if self._is_over or (self._at_end and self.running):  # it may have grown when these end
            return None
        item: Any = _END
        if not self.slow:
            item = next(self._items, _END)
        else:
            if self._pulling is None:
                self._pulling = asyncio.ensure_future(in_thread(next)(self._items, _END))
            if not self._pulling.done():
                return None
            item, self._pulling = self._pulling.result(), None
        self._is_over, self._at_end = item is _END, item is None
        return await self._next() if item is None else (None if self._is_over else item)

    def _order(self, item: Item, number: int) -> Order | None:
        """Return what is to be run of an item; None where its row is known already."""
        key, plan, outcome = item.key, self.plan, self.journal.result(item.key)
        if item.problem:
            error = ErrorInfo(ErrorCode.INVALID_INPUT, item.problem)
            self._give(number, MapRow(key, REFUSED, error=error))
        elif outcome is not None and outcome not in plan.retry:
            self.tally.recorded += 1
            self._give(number, self.journal.row(key), is_kept=True, is_new=False)
        elif not (plan.rerun_unfinished or self.journal.may_run(key)):
            self._give(number, MapRow(key, UNFINISHED, error=_failure(_UNSURE)))
        else:
            agent, model = item.agent or plan.agent, item.model or plan.model
            schema = plan.schema if item.schema is None else item.schema
            cwd = str(Path(plan.cwd or ".", item.cwd)) if item.cwd else plan.cwd
            return Order(key, 0, agent, item.task, schema, model, cwd, plan.check)
        return None

    async def _begin(self, order: Order, number: int) -> bool:
        """Start an order; return whether another one may be started."""
        if not self.stopped and self.purse.is_empty:
            self.stopped = "the purse is used up"
        if self.stopped:
            self._leave_out(order, number)
            return True
        part = self.purse.reserve(order.key)
        if part is None:
            self._back.appendleft((order, number))
            return False
        again = self._is_repeatable(order)
        attempt = self.journal.add_start(order.key, again=again)
        if not again:  # or after a loss of power nobody would know of it
            await self.journal.sync()
        order = replace(order, attempt=attempt, flags={**self._flags, **_budget(part)})
        self.running[order.key] = order, number
        await self._engine.start(order)
        return True

    def _is_repeatable(self, order: Order) -> bool:
        """Whether the agent only reads, or writes to a layer that nobody lands by himself."""
        asked = order.agent, order.cwd
        if asked not in self._repeatable:
            self._repeatable[asked] = True
            with suppress(Refusal):  # which is then the item's row
                project = open_project(order.cwd, self._caller.env, self._flags)
                agent = find_agent(order.agent, project.discovery)
                given, _ = project.permit(agent, interactive=self._caller.confirm is not None)
                layered = given.isolation != "none" and project.config.subagents.land != "auto"
                self._repeatable[asked] = given.readonly or layered
        return self._repeatable[asked]

    async def _listen(self) -> None:
        """Wait until something happens, and take it in."""
        now, ends = time.monotonic(), [self.pace.until]
        if self.plan.deadline is not None and not self.stopped:
            ends.append(self.tally.begun + self.plan.deadline)
            if now >= ends[-1]:
                self.stopped = "its deadline has passed"
                await self._cancel_all()
        if self._halt.is_set():
            await self._cancel_all()
        self._news = self._news or asyncio.ensure_future(self._engine.wait())
        halted = asyncio.ensure_future(self._halt.wait())
        about = {self._news, *({} if self._halt.is_set() else {halted})}
        about |= {self._pulling} if self._pulling and not self._pulling.done() else set()
        wait = min((end - now for end in ends if end > now), default=None)
        await asyncio.wait(about, timeout=wait, return_when=asyncio.FIRST_COMPLETED)
        halted.cancel()
        if self._news.done():
            news, self._news = self._news.result(), None
            await self._take(news)

    async def _take(self, news: list[News]) -> None:
        """Take in what the engine says; rows are given when they are on the disk."""
        ended: list[tuple[Order, int, News, MapRow]] = []
        for one in news:
            order, number = self.running.get(one.key, (None, 0))
            if order is None or one.attempt != order.attempt:
                continue  # of an attempt that doesn't count any more
            if one.row is not None:
                del self.running[one.key]
                self.purse.settle(one.key, one.row.usage)
                ended.append((order, number, one, one.row))
            elif one.wait_seconds is not None:
                self.pace.slow_down(time.monotonic(), one.wait_seconds)
            elif one.run_id:
                self.journal.add_run(one.key, one.run_id)
        given = [(number, row) for *ends, row in ended if (number := self._conclude(*ends, row))]
        if ended:
            await self.journal.sync()
        for number, row in given:
            self._give(number, row, is_kept=True)

    def _conclude(self, order: Order, number: int, news: News, row: MapRow) -> int:
        """Record how an attempt ended; return the number of its item, 0 where it isn't over."""
        if self._is_ending and row.outcome == Outcome.CANCELLED:
            self._leave_out(order, number)
        elif news.wait_seconds is not None and (not news.has_effects or self._is_repeatable(order)):
            self.pace.slow_down(time.monotonic(), max(1.0, news.wait_seconds))
            self.journal.add_back(order.key, row.usage)
            self._back.append((order, number))
        else:
            self.journal.add_end(order.key, row)
            if row.completed:
                self.pace.speed_up()
            if row.outcome == REFUSED and row.error and row.error.code == _NO_ROOM:
                self.stop(row.error.message)
            return number
        return 0

    def _leave_out(self, order: Order, number: int) -> None:
        """Count an item that this call of the map doesn't get to."""
        self.tally.not_run += 1
        row = MapRow(order.key, NOT_RUN, error=_failure(f"Not run: {self.stopped}."))
        self._emit(number, row if self.fills_gaps else None)

    def _give(
        self, number: int, row: MapRow, *, is_kept: bool = False, is_new: bool = True
    ) -> None:
        """Count a row, and give it when it is its turn."""
        self.tally.add(row)
        self._failures += is_new and not row.completed
        if self.plan.stop_after and self._failures >= self.plan.stop_after and not self.stopped:
            self.stopped = f"{self._failures} items failed"
        self._emit(number, row.id if is_kept else row)  # the journal has it, memory needn't

    def _emit(self, number: int, row: MapRow | str | None) -> None:
        self._held[number if self.plan.ordered else self._given] = row
        while self._given in self._held:
            if (ready := self._held.pop(self._given)) is not None:
                self._ready.append(ready)
            self._given += 1

    async def _cancel_all(self) -> None:
        self._is_ending = True
        for key in list(self.running):
            await self._engine.cancel(key)

    async def _end(self) -> None:
        """End what is still running, where nobody wants more rows."""
        self.stop("nobody takes its rows")
        while self.running:
            with suppress(JournalLost):
                await self._listen()
        for work in filter(None, (self._news, self._pulling)):
            work.cancel()


def _budget(part: Money) -> dict[str, Any]:
    """Return the settings that keep a child to its part of the purse."""
    cost, tokens = part
    flags: dict[str, Any] = {}
    if cost != UNLIMITED[0]:
        flags["subagents.budget.maxCost"] = FlagValue(cost, f"--max-cost {cost:g}")
    if tokens != UNLIMITED[1]:
        flags["subagents.budget.maxTokens"] = max(1, int(tokens))
    return flags


def _failure(message: str) -> ErrorInfo:
    return ErrorInfo(ErrorCode.SUBAGENT_FAILED, message)


def _used_by(run: Path) -> Usage:
    """Return what a run has used that broke off, as its transcript tells."""
    used = Usage()
    with suppress(OSError), open(run / SESSION, "rb") as events:
        for line in events:
            with suppress(ValueError):
                event = as_object(jsonl.decode(line))
                if event.get("type") == "turn_end":
                    used = from_json(Usage, member(event, "usage"))
    return used
