"""One agent over many items: rows, the journal, the purse and the pace, through both doors."""

import asyncio
import csv
import json
import os
import threading
import time
from collections import Counter
from contextlib import aclosing, closing
from dataclasses import dataclass

import pytest

import outrider
from cli_door import Door
from conftest import MAY_WRITE, look_around
from outrider.delegation.map.engine import MapRow, News
from outrider.protocol.errors import Refusal
from outrider.testing import ScriptedModel, answer, fail, silence, tool_call

SCHEMA = {"type": "object", "properties": {"line": {"type": "integer"}}, "required": ["line"]}


@pytest.fixture
def door(tmp_path, warm_runtime):
    with closing(Door(tmp_path, warm_runtime)) as door:
        yield door


@pytest.fixture
def model(world):
    """A server that says `Done.`, with its key in the environment."""
    with ScriptedModel(lambda request: answer("Done.")) as server:
        os.environ.update(server.environment)
        yield server


def run_map(door, server, *options, agent="explorer", stdin=b"", code=0):
    """Run `outrider map`, and return its rows by id, in their order, and what it said."""
    words = ("map", agent, *options, "--model", server.model)
    ended = door.run(*words, env=server.environment, stdin=stdin)
    assert ended.code == code, (ended.out, ended.err)
    return {row["id"]: row for row in map(json.loads, ended.out.splitlines())}, ended.err


def asked(server):
    """Return how often each task was asked for, its first turn only."""
    return Counter(one.last_user_text for one in server.requests if one.turn == 0)


def write_items(door, *items):
    path = door.project / "items.jsonl"
    lines = (one if isinstance(one, str) else json.dumps(one) for one in items)
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


# The command


def test_each_item_has_one_row_and_a_bad_line_is_one_bad_row(door):
    write_items(door, {"id": "a", "task": "First?"}, '{"id": ', "Second?")
    with ScriptedModel(lambda request: answer(f"On {request.last_user_text}")) as server:
        rows, said = run_map(door, server, "items.jsonl", code=1)
    assert len(rows) == 3
    assert (rows["a"]["outcome"], rows["a"]["output"]) == ("completed", "On First?")
    assert rows["a"]["usage"]["input"] == 10 and len(rows["a"]["runId"]) == 8
    outcomes = Counter(row["outcome"] for row in rows.values())
    assert outcomes == {"completed": 2, "refused": 1}
    assert "2 completed · 1 not · 30 tokens" in said


def test_the_exit_code_is_0_only_if_every_item_completed(door):
    write_items(door, "One", "Two")
    with ScriptedModel(lambda _: answer("Done.")) as server:
        run_map(door, server, "items.jsonl", code=0)
    write_items(door, "One", "Two", "Three")
    with ScriptedModel(lambda _: fail(401)) as server:
        rows, _ = run_map(door, server, "items.jsonl", code=1)
    assert Counter(row["outcome"] for row in rows.values()) == {"completed": 2, "failed": 1}
    assert [row["error"]["code"] for row in rows.values() if "error" in row] == ["SUBAGENT_FAILED"]


def test_a_template_is_filled_from_csv_and_the_rows_are_written_as_csv(door):
    (door.project / "items.csv").write_text('id,path,concern\n1,a.py,"bugs, or ""odd"""\n2,b.py\n')
    with ScriptedModel(lambda request: answer(f'"{request.last_user_text}",\nnext')) as server:
        words = ("items.csv", "--task", "Review {path} for {concern}", "--output", "out.csv")
        rows, _ = run_map(door, server, *words, code=1)
    assert not rows
    with open(door.project / "out.csv", newline="") as file:
        found = {row["id"]: row for row in csv.DictReader(file)}
    assert found["1"]["output"] == '"Review a.py for bugs, or "odd"",\nnext'
    assert Counter(row["outcome"] for row in found.values()) == {"completed": 1, "refused": 1}


