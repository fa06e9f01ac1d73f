"""Sessions are shared, counted and locked, and end in every case."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from outrider.tools import tool
from outrider.tools.context import ToolContext
from outrider.tools.executor import ToolExecutor
from outrider.tools.registry import collect_tools


class Desk:
    """A session that counts: opened, in use, closed."""

    opened: list["Desk"]

    def __init__(self) -> None:
        self.alive = True
        self.closed = 0
        self.at_once = 0
        self.most_at_once = 0
        self.uses = 0

    async def use(self, until: asyncio.Event | None = None) -> int:
        self.at_once += 1
        self.most_at_once = max(self.at_once, self.most_at_once)
        try:
            await (until.wait() if until else asyncio.sleep(0))
            assert not self.closed, "the session was ended under its user"
            self.uses += 1
            return self.uses
        finally:
            self.at_once -= 1

    async def aclose(self) -> None:
        await asyncio.sleep(0)
        self.closed += 1


class Office:
    """Tools of one resource, with what they do under the test's control."""

    def __init__(self) -> None:
        self.desks: list[Desk] = []
        self.gate = asyncio.Event()
        self.started = asyncio.Event()

    def tools(self) -> list[Any]:
        async def open_desk(context: ToolContext) -> Desk:
            await asyncio.sleep(0)
            self.desks.append(Desk())
            return self.desks[-1]

        @tool("desk:work", session=open_desk)
        async def work(session: Desk) -> int:
            return await session.use()

        @tool("desk:wait", session=open_desk, timeout_ms=60_000)
        async def wait(session: Desk) -> int:
            self.started.set()
            return await session.use(self.gate)

        @tool("desk:hang", session=open_desk, timeout_ms=20)
        async def hang(session: Desk) -> int:
            return await session.use(self.gate)

        @tool("desk:fail", session=open_desk)
        async def fail(session: Desk) -> None:
            raise ValueError("no")

        @tool("desk:kill", session=open_desk)
        async def kill(session: Desk) -> None:
            session.alive = False

        return collect_tools([work, wait, hang, fail, kill])


@pytest.fixture
async def office() -> Office:
    return Office()


def executor(office: Office, **options: Any) -> ToolExecutor:
    return ToolExecutor(office.tools(), ToolContext(cwd=Path("/")), **options)


async def test_a_call_without_a_session_gets_one_that_ends_with_it(office: Office):
    tools = executor(office)
    first = await tools.execute("desk_work", {})
    second = await tools.execute("desk_work", {})
    for outcome in (first, second):
        meta = outcome.envelope["meta"]
        assert meta["temporary_session"] is True and meta["resource_type"] == "desk"
        assert outcome.envelope["data"] == 1
    assert first.envelope["meta"]["session_id"] != second.envelope["meta"]["session_id"]
    assert [desk.closed for desk in office.desks] == [1, 1]


async def test_tools_of_one_resource_share_a_named_session(office: Office):
    async with executor(office) as tools:
        for count in (1, 2, 3):
            outcome = await tools.execute("desk_work", {}, session_id="mine")
            assert outcome.envelope["data"] == count
            assert outcome.envelope["meta"]["session_id"] == "mine"
            assert outcome.envelope["meta"]["temporary_session"] is False
        await tools.execute("desk_work", {}, session_id="other")
        assert len(office.desks) == 2
    assert [desk.closed for desk in office.desks] == [1, 1]


async def test_the_childs_own_session_serves_calls_that_name_none(office: Office):
    tools = ToolExecutor(office.tools(), ToolContext(cwd=Path("/"), session_id="task"))
    async with tools:
        await tools.execute("desk_work", {})
        outcome = await tools.execute("desk_work", {})
        assert outcome.envelope["data"] == 2
        assert outcome.envelope["meta"]["session_id"] == "task"


