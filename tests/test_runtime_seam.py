"""Whatever runs a task, its run is supervised, collected and concluded in the same way."""

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from outrider import Outcome, TimeoutReason, subagent
from outrider.protocol import jsonl
from outrider.protocol.brief import Brief
from outrider.protocol.events import Event, TaskFinishEvent, TurnStartEvent, event_to_json
from outrider.runtimes.native import runtime as native
from outrider.runtimes.runtime import ChildExit, Listener


class Foreign:
    """A runtime without processes and descriptors: it sends events, then waits or ends."""

    def __init__(self, *events: Event, ended: ChildExit | None = None) -> None:
        self._events = events
        self._ended = ended
        self.was_ended = False
        self.brief: Brief | None = None

    async def run(
        self, brief: Brief, environment: Mapping[str, str], listener: Listener
    ) -> ChildExit:
        self.brief = brief
        for event in self._events:
            listener.on_events(jsonl.encode(event_to_json(event, 0)) + b"\n")
        if self._ended is not None:
            return self._ended
        try:
            await asyncio.Event().wait()
        finally:
            self.was_ended = True
        raise AssertionError("never reached")


def use(monkeypatch: pytest.MonkeyPatch, runtime: Foreign) -> None:
    monkeypatch.setattr(native, "NativeRuntime", lambda *_, **__: runtime)


async def test_a_task_that_finishes_is_completed_and_its_runtime_ended(
    world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = Foreign(TaskFinishEvent("", "Done.", outcome=Outcome.COMPLETED))
    use(monkeypatch, runtime)
    result = await subagent("explorer", "Look.", model="embedded")
    assert result.completed and result.text == "Done."
    assert runtime.was_ended
    assert runtime.brief is not None and runtime.brief.task == "Look."


async def test_the_idle_timeout_ends_any_runtime(
    world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = Foreign(TurnStartEvent(1))
    use(monkeypatch, runtime)
    config = {"subagents.idleTimeoutMs": 50}
    result = await subagent("explorer", "Look.", model="embedded", config=config)
    run = result.details.results[0]
    assert (run.outcome, run.timeout_reason) == (Outcome.TIMED_OUT, TimeoutReason.IDLE)
    assert runtime.was_ended


async def test_a_caller_that_is_cancelled_ends_any_runtime(
    world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = Foreign(TurnStartEvent(1))
    use(monkeypatch, runtime)
    task = asyncio.ensure_future(subagent("explorer", "Look.", model="embedded"))
    while runtime.brief is None:
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert runtime.was_ended


@pytest.mark.parametrize(
    ("ended", "words"),
    [
        (ChildExit(started=False, reason="No such program."), "No such program."),
        (ChildExit(started=True), "ended before its task did"),
        (ChildExit(started=True, signal=11), "SIGSEGV"),
    ],
)
async def test_a_runtime_that_ends_without_a_finish_is_a_failure(
    world: Path, monkeypatch: pytest.MonkeyPatch, ended: ChildExit, words: str
) -> None:
    use(monkeypatch, Foreign(TurnStartEvent(1), ended=ended))
    result = await subagent("explorer", "Look.", model="embedded")
    assert result.details.results[0].outcome is Outcome.FAILED
    assert words in (result.details.results[0].error or "")


def recorded(session: str | Path) -> list[str]:
    lines = Path(session).read_bytes().splitlines()
    return [jsonl.decode(line)["type"] for line in lines]


@pytest.mark.parametrize(
    ("events", "started"), [((), False), ((), True), ((TurnStartEvent(1),), True)]
)
async def test_what_was_asked_is_recorded_first_however_little_comes_of_it(
    world: Path, monkeypatch: pytest.MonkeyPatch, events: tuple[Event, ...], started: bool
) -> None:
    use(monkeypatch, Foreign(*events, ended=ChildExit(started)))
    result = await subagent("explorer", "Look.", model="embedded")
    kinds = recorded(result.details.results[0].session_file)
    assert kinds == ["run", "prompt", *(event.type for event in events), "end"]


async def test_what_was_asked_is_recorded_while_a_child_is_waited_for(
    world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, Foreign())
    task = asyncio.ensure_future(subagent("explorer", "Look.", model="embedded"))
    state = Path(os.environ["OUTRIDER_HOME"])
    while [recorded(one) for one in state.rglob("session.jsonl")] != [["run", "prompt"]]:
        await asyncio.sleep(0.01)
        assert not task.done()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
