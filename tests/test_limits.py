"""What a child can make its parent hold is bounded, whatever it prints."""

import asyncio
import json
import threading
import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from outrider.delegation.admission import ProcessAdmission, process_admission
from outrider.delegation.collecting import Collector
from outrider.delegation.concluding import truncate
from outrider.delegation.deadlines import Deadlines
from outrider.delegation.event_masking import EventMasker
from outrider.delegation.output_limits import KEPT_ERROR_BYTES, ErrorText, Flooded, LineReader
from outrider.masking import Masker
from outrider.protocol import jsonl
from outrider.protocol.data import from_json
from outrider.protocol.events import (
    EVENTS,
    MessageEndEvent,
    MessageUpdateEvent,
    ParentRequestEvent,
    RetryEvent,
    ToolResultEndEvent,
    ToolStartEvent,
    TurnStartEvent,
    event_from_json,
    event_to_json,
)
from outrider.protocol.outcomes import TimeoutReason
from outrider.records.runs import RunRecorder


@given(st.lists(st.binary(max_size=20)), st.integers(1, 7))
def test_lines_come_out_whole_however_they_are_cut(lines: list[bytes], size: int) -> None:
    lines = [line.replace(b"\n", b"") for line in lines]
    data = b"".join(line + b"\n" for line in lines)
    reader = LineReader(max_bytes=10_000, max_line=100)
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    assert [line for piece in pieces for line in reader.feed(piece)] == lines


def test_a_line_is_given_once_to_a_reader_that_stops_after_it() -> None:
    reader = LineReader(max_bytes=1_000, max_line=100)
    assert next(reader.feed(b"one\n")) == b"one"
    assert list(reader.feed(b"two\n")) == [b"two"]


def test_a_line_without_an_end_is_a_flood() -> None:
    reader = LineReader(max_bytes=10**9, max_line=1_000)
    for _ in range(100):
        list(reader.feed(b"x" * 10))
    with pytest.raises(Flooded, match="1,000 bytes"):
        list(reader.feed(b"x"))


def test_too_many_bytes_are_a_flood() -> None:
    reader = LineReader(max_bytes=1_000, max_line=100)
    for _ in range(200):
        list(reader.feed(b"xxxx\n"))
    with pytest.raises(Flooded, match="1,000 bytes"):
        list(reader.feed(b"x"))


def test_stderr_keeps_its_end() -> None:
    text = ErrorText(10**9)
    for number in range(KEPT_ERROR_BYTES):
        text.feed(f"{number:07d},".encode())
    assert len(text.text) == KEPT_ERROR_BYTES and text.text.endswith("0016382,0016383,")
    with pytest.raises(Flooded):
        ErrorText(5).feed(b"123456")


class Fed(Collector):
    """A collector behind its gate, as a supervisor feeds it."""

    def __init__(self, run: RunRecorder) -> None:
        super().__init__(run, max_events=50)
        self.gate = EventMasker(Masker(), self.drop)

    def feed(self, line: bytes) -> bool:
        events = list(self.gate.events(line))
        for masked in events:
            self.take(masked)
        return bool(events)


@pytest.fixture
def collector(tmp_path: Path):
    with RunRecorder.create(tmp_path / "runs") as run:
        yield Fed(run)


def line(event: object) -> bytes:
    return jsonl.encode(event_to_json(event, 0))  # pyright: ignore[reportArgumentType]


def test_memory_does_not_grow_with_what_a_child_streams(collector: Fed) -> None:
    delta = line(MessageUpdateEvent(1, "some words that go on and on, " * 30))
    for _ in range(500):
        collector.feed(delta)
    tracemalloc.start()
    for _ in range(4_000):
        collector.feed(delta)
    grown, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert grown < 2_000_000
    for masked in collector.gate.close():
        collector.take(masked)
    assert Path(collector.run.output_file).stat().st_size == 4_500 * 30 * 30
    assert len(collector.partial.text) < 1_100_000


def test_too_many_events_are_a_flood_but_deltas_do_not_count(collector: Fed) -> None:
    for _ in range(1_000):
        collector.feed(line(MessageUpdateEvent(1, "x")))
    started = line(ToolStartEvent("a", "ls", {}, 1))
    for _ in range(50):
        collector.feed(started)
    with pytest.raises(Flooded, match="50 events"):
        collector.feed(started)