def test_each_file_is_an_item(door):
    for name in ("src/a.py", "src/deep/b.py", "src/c.txt"):
        (door.project / name).parent.mkdir(parents=True, exist_ok=True)
        (door.project / name).touch()
    with ScriptedModel(lambda _: answer("Fine.")) as server:
        words = ("--files", "src/**/*.py", "--task", "Review {path}", "--ordered")
        rows, _ = run_map(door, server, *words)
    assert list(rows) == ["src/a.py", "src/deep/b.py"]
    assert set(asked(server)) == {"Review src/a.py", "Review src/deep/b.py"}


def test_an_item_names_its_own_agent_model_folder_and_schema(door):
    (door.project / "sub").mkdir()
    write_items(
        door,
        {"id": "a", "task": "t", "agent": "tester", "cwd": "sub", "schema": SCHEMA},
        {"id": "b", "task": "t", "agent": "nobody"},
        {"id": "c", "task": "t", "cwd": "missing"},
        {"id": "d", "task": "t", "model": "nonsense:x"},
    )
    with ScriptedModel(lambda _: tool_call("report_back", {"line": 7})) as server:
        rows, _ = run_map(door, server, "items.jsonl", code=1)
    assert rows["a"]["structuredOutput"] == {"line": 7} and "output" not in rows["a"]
    assert {rows[key]["outcome"] for key in "bcd"} == {"refused"}
    assert rows["b"]["error"]["code"] == "UNKNOWN_AGENT"
    assert "`tester`" in server.requests[0].messages[0]["content"]
    assert "/sub`" in server.requests[0].messages[0]["content"]


def test_ordered_rows_come_in_the_order_of_the_items(door):
    write_items(door, *({"id": str(number), "task": f"{number}"} for number in range(9)))

    def step(request):
        return answer("Done.", delay=0.3 if request.last_user_text in "036" else 0)

    with ScriptedModel(step) as server:
        rows, _ = run_map(door, server, "items.jsonl", "--ordered", "--concurrency", "4")
        assert list(rows) == [str(number) for number in range(9)]
        again, _ = run_map(door, server, "items.jsonl", "--ordered")
    assert list(again.items()) == list(rows.items())
    assert len(server.requests) == 9


def test_limit_tries_the_first_and_the_same_command_does_the_rest(door):
    write_items(door, *"abcdef")
    with ScriptedModel(lambda _: answer("Done.")) as server:
        first, _ = run_map(door, server, "items.jsonl", "--limit", "2")
        assert set(asked(server)) == {"a", "b"}
        rows, _ = run_map(door, server, "items.jsonl")
    assert len(rows) == 6 and first.items() <= rows.items()
    assert set(asked(server).values()) == {1}


def test_lines_can_be_added_removed_and_moved(door):
    write_items(door, "a", "b", "c")
    with ScriptedModel(lambda _: answer("Done.")) as server:
        run_map(door, server, "items.jsonl")
        write_items(door, "d", "c", "a")
        rows, _ = run_map(door, server, "items.jsonl")
    assert len(rows) == 3 and asked(server) == dict.fromkeys("abcd", 1)


def test_dry_run_shows_the_tasks_and_runs_nothing(door):
    write_items(door, {"id": "a", "path": "x"}, {"id": "b"})
    with ScriptedModel([]) as server:
        rows, _ = run_map(door, server, "items.jsonl", "--task", "See {path}", "--dry-run", code=1)
    assert rows["a"]["task"] == "See x"
    assert "The task needs {path}" in rows["b"]["error"]
    assert not server.requests and not door.runs.exists()


def test_stop_after_failures_starts_no_more(door):
    write_items(door, *map(str, range(20)))
    with ScriptedModel(lambda _: fail(401)) as server:
        words = ("items.jsonl", "--stop-after", "3", "--concurrency", "1")
        rows, said = run_map(door, server, *words, code=1)
    assert len(rows) == len(server.requests) == 3
    assert "stopped: 3 items failed. 17 items not run." in said