async def test_concurrent_calls_make_one_session_and_take_turns(office: Office):
    async with executor(office) as tools:
        calls = [tools.execute("desk_work", {}, session_id="mine") for _ in range(20)]
        results = await asyncio.gather(*calls)
        assert sorted(one.envelope["data"] for one in results) == list(range(1, 21))
        assert len(office.desks) == 1 and office.desks[0].most_at_once == 1


async def test_a_batch_of_temporary_calls_never_ends_a_siblings_session(office: Office):
    async with executor(office) as tools:
        waiting = asyncio.create_task(tools.execute("desk_wait", {}))
        await office.started.wait()
        await asyncio.gather(*(tools.execute("desk_work", {}) for _ in range(10)))
        office.gate.set()
        assert (await waiting).envelope["code"] == 0
    assert len(office.desks) == 11 and all(desk.closed == 1 for desk in office.desks)


@pytest.mark.parametrize("name", ["desk_fail", "desk_hang"])
async def test_a_temporary_session_ends_after_a_fault(office: Office, name: str):
    outcome = await executor(office).execute(name, {})
    assert outcome.envelope["code"] == (5000 if name == "desk_fail" else 2002)
    assert [desk.closed for desk in office.desks] == [1]


@pytest.mark.parametrize("session_id", [None, "mine"])
async def test_a_cancelled_call_leaves_no_session_behind(office: Office, session_id: str | None):
    tools = executor(office)
    call = asyncio.create_task(tools.execute("desk_wait", {}, session_id=session_id))
    await office.started.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert [desk.closed for desk in office.desks] == [1]


async def test_a_call_cancelled_in_the_queue_leaves_the_one_that_runs_alone(office: Office):
    async with executor(office) as tools:
        running = asyncio.create_task(tools.execute("desk_wait", {}, session_id="mine"))
        await office.started.wait()
        queued = asyncio.create_task(tools.execute("desk_work", {}, session_id="mine"))
        await asyncio.sleep(0)
        queued.cancel()
        with pytest.raises(asyncio.CancelledError):
            await queued
        office.gate.set()
        assert (await running).envelope["code"] == 0
        assert office.desks[0].closed == 0


async def test_a_fault_keeps_a_named_session_and_a_timeout_replaces_it(office: Office):
    async with executor(office) as tools:
        await tools.execute("desk_work", {}, session_id="mine")
        await tools.execute("desk_fail", {}, session_id="mine")
        assert len(office.desks) == 1
        await tools.execute("desk_hang", {}, session_id="mine")
        assert office.desks[0].closed == 1
        again = await tools.execute("desk_work", {}, session_id="mine")
        assert again.envelope["data"] == 1 and len(office.desks) == 2


async def test_a_dead_session_is_replaced(office: Office):
    async with executor(office) as tools:
        await tools.execute("desk_kill", {}, session_id="mine")
        await tools.execute("desk_work", {}, session_id="mine")
        assert [desk.closed for desk in office.desks] == [1, 0]


async def test_closing_ends_sessions_in_use_too(office: Office):
    tools = executor(office)
    running = asyncio.create_task(tools.execute("desk_wait", {}, session_id="mine"))
    await office.started.wait()
    await tools.aclose()
    assert office.desks[0].closed == 1
    office.gate.set()
    assert (await running).envelope["code"] == 5000
    late = await tools.execute("desk_work", {})
    assert late.envelope["code"] == 5000 and len(office.desks) == 1


async def test_a_session_that_can_not_be_made_is_an_envelope():
    async def broken(context: ToolContext) -> Desk:
        raise FileNotFoundError("no desk here")

    @tool("desk:work", session=broken)
    async def work(session: Desk) -> None: ...

    async with ToolExecutor(collect_tools([work]), ToolContext(cwd=Path("/"))) as tools:
        outcome = await tools.execute("desk_work", {}, session_id="mine")
    assert outcome.envelope["code"] == 5000 and "no desk here" in outcome.envelope["message"]