@pytest.mark.parametrize(
    "text",
    [
        b"plain words",
        b"",
        b"{}",
        b"[]",
        b"null",
        b'{"type": 7}',
        b'{"type": "unheard_of"}',
        b'{"type": "turn_start"}',
        b'{"type": "turn_start", "turn": "one"}',
        b'{"type": "task_finish", "outcome": "splendid"}',
        b"\xff\xfe",
        b"[" * 100_000,
    ],
)
def test_what_is_no_event_is_no_sign_of_life(collector: Fed, text: bytes) -> None:
    assert collector.feed(text) is False
    assert collector.finish is None and collector.last_event == "none"


def test_an_event_that_cannot_be_read_is_told_once_and_recorded(collector: Fed) -> None:
    for usage in ({"input": 0.5}, {"input": "x"}):
        end = {"type": "message_end", "turn": 1, "text": "Done.", "usage": usage}
        assert collector.feed(jsonl.encode(end)) is False
    assert collector.feed(b'{"type": "unheard_of"}') is False
    [told] = collector.faults
    assert told == "the child sent a message_end event that can't be read; it was dropped"
    lines = Path(collector.run.session_file).read_text().splitlines()
    assert [json.loads(one)["type"] for one in lines] == ["fault", "fault"]


def test_a_running_tool_counts_as_activity_until_its_own_deadline() -> None:
    deadlines = Deadlines(1_000, idle_seconds=10, now=0)
    deadlines.on_event(ToolStartEvent("a", "bash", {}, 60_000), 1)
    deadlines.on_event(ToolStartEvent("b", "ls", {}, 1_000), 1)
    assert deadlines.check(70) == 1  # it is looked at again when nothing has come by then
    assert deadlines.check(71) is TimeoutReason.IDLE
    deadlines.on_event(ToolResultEndEvent("a", "bash", {"code": 0}), 5)
    assert deadlines.check(14) == 1
    assert deadlines.check(15) is TimeoutReason.IDLE


def test_it_is_looked_at_before_a_tool_that_ends_early_could_make_a_run_idle() -> None:
    deadlines = Deadlines(1_000, idle_seconds=10, now=0)
    deadlines.on_event(ToolStartEvent("a", "bash", {}, 60_000), 0)
    assert deadlines.check(0) == 10


def test_a_request_that_is_sent_again_later_is_no_idleness_meanwhile() -> None:
    deadlines = Deadlines(1_000, idle_seconds=10, now=0)
    deadlines.on_event(RetryEvent(1, 1, "overloaded", "busy", delay_ms=30_000), 0)
    assert deadlines.check(39) == 1
    deadlines.on_event(MessageEndEvent(1, "so"), 20)
    assert deadlines.check(30) is TimeoutReason.IDLE


def test_the_hard_deadline_comes_whatever_a_child_does() -> None:
    deadlines = Deadlines(60, idle_seconds=10, now=0)
    for second in range(1, 60):
        deadlines.on_event(TurnStartEvent(second), second)
    assert deadlines.check(59) == 1
    assert deadlines.check(60) is TimeoutReason.RUNTIME


def test_the_time_that_a_main_agent_waits_for_its_parent_is_not_its_own() -> None:
    deadlines = Deadlines(60, idle_seconds=10, now=0)
    deadlines.on_event(ParentRequestEvent("1", "delegate", "subagent"), 5)
    deadlines.on_event(ParentRequestEvent("2", "delegate", "subagent"), 7)
    assert deadlines.check(500) == 10  # never more than the idle timeout
    deadlines.on_answer("1", 500)
    assert deadlines.check(900) == 10
    deadlines.on_answer("2", 905)
    assert deadlines.check(914) == 1
    deadlines.on_event(TurnStartEvent(2), 914)
    assert deadlines.check(924) is TimeoutReason.IDLE
    deadlines.on_event(ToolStartEvent("a", "bash", {}, 600_000), 924)
    assert deadlines.check(960) is TimeoutReason.RUNTIME  # 5 of 60 seconds at first, and 55 now


