"""`outrider.map` in Python: rows, the purse, the pace, what may be repeated, and engines."""

import asyncio
import json
import os
import threading
import time
from collections import Counter
from contextlib import aclosing, closing
from dataclasses import dataclass

import pytest

import outrider
from conftest import MAY_WRITE, look_around
from outrider.delegation.map import mapping
from outrider.delegation.map.engine import MapRow, News
from outrider.delegation.map.journal import JournalLost
from outrider.protocol.errors import Refusal
from outrider.surfaces.terminal import map_bar
from outrider.testing import ScriptedModel, answer, fail, silence, tool_call


@pytest.fixture
def model(world):
    """A server that says `Done.`, with its key in the environment."""
    with ScriptedModel(lambda request: answer("Done.")) as server:
        os.environ.update(server.environment)
        yield server


def asked(server):
    """Return how often each task was asked for, its first turn only."""
    return Counter(one.last_user_text for one in server.requests if one.turn == 0)


@dataclass
class Finding:
    """What a test's agent reports."""

    line: int


async def test_rows_are_values_of_the_output_type(world):
    with ScriptedModel(lambda _: tool_call("report_back", {"line": 7})) as server:
        os.environ.update(server.environment)
        options = {"output_type": Finding, "model": server.model, "concurrency": 3}
        rows = [row async for row in outrider.map("explorer", ["a", "b"], **options)]
    assert [row.output for row in rows] == [Finding(7), Finding(7)]


async def test_gather_returns_a_row_for_each_item_in_order(model):
    items = [{"id": n, "n": n} for n in range(6)] + [{"id": "x"}]
    work = outrider.map("explorer", items, task="Item {n}", model=model.model, stop_after=1)
    rows = await work.gather()
    assert [row.id for row in rows] == [*map(str, range(6)), "x"]
    assert rows[-1].outcome == "refused"
    work = outrider.map("explorer", [{}, *items[:6]], task="{n}", model=model.model, stop_after=1)
    rows = await work.gather()
    assert [row.outcome for row in rows] == ["refused", *["not_run"] * 6]
    assert "It wasn't run: 1 item failed." in str(rows[1].error)


async def test_a_map_that_nobody_takes_rows_of_ends_its_children_and_can_go_on(world, tmp_path):
    def step(request):
        return silence() if request.last_user_text == "b" else answer("Done.")

    with ScriptedModel(step) as server:
        os.environ.update(server.environment)
        options = {"model": server.model, "journal": tmp_path / "j.jsonl"}
        async with aclosing(aiter(outrider.map("explorer", ["a", "b"], **options))) as rows:
            assert (await anext(rows)).completed
            await asyncio.to_thread(server.wait_for_requests, 2)
    end = json.loads((tmp_path / "j.jsonl").read_text().splitlines()[-1])
    assert (end["stop"], end["done"]) == ("its rows were not taken any more", 1)
    with ScriptedModel([answer("Done.")]) as server:
        os.environ.update(server.environment)
        options = {"model": server.model, "journal": tmp_path / "j.jsonl"}
        rows = await outrider.map("explorer", ["a", "b"], **options).gather()
    assert [row.completed for row in rows] == [True, True]
    end = json.loads((tmp_path / "j.jsonl").read_text().splitlines()[-1])
    assert (end["stop"], end["done"]) == (None, 2)


@pytest.mark.parametrize(
    "limit", ["concurrency", "max_cost", "max_tokens", "deadline", "stop_after"]
)
async def test_a_limit_of_nothing_is_not_taken_for_none(model, limit):
    with pytest.raises(Refusal, match=f"{limit} must be more than 0, not 0."):
        await outrider.map("explorer", ["a"], model=model.model, **{limit: 0}).gather()


async def test_a_refused_map_is_refused_at_once(model):
    with pytest.raises(Refusal, match="Unknown agent"):
        await outrider.map("nobody", ["a"], model=model.model).gather()


async def test_a_deadline_ends_what_runs_and_the_map_goes_on_from_there(world, tmp_path):
    with ScriptedModel(lambda _: silence()) as server:
        os.environ.update(server.environment)
        options = {"model": server.model, "journal": tmp_path / "j.jsonl"}
        work = outrider.map("explorer", ["a", "b"], deadline=1.5, **options)
        rows = await work.gather()
    assert [row.outcome for row in rows] == ["not_run", "not_run"]
    assert work.stopped == "its deadline has passed"