def test_failed_items_are_run_again_only_when_asked_for(door):
    write_items(door, "a", "b")
    with ScriptedModel([fail(401), answer("Done.")]) as server:
        run_map(door, server, "items.jsonl", "--concurrency", "1", code=1)
    with ScriptedModel(lambda _: answer("Done.")) as server:
        run_map(door, server, "items.jsonl", code=1)
        run_map(door, server, "items.jsonl", "--retry", "timed_out", code=1)
        assert not server.requests
        run_map(door, server, "items.jsonl", "--retry", "timed_out,failed")
        run_map(door, server, "items.jsonl", "--retry-failed")
    assert len(server.requests) == 1


def test_a_summary_counts_outcomes_and_errors(door):
    write_items(door, "a", "b", "{")
    with ScriptedModel(lambda _: answer("Done.")) as server:
        _, said = run_map(door, server, "items.jsonl", "--summary", code=1)
    assert "2  completed\n1  refused    INVALID_INPUT\n" in said


def test_stdin_is_read_as_it_comes_and_says_that_it_can_not_go_on(door):
    with ScriptedModel(lambda _: answer("Done.")) as server:
        words = ("map", "explorer", "-", "--model", server.model)
        process = door.start(*words, env=server.environment, stdin=-1)
        process.stdin.write(b"One\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["output"] == "Done."
        process.stdin.write(b"Two")
        out, err = process.communicate()
    assert len(out.splitlines()) == 1 and process.returncode == 0
    assert b"use --journal FILE" in err


def test_stdin_goes_on_with_a_journal(door):
    with ScriptedModel(lambda _: answer("Done.")) as server:
        for _ in range(2):
            rows, said = run_map(door, server, "--journal", "j.jsonl", stdin=b"One\nTwo\n")
            assert len(rows) == 2 and "use --journal" not in said
    assert len(server.requests) == 2


def test_no_items_at_all_is_said(door):
    write_items(door)
    with ScriptedModel([]) as server:
        rows, said = run_map(door, server, "items.jsonl")
    assert not rows and "there were no items" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["explorer"], "no items"),  # stdin, which is empty
        (["explorer", "missing.txt"], "can't be read from 'missing.txt': No such file"),
        (["explorer", "x", "--files", "*"], "needs either FILE, - for stdin, or --files"),
        (["explorer", "--files", "*.nope", "--task", "{path}"], "matches --files '*.nope'"),
        (["explorer", "--files", "*"], "--files needs a task"),
        (["explorer", "x", "--task", "a } b"], "lone '}'"),
        (["nobody", "x"], "Unknown agent: nobody"),
        (["explorer", "x", "--max-cost", "0"], "write a number above 0"),
        (["explorer", "x", "--retry", "oops"], "'oops' is none of cancelled"),
        (["explorer", "x", "--output", "x"], "is the file with the items"),
        (["explorer", "x", "--output", "."], "Is a directory"),
        (["explorer", "x", "--journal", "x"], "isn't the journal of a map"),
        (["explorer", "x", "--concurency", "3"], "did you mean --concurrency?"),
    ],
)
def test_a_call_that_can_not_be_is_refused_before_anything_runs(door, words, said):
    (door.project / "x").write_text("One\n")
    with ScriptedModel([]) as server:
        ended = door.run("map", *words, "--model", server.model, env=server.environment)
    assert ended.code == (0 if said == "no items" else 2)
    assert said in ended.err and not server.requests
    assert (door.project / "x").read_text() == "One\n"


def test_an_unknown_price_is_refused_where_the_cost_is_limited(door):
    write_items(door, "a")
    with ScriptedModel([]) as server:
        _, said = run_map(door, server, "items.jsonl", "--max-cost", "5", code=2)
    assert "The price of" in said and "--max-cost 5 can't be enforced" in said