def test_nothing_counts_after_the_end(collector: Fed) -> None:
    end = {"type": "task_finish", "at": 0, "outcome": "completed", "taskResult": "Yes."}
    collector.feed(jsonl.encode(end))
    collector.feed(jsonl.encode({**end, "outcome": "failed"}))
    assert collector.finish is not None and collector.finish.task_result == "Yes."


def test_every_event_survives_the_wire() -> None:
    samples = {
        "session": {"runId": "a", "agent": "b", "model": "c", "cwd": "d"},
        "unconfined": {"missing": ["landlock: refused"]},
        "turn_start": {"turn": 1},
        "message_update": {"turn": 1, "delta": "x"},
        "message_end": {"turn": 1, "text": "x", "toolCalls": [{"id": "1", "name": "ls"}]},
        "retry": {"turn": 1, "attempt": 2, "kind": "server", "message": "m", "delayMs": 5},
        "tool_start": {"id": "1", "name": "ls", "args": {}, "timeoutMs": 5},
        "tool_result_end": {
            "id": "1",
            "name": "ls",
            "envelope": {},
            "effects": {"filesWritten": [{"path": "a", "after": "b"}], "commands": []},
        },
        "parent_request": {"id": "1", "kind": "permit", "name": "bash", "args": {"command": "x"}},
        "user_message": {"turn": 1, "text": "x", "id": "1"},
        "dropped": {"turn": 1, "ids": ["1"]},
        "turn_end": {"turn": 1, "usage": {"input": 1}},
        "task_finish": {"outcome": "completed", "structuredOutput": None},
    }
    assert set(samples) == set(EVENTS)
    for name, fields in samples.items():
        event = event_from_json({"type": name, "at": 0, **fields})
        again = event_from_json(jsonl.decode(jsonl.encode(event_to_json(event, 0))))
        assert again == event
        assert from_json(type(event), fields) == event


TEXTS = st.text(st.characters(codec="utf-8"), max_size=300)


@given(TEXTS, st.integers(10, 100), st.integers(2, 10))
def test_a_cut_text_is_a_beginning_that_says_so(text: str, max_bytes: int, lines: int) -> None:
    shown, cut = truncate(text, max_bytes=max_bytes, max_lines=lines, run_id="12345678", whole="/o")
    if not cut:
        assert shown == text
        return
    head, body = shown.split("\n", 1)
    assert head.startswith("[Cut: ")
    assert "outrider show 12345678 --lines " in head and "/o" in head
    assert text.startswith(body)
    assert len(body.encode()) <= max_bytes
    assert body.count("\n") < lines


async def visit(
    gate: ProcessAdmission, limit: int = 1, provider: str = "p", came: list[str] | None = None
) -> None:
    """Enter, tell `came` by which provider, and leave."""
    async with gate.enter(limit, provider):
        if came is not None:
            came.append(provider)


async def test_admission_is_fair_and_never_overfull() -> None:
    gate = ProcessAdmission()
    inside, most, order = 0, 0, []

    async def enter(number: int) -> None:
        nonlocal inside, most
        async with gate.enter(3, "p"):
            order.append(number)
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0)
            inside -= 1

    visitors = [asyncio.ensure_future(enter(number)) for number in range(50)]
    await asyncio.sleep(0)
    for number in (10, 20, 30):
        visitors[number].cancel()
    await asyncio.wait(visitors)
    assert most == 3
    assert order == [number for number in range(50) if number not in (10, 20, 30)]


async def test_a_visitor_cancelled_as_its_turn_comes_passes_it_on() -> None:
    gate = ProcessAdmission()
    async with gate.enter(1, "p"):
        second, third = (asyncio.ensure_future(visit(gate)) for _ in range(2))
        await asyncio.sleep(0)
    second.cancel()
    await asyncio.wait({second, third})
    assert second.cancelled()
    assert third.done() and not third.cancelled()


async def test_who_gives_up_waiting_is_not_waited_for() -> None:
    gate = ProcessAdmission()
    async with gate.enter(2, "p"):
        modest, other = (asyncio.ensure_future(visit(gate, limit)) for limit in (1, 2))
        await asyncio.sleep(0)
        modest.cancel()
        await other  # there was room for it all the time, only not for the one before it
    assert modest.cancelled()