# The purse


def spender(turns):
    """Return a script that spends 15 tokens a turn, for so many turns."""

    def step(request):
        return look_around(request, 0) if request.turn < turns else answer("Done.")

    return step


@pytest.mark.parametrize(("limit", "turn"), [("max_tokens", 15), ("max_cost", 0.000075)])
async def test_the_purse_is_never_passed_by_more_than_a_request_of_each_child(world, limit, turn):
    at_once, most = 50, turn * 133
    with ScriptedModel(spender(6), name="gpt-4o") as server:
        os.environ.update(server.environment)
        options = {"model": server.model, "concurrency": at_once, limit: most}
        work = outrider.map("explorer", [str(n) for n in range(120)], **options)
        rows = await work.gather()
        spent = turn * len(server.requests)
    assert most * 0.999 <= spent <= most + turn * at_once
    used = sum(row.usage.tokens if limit == "max_tokens" else row.usage.cost for row in rows)
    assert used == pytest.approx(spent)
    outcomes = Counter(row.outcome for row in rows)
    assert set(outcomes) == {"over_budget", "not_run"} and outcomes.total() == 120
    assert work.stopped == "the purse is used up"


async def test_what_a_child_may_use_itself_is_set_aside_and_given_back(world, tmp_path):
    with ScriptedModel(spender(1)) as server:
        os.environ.update(server.environment)
        config = {"subagents.budget.maxTokens": 100}
        options = {"model": server.model, "config": config, "max_tokens": 200, "concurrency": 8}
        options["journal"] = tmp_path / "j.jsonl"
        rows = await outrider.map("explorer", list("abcde"), **options).gather()
        assert [row.outcome for row in rows] == ["completed"] * 5
        # The purse is that of the whole map, whatever the call: 50 of 200 tokens are left.
        rows = await outrider.map("explorer", list("abcdefghi"), **options).gather()
    outcomes = Counter(row.outcome for row in rows)
    assert outcomes["completed"] == 7 and outcomes["not_run"] == 2


async def test_what_interrupted_items_have_used_counts_however_often_that_happens(world, tmp_path):
    def step(request):
        return look_around(request, 0) if request.turn == 0 else silence()

    journal = tmp_path / "j.jsonl"
    options = {"journal": journal, "max_tokens": 1000}
    for call in (1, 2, 3):
        with ScriptedModel(step) as server:
            os.environ.update(server.environment)
            work = outrider.map("explorer", ["a"], model=server.model, **options)
            rows = asyncio.create_task(work.gather())
            await asyncio.to_thread(server.wait_for_requests, 2)
            assert work.purse.spent[1] == 15 * (call - 1)
            work.stop("the test says so")
            await rows
        assert work.purse.spent[1] == 15 * call


# The pace


async def test_a_rate_limit_slows_the_map_and_fails_no_row(world):
    """The server takes three requests in a moment and refuses all others."""
    times, lock, refused = [], threading.Lock(), []

    def step(request):
        with lock:
            recent = [one for one in times if time.monotonic() - one < 0.3]
            if len(recent) >= 3:
                refused.append(request)
                return fail(429, retry_after=0.2)
            times.append(time.monotonic())
            return answer("Done.")

    with ScriptedModel(step) as server:
        os.environ.update(server.environment)
        options = {"model": server.model, "concurrency": 12}
        work = outrider.map("explorer", [str(n) for n in range(30)], **options)
        slowest = 12
        async for row in work:
            assert row.completed, row
            slowest = min(slowest, work.pace.allowed(1e12))
    assert refused and slowest < 12


async def test_a_row_that_a_rate_limit_ended_is_made_again(world):
    seen, lock = Counter(), threading.Lock()

    def step(request):
        with lock:
            seen[request.last_user_text] += 1
            first = seen[request.last_user_text] == 1
        return fail(429, retry_after=0.01) if first else answer("Done.")

    with ScriptedModel(step) as server:
        os.environ.update(server.environment)
        config = {"subagents.retry.enabled": False}
        rows = await outrider.map(
            "explorer", list("abc"), model=server.model, config=config
        ).gather()
    assert [row.outcome for row in rows] == ["completed"] * 3
    assert seen == dict.fromkeys("abc", 2)


