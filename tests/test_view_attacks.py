"""The page's server against records that are broken or huge, and clients that behave badly."""

import json
import os
import shutil
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path

import psutil
import pytest

from cli_door import Door
from conftest import wait_until
from outrider.records.runs import RunRecorder
from page_door import Served, record, turn


@pytest.fixture
def door(tmp_path: Path):
    with closing(Door(tmp_path)) as door:
        yield door


@pytest.fixture
def page(door: Door):
    with closing(Served(door)) as page:
        yield page


def begun(door: Door) -> RunRecorder:
    """Return the record of a run that is at work."""
    run = RunRecorder.create(door.runs)
    run.add_event({"type": "run", "startedAt": time.time(), "agent": "main", "task": "Go"})
    return run


def is_at_its_end(got):
    return got and got[-1][0] == "end"


def opened(page: Served, path: str) -> socket.socket:
    """Ask for a stream, and leave its answer unread."""
    client = socket.create_connection(("127.0.0.1", page.port), timeout=60)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    words = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{page.port}\r\nCookie: {page.cookie}\r\n\r\n"
    client.sendall(words.encode())
    return client


def test_readers_that_never_read_cost_little_and_hold_up_nobody(door, page):
    with begun(door) as run, ExitStack() as held:
        for number in range(4_000):
            for event in turn(number, "read", {"path": "a.py"}, {"text": "y" * 900}):
                run.add_event(event)
        before = psutil.Process(page.process.pid).memory_info().rss
        for _ in range(20):
            held.enter_context(opened(page, f"/api/runs/{run.id}/news"))
        told = page.news(f"/api/runs/{run.id}/news", lambda got: "c3999" in json.dumps(got[-1:]))
        assert len(told) > 1
        after = psutil.Process(page.process.pid).memory_info().rss
    # The transcript has 5 MB, and twenty who don't read it a part of it each at most.
    assert after - before < 150 << 20


def test_two_hundred_look_at_once_and_go_again(door, page):
    run_id = record(door.runs)
    with ExitStack() as held:
        clients = [held.enter_context(opened(page, "/api/runs")) for _ in range(200)]
        for client in clients:
            got = b""
            while run_id.encode() not in got:
                part = client.recv(4_096)
                assert part, got
                got += part
        assert page.get(f"/api/runs/{run_id}")["runId"] == run_id
    with ThreadPoolExecutor(20) as pool:
        heads = list(pool.map(lambda _: page.get(f"/api/runs/{run_id}"), range(200)))
    assert {head["runId"] for head in heads} == {run_id}
    server = psutil.Process(page.process.pid)
    wait_until(lambda: len(server.net_connections()) < 10, "their end")


@pytest.mark.parametrize(
    "end", [b'{"type": "tool_st', b"\xff\xfe", b"[" * 100_000, b'{"type": 5}\n']
)
def test_a_record_that_was_cut_or_spoiled_is_shown_as_far_as_it_goes(door, page, end):
    run_id = record(door.runs, turn(1, "read", {"path": "a.py"}, {"text": "found"}))
    session = door.runs / run_id / "session.jsonl"
    lines = session.read_bytes().splitlines(keepends=True)
    session.write_bytes(b"".join(lines[:5]) + end)
    (door.runs / run_id / "result.json").write_bytes(b'{"details": {"results": [')
    head = page.get(f"/api/runs/{run_id}")
    assert head["state"] == "interrupted" and "Where is it?" in head["task"]
    told = page.news(f"/api/runs/{run_id}/news", is_at_its_end)
    kinds = [event["type"] for kind, some in told if kind == "events" for event in some]
    assert kinds[:5] == ["run", "turn_start", "message_end", "tool_start", "tool_result_end"]
    [rows] = [rows for _, rows in page.news("/api/runs", lambda got: got)]
    assert [row["runId"] for row in rows] == [run_id]