def test_admission_counts_the_children_of_all_threads() -> None:
    gate = ProcessAdmission()
    inside, most = 0, 0
    lock = threading.Lock()

    async def enter() -> None:
        nonlocal inside, most
        async with gate.enter(2, "p"):
            with lock:
                inside += 1
                most = max(most, inside)
            await asyncio.sleep(0.02)
            with lock:
                inside -= 1

    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(asyncio.run, enter()) for _ in range(8)]:
            done.result()
    assert most == 2
    assert process_admission() is process_admission()


async def test_a_provider_that_asks_for_patience_gets_it_from_all() -> None:
    admission = ProcessAdmission()
    admission.pause("busy", 0.05)
    until = time.monotonic() + 0.049
    async with admission.enter(8, "busy"):
        assert time.monotonic() >= until


async def test_who_waits_for_a_provider_holds_no_place() -> None:
    admission, order = ProcessAdmission(), []
    admission.pause("busy", 3_600)
    admission.pause("busy", 0.001)  # a shorter one doesn't end it

    async def linger(name: str, provider: str) -> None:
        async with admission.enter(1, provider):
            order.append(name)
            await asyncio.sleep(0.005)

    patient = asyncio.ensure_future(linger("patient", "busy"))
    await asyncio.gather(*(linger(str(number), "idle") for number in range(3)))
    assert order == ["0", "1", "2"] and not patient.done()
    patient.cancel()


async def test_who_slept_out_a_pause_comes_before_those_who_came_later() -> None:
    admission, order = ProcessAdmission(), []
    async with admission.enter(1, "idle"):
        admission.pause("busy", 0.02)
        both = (visit(admission, 1, provider, order) for provider in ("busy", "idle"))
        visits = [asyncio.ensure_future(one) for one in both]
        while len(admission._queue) < 2:
            await asyncio.sleep(0.01)
    await asyncio.gather(*visits)
    assert order == ["busy", "idle"]


async def test_who_slept_and_has_room_does_not_wait_for_one_with_a_lower_limit() -> None:
    admission = ProcessAdmission()
    admission.pause("busy", 0.02)
    async with admission.enter(1, "idle"):
        first = asyncio.ensure_future(visit(admission, 2, "busy"))
        await asyncio.sleep(0)
        modest = asyncio.ensure_future(visit(admission, 1, "idle"))
        await first
    await modest


async def test_who_is_told_of_a_pause_and_gives_up_gives_back_no_place() -> None:
    admission, inside = ProcessAdmission(), []

    async def stay(provider: str) -> None:
        async with admission.enter(1, provider):
            inside.append(provider)
            await asyncio.Event().wait()

    async with admission.enter(1, "busy"):
        waiter = asyncio.ensure_future(stay("busy"))
        await asyncio.sleep(0)
        admission.pause("busy", 3_600)
    waiter.cancel()
    await asyncio.wait({waiter})
    two = [asyncio.ensure_future(stay("idle")) for _ in range(2)]
    while not inside or len(admission._queue) < 1:
        await asyncio.sleep(0)
    assert inside == ["idle"]
    for one in two:
        one.cancel()
    await asyncio.wait(two)


async def test_one_with_a_low_limit_who_waits_for_a_provider_holds_nobody_back() -> None:
    admission = ProcessAdmission()
    async with admission.enter(1, "busy"):
        paused = asyncio.ensure_future(visit(admission, 1, "busy"))
        await asyncio.sleep(0)
        admission.pause("busy", 3_600)
        await visit(admission, 8, "idle")
    paused.cancel()


async def test_a_pause_that_begins_while_somebody_waits_lets_the_others_pass() -> None:
    admission, order = ProcessAdmission(), []
    async with admission.enter(1, "busy"):
        first = asyncio.ensure_future(visit(admission, 1, "busy", order))
        await asyncio.sleep(0)
        second = asyncio.ensure_future(visit(admission, 1, "idle", order))
        await asyncio.sleep(0)
        admission.pause("busy", 0.05)
    await asyncio.gather(first, second)
    assert order == ["idle", "busy"]