async def test_a_rate_limit_that_lets_nothing_through_stops_the_map_and_fails_no_row(
    world, tmp_path, monkeypatch
):
    assert mapping.HOPELESS_SECONDS == 600
    monkeypatch.setattr(mapping, "HOPELESS_SECONDS", 0.5)
    options = {"config": {"subagents.retry.enabled": False}, "journal": tmp_path / "j.jsonl"}
    with ScriptedModel(lambda _: fail(429, retry_after=0.01)) as server:
        os.environ.update(server.environment)
        work = outrider.map("explorer", list("abc"), model=server.model, **options)
        rows = await work.gather()
    assert [row.outcome for row in rows] == ["not_run"] * 3
    assert "no item got through" in work.stopped and "HTTP 429" in work.stopped
    assert set(asked(server)) == set("abc") and len(server.requests) > 3
    with ScriptedModel(lambda _: answer("Done.")) as server:
        os.environ.update(server.environment)
        rows = await outrider.map("explorer", list("abc"), model=server.model, **options).gather()
    assert [row.outcome for row in rows] == ["completed"] * 3


async def test_an_item_that_is_limited_while_others_get_through_fails_in_the_end(world):
    def step(request):
        if request.last_user_text == "huge":
            return fail(429, retry_after=0.01)
        return answer("Done.")

    with ScriptedModel(step) as server:
        os.environ.update(server.environment)
        options = {"model": server.model, "config": {"subagents.retry.enabled": False}}
        items = ["huge", *map(str, range(40))]
        rows = await outrider.map("explorer", items, concurrency=2, **options).gather()
    assert [row.outcome for row in rows] == ["failed", *["completed"] * 40]
    assert "HTTP 429" in rows[0].error.message
    assert asked(server)["huge"] > mapping.MAX_OVERTAKEN


async def test_failures_stop_a_map_before_their_rows_are_on_the_disk(model, monkeypatch):
    monkeypatch.setattr(mapping, "COMMIT_SECONDS", 3600)
    engine = Replaying(
        lambda order: News(order.key, order.attempt, row=MapRow(order.key, "failed"))
    )
    options = {"engine": engine, "stop_after": 3, "concurrency": 2}
    rows = await outrider.map("explorer", map(str, range(50)), **options).gather()
    assert len(engine.started) <= 4
    assert Counter(row.outcome for row in rows)["failed"] == len(engine.started)


# What may be repeated


@pytest.mark.parametrize("isolation", ["none", "auto"])
async def test_a_writer_that_was_interrupted_is_run_again_only_if_its_layer_is_thrown_away(
    world, tmp_path, isolation
):
    agents = world / ".outrider/agents"
    agents.mkdir(parents=True)
    (agents / "writer.md").write_text("---\nname: writer\ntools: ls, write\n---\nYou write.")
    config = {**MAY_WRITE, "subagents.isolation": isolation}
    options = {"config": config, "journal": tmp_path / "j.jsonl"}
    with ScriptedModel(lambda _: silence()) as server:
        os.environ.update(server.environment)
        work = outrider.map("writer", ["a"], model=server.model, **options)
        rows = asyncio.create_task(work.gather())
        await asyncio.to_thread(server.wait_for_requests, 1)
        work.stop("the test says so")
        assert [row.outcome for row in await rows] == ["not_run"]
    with ScriptedModel(lambda _: answer("Done.")) as server:
        os.environ.update(server.environment)
        rows = await outrider.map("writer", ["a"], model=server.model, **options).gather()
        if isolation == "auto":
            assert rows[0].completed
            return
        assert rows[0].outcome == "unfinished" and "--rerun-unfinished" in rows[0].error.message
        assert not server.requests
        options["rerun_unfinished"] = True
        rows = await outrider.map("writer", ["a"], model=server.model, **options).gather()
    assert rows[0].completed


# The engine


class Replaying:
    """An engine that says what it is told to, for each order."""

    def __init__(self, *news):
        self._news, self._queue, self.started, self.cancelled = news, asyncio.Queue(), [], []

    async def start(self, order):
        self.started.append(order)
        self._queue.put_nowait([one(order) for one in self._news])

    async def wait(self):
        return await self._queue.get()

    async def cancel(self, key):
        self.cancelled.append(key)