def test_results_of_other_options_are_told_from_these(door):
    write_items(door, "a")
    with ScriptedModel(lambda _: answer("Done.")) as server:
        run_map(door, server, "items.jsonl")
        _, said = run_map(door, server, "items.jsonl", "--schema", json.dumps(SCHEMA))
    assert "has results of another output_schema; remove it to redo" in said


def test_a_terminal_shows_what_it_will_cost_and_asks_and_draws_a_bar(door):
    write_items(door, "a", "b", "c")
    with ScriptedModel(lambda _: answer("Done.", delay=0.3)) as server:
        run_map(door, server, "items.jsonl", "--limit", "1")
        words = ("map", "explorer", "items.jsonl", "--model", server.model)
        terminal = door.terminal(*words, env=server.environment)
        terminal.see("2 items for explorer on .*, 1 done already: about 30 tokens and ")
        terminal.see(r"Start\? \[y/N\]")
        terminal.type("n\n")
        assert terminal.end() == 130 and len(server.requests) == 1
        words = (*words, "--max-tokens", "5000")
        terminal = door.terminal(*words, env=server.environment)
        terminal.see(r"at most 1,250 tokens\.\s+Start\? ")
        terminal.type("y\n")
        terminal.see(r"\[#+ *\] \d of 3 · \d running · 0 failed · ")
        assert terminal.end() == 0
    assert terminal.screen.count('"outcome":"completed"') == 3
    assert len(server.requests) == 3


# Python


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
    with ScriptedModel([answer("Done.")]) as server:
        os.environ.update(server.environment)
        options = {"model": server.model, "journal": tmp_path / "j.jsonl"}
        rows = await outrider.map("explorer", ["a", "b"], **options).gather()
    assert [row.completed for row in rows] == [True, True]


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


async def test_the_purse_is_never_passed_by_more_than_a_request_of_each_child(world):
    at_once, most = 50, 50 * 40
    with ScriptedModel(spender(6)) as server:
        os.environ.update(server.environment)
        options = {"model": server.model, "concurrency": at_once, "max_tokens": most}
        work = outrider.map("explorer", [str(n) for n in range(120)], **options)
        rows = await work.gather()
        spent = 15 * len(server.requests)
    assert most <= spent <= most + 15 * at_once
    assert sum(row.usage.tokens for row in rows) == spent
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


async def test_what_is_said_of_another_attempt_does_not_count(model):
    engine = Replaying(
        lambda order: News(order.key, order.attempt - 1, row=MapRow(order.key, "failed")),
        lambda order: News("stranger", 1, row=MapRow("stranger", "failed")),
        lambda order: News(order.key, order.attempt, row=MapRow(order.key, "completed")),
        lambda order: News(order.key, order.attempt, row=MapRow(order.key, "failed")),
    )
    rows = await outrider.map("explorer", ["a", "b"], engine=engine).gather()
    assert [row.outcome for row in rows] == ["completed", "completed"]
    assert [order.attempt for order in engine.started] == [1, 1]


def test_strange_bytes_in_a_row_spoil_no_other_row(door):
    (door.project / "items.csv").write_bytes(b"id,task\ncaf\xe9,One\nb,caf\xe9\nc,Three\n")
    with ScriptedModel(lambda _: answer("Dönê\x1b[31m\r\n=1+1")) as server:
        words = ("items.csv", "--ordered", "--output", "out.csv")
        run_map(door, server, *words, code=1)
        rows, _ = run_map(door, server, "items.csv", "--ordered", code=1)
    assert [row["outcome"] for row in rows.values()] == ["completed", "refused", "completed"]
    assert "isn't valid Unicode" in rows["b"]["error"]["message"]
    with open(door.project / "out.csv", newline="", encoding="utf-8") as file:
        assert [row["outcome"] for row in csv.DictReader(file)][1] == "refused"