def test_a_run_that_is_deleted_while_somebody_looks_at_it_ends_the_stream(door, page):
    with begun(door) as run:

        def happened(got):
            shutil.rmtree(run.folder, ignore_errors=True)
            return is_at_its_end(got)

        page.news(f"/api/runs/{run.id}/news", happened)
    for path in ("", "/news", "/events/0", "/changes"):
        status, _, data = page.ask("GET", f"/api/runs/{run.id}{path}", cookie=page.cookie)
        assert status == 400 and "No run" in json.loads(data)["error"]


def test_fifty_megabytes_are_sent_in_parts_that_are_short(door, page):
    text = "y" * (1 << 20)
    events = [one for number in range(50) for one in turn(number, "read", {}, {"text": text})]
    run_id = record(door.runs, events, answer="z" * (50 << 20))
    before = psutil.Process(page.process.pid).memory_info().rss
    assert len(page.get(f"/api/runs/{run_id}")["answer"]) == 1 << 20
    told = page.news(f"/api/runs/{run_id}/news", is_at_its_end)
    assert len(json.dumps([one for one in told if one[0] == "events"])) < 1 << 20
    assert sum(len(some) for kind, some in told if kind == "events") == 252
    assert psutil.Process(page.process.pid).memory_info().rss - before < 250 << 20


def test_a_line_without_an_end_is_no_reason_to_stop(door, page):
    """One event of 30 MB, in which names are long too."""
    huge = turn(
        1, "n" * (1 << 20), {"p" * (1 << 20): 1}, {"text": "y" * (30 << 20)}, "w" * (1 << 20)
    )
    run_id = record(door.runs, huge, agent="a" * (1 << 20), task="t" * (1 << 20))
    told = page.news(f"/api/runs/{run_id}/news", is_at_its_end)
    events = [event for kind, some in told if kind == "events" for event in some]
    assert [one["type"] for one in events if one.get("isCut")]
    assert max(len(json.dumps(one)) for one in events) < 20_000
    [rows] = [rows for _, rows in page.news("/api/runs", lambda got: got)]
    assert len(json.dumps(rows)) < 20_000


# Maps


def test_what_is_no_journal_is_no_map(door, page, tmp_path):
    maps = door.runs.parent / "maps"
    maps.mkdir(parents=True)
    (maps / ("a" * 16 + ".jsonl")).write_text(
        '{"outriderMap":1,"agent":5,"at":"x","folder":7}\n{"stop'
    )
    (maps / ("b" * 16 + ".jsonl")).write_text('{"type":"run"}\n')
    (maps / ("c" * 16 + ".jsonl")).symlink_to(tmp_path / "gone")
    (maps / ("d" * 16 + ".jsonl")).symlink_to("/etc/passwd")
    os.mkfifo(maps / ("e" * 16 + ".jsonl"))
    (tmp_path / "secret.jsonl").write_text('{"outriderMap":1}\n')
    rows = [row for _, rows in page.news("/api/runs", lambda got: got) for row in rows]
    assert [row["runId"][0] for row in rows] == ["a"]
    names = [one * 16 for one in "bcdef"] + ["..%2fsecret", "a", "a" * 15 + "%2f", "%00" * 16]
    for name in names:
        for path in (name, f"{name}/news"):
            status, _, data = page.ask("GET", f"/api/maps/{path}", cookie=page.cookie)
            assert status in (307, 400, 404) and b"root:" not in data
    assert page.ask("GET", f"/api/maps/{'a' * 16}", cookie="")[0] == 403


def test_hostile_lines_of_a_journal_are_short_and_only_text(door, page):
    maps = door.runs.parent / "maps"
    maps.mkdir(parents=True)
    row = {"outcome": "failed", "task": "t", "output": "secret answer" * 10_000, "usage": {}}
    lines = [
        {"outriderMap": 1, "agent": "a", "task": "t" * 100_000},
        {"refused": "r" * 100_000},
        {"end": "k", "row": row},
        {"end": "k", "row": 5},
        {"start": ["x"] * 100_000},
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (maps / ("a" * 16 + ".jsonl")).write_text(text + "nonsense\n")
    told = page.news(f"/api/maps/{'a' * 16}/news", is_at_its_end)
    assert len(json.dumps(told)) < 5_000 and "secret answer" not in json.dumps(told)