async def test_what_is_said_of_another_attempt_does_not_count_and_is_told(model):
    engine = Replaying(
        lambda order: News(order.key, order.attempt - 1, row=MapRow(order.key, "failed")),
        lambda order: News("stranger", 1, row=MapRow("stranger", "failed")),
        lambda order: News(order.key, order.attempt, row=MapRow(order.key, "completed")),
        lambda order: News(order.key, order.attempt, row=MapRow(order.key, "failed")),
    )
    work, told = outrider.map("explorer", ["a", "b"], engine=engine), []
    work.say = told.append
    rows = await work.gather()
    assert [row.outcome for row in rows] == ["completed", "completed"]
    assert "a late result of stranger was dropped" in told
    assert [order.attempt for order in engine.started] == [1, 1]


async def test_a_fault_of_the_engine_ends_the_map(model):
    class Lost(Replaying):
        async def wait(self):
            if self.started:
                raise ConnectionError("the cluster is gone")
            return []

    with pytest.raises(ConnectionError, match="the cluster is gone"):
        await outrider.map("explorer", ["a"], engine=Lost()).gather()


async def test_no_row_is_given_before_it_is_on_the_disk(model, tmp_path, monkeypatch):
    engine = Replaying(lambda order: News(order.key, 1, row=MapRow(order.key, "completed")))
    journal, on_disk = tmp_path / "j", bytearray()

    def sync(_file):
        on_disk[:] = journal.read_bytes()

    monkeypatch.setattr(os, "fdatasync", sync)
    work = outrider.map("explorer", map(str, range(40)), engine=engine, journal=journal)
    ids = []
    async for row in work:
        ids.append(row.id)
        assert f'{{"end":"{row.id}"'.encode() in on_disk
    assert len(ids) == 40


async def test_a_journal_that_is_lost_while_rows_come_ends_the_map(model, tmp_path, monkeypatch):
    engine = Replaying(lambda order: News(order.key, 1, f"{order.key:>08}"))
    work = outrider.map("explorer", ["a", "b", "c"], engine=engine, journal=tmp_path / "j")

    async def cancel(key):  # all rows come at once
        engine._queue.put_nowait([News(key, 1, row=MapRow(key, "cancelled"))])

    engine.cancel = cancel
    journal = await work.open()
    add = journal.add

    def full(data):
        if "run" in data:
            raise JournalLost("the journal can't be written")
        add(data)

    monkeypatch.setattr(journal, "add", full)
    with pytest.raises(JournalLost):
        await asyncio.wait_for(work.gather(), 60)
    assert not work.running


async def test_a_bar_tells_what_runs_is_done_and_failed_what_it_took_and_what_is_left(model):
    work = outrider.map("explorer", list("abcd"))
    work.tally.rows.update({("completed", ""): 2, ("failed", "SUBAGENT_FAILED"): 1})
    work.tally.begun, work.purse.spent = time.monotonic() - 60, (0.12, 1234.0)
    words = "3 of 4 · 0 running · 1 failed · 1,234 tokens · $0.1200 · 3.0/min · 20.0 s left"
    assert map_bar.MapBar(work).line() == f"[{'#' * 15}     ] {words}"
    work.total = 2  # the input has grown
    assert map_bar.MapBar(work).line().startswith(f"[{'#' * 20}] 3 of 3 · 0 running")
    work.pace.slow_down(time.monotonic(), 9)
    assert "waiting 9.0 s for the provider" in map_bar.MapBar(work).line()


async def test_a_log_gets_a_line_a_minute(model, monkeypatch, capsys):
    assert map_bar.SAY_SECONDS == 60
    monkeypatch.setattr(map_bar, "SAY_SECONDS", 0.01)
    said = ""
    with closing(map_bar.MapBar(outrider.map("explorer", ["a", "b", "c"]))) as bar:
        bar.tick()
        assert not capsys.readouterr().err
        while said.count("\n") < 2:
            await asyncio.sleep(0.01)
            said += capsys.readouterr().err
    for line in said.splitlines():
        assert line.startswith("outrider: [") and "0 of 3 · 0 running · 0 failed" in line
    assert "\r" not in said
