"""One delegation, from the request to the result. It never raises for what can be expected."""

import asyncio
import logging
import os
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar

from outrider.delegation.admission import max_children, process_admission
from outrider.delegation.briefing import brief_for, child_environment, hide_secrets
from outrider.delegation.collecting import Collector
from outrider.delegation.concluding import conclude
from outrider.delegation.control import ControlSocket, Json
from outrider.delegation.event_masking import EventMasker, MaskedEvent
from outrider.delegation.preparation import Confirm, Prepared, prepare, system_prompt
from outrider.delegation.request import Request
from outrider.delegation.supervision import Ending, OnRequest, Supervisor
from outrider.processes.shielding import finish
from outrider.protocol.data import frozen, to_json
from outrider.protocol.errors import ErrorCode, Refusal
from outrider.protocol.events import Event, RetryEvent
from outrider.protocol.outcomes import FailureKind
from outrider.protocol.results import Details, ToolResult, refused, text_result
from outrider.records.activity import ActivityLog, of_run
from outrider.records.pruning import prune, pruning_is_due
from outrider.records.runs import RunRecorder
from outrider.settings.places import runs_folder

UPDATE_INTERVAL_SECONDS = 0.05
PROVIDER_IS_BUSY = (FailureKind.RATE_LIMIT, FailureKind.OVERLOADED)
NO_MESSAGES = "it takes no messages while it works. Stop it, and give it another task."
log = logging.getLogger("outrider")

T = TypeVar("T")
OnUpdate = Callable[[ToolResult], object]
Trace = Callable[[MaskedEvent | ToolResult], object]


@frozen
class Caller:
    """Who asks: their environment and flags, and how they can be reached while it runs."""

    env: Mapping[str, str]
    flags: Mapping[str, object] | None = None
    confirm: Confirm | None = None
    on_update: OnUpdate | None = None
    on_start: Callable[[Prepared, str], object] | None = None
    on_event: Callable[[Event], object] | None = None
    """Told of each event of the child, masked."""
    on_request: OnRequest | None = None
    """Answers the requests of a main agent; no other agent may make any."""
    cancelled: asyncio.Event | None = None
    place: Callable[[int], AbstractAsyncContextManager[None]] | None = None
    """What a child waits for when its run is recorded already: one of so many places."""
    one_shot: bool = False
    """A command that ends with its result, and shares the user's fork server with the next."""
    above: Mapping[str, str] | None = None
    """What its trace is part of: W3C's headers of a span, or the id of a `run` of this process."""

    def __post_init__(self) -> None:
        # Copied: it may change later, and `os.environ` decodes a variable at each look.
        object.__setattr__(self, "env", dict(self.env))


async def perform(request: Request, caller: Caller | None = None) -> ToolResult:
    """Return the result of a delegation; a cancelled caller gets it recorded, then is cancelled."""
    caller = caller or Caller(os.environ)
    env, flags, confirm = caller.env, caller.flags, caller.confirm
    try:
        prepared = await prepare(request, env=env, flags=flags, confirm=confirm)
    except Refusal as refusal:
        return refused(refusal)
    return await perform_prepared(prepared, caller)


async def perform_prepared(prepared: Prepared, caller: Caller) -> ToolResult:
    """Return the result of a prepared delegation, which waits for its turn first."""
    most = max_children(prepared.config.subagents.max_concurrent)
    try:
        async with process_admission().enter(most, prepared.provider):
            with recording(prepared, caller.env) as run:
                result = await perform_recorded(prepared, caller, run)
                # While the record is held: whoever waits for the run's end sees what has landed.
                return await _landed(prepared, run.folder, result)
    except Refusal as refusal:
        return refused(refusal)


async def _landed(prepared: Prepared, run: Path, result: ToolResult) -> ToolResult:
    """Return a result, that of a writer landed where the user wants no review."""
    if not prepared.is_layered:
        return result
    from outrider.delegation.landing import landed_by_itself

    landed = asyncio.to_thread(landed_by_itself, prepared, run, result)
    return (await finish(landed)).with_changes()


@contextmanager
def recording(
    prepared: Prepared,
    env: Mapping[str, str],
    open_record: Callable[[Path], RunRecorder] = RunRecorder.create,
) -> Generator[RunRecorder]:
    """Hold a run's record open, which `open_record` opens in a folder; raises `Refusal`."""
    runs = runs_folder(env)
    try:
        run = open_record(runs)
    except OSError as error:
        message = f"The run can't be recorded under {runs}: {error.strerror or error}."
        advice = "Free some space there, or point OUTRIDER_HOME at another folder."
        raise Refusal(ErrorCode.SUBAGENT_FAILED, f"{message} {advice}") from None
    with run:
        yield run
    if pruning_is_due(runs, run.size, keep := prepared.config.runs):
        with suppress(RuntimeError):  # there is no room for a thread: a later run prunes
            threading.Thread(target=prune, args=(runs, keep, run.folder)).start()


async def perform_recorded(prepared: Prepared, caller: Caller, run: RunRecorder) -> ToolResult:
    """Return the result of a run whose turn it is, and whose record is open."""
    hide_secrets(prepared)
    activity = ActivityLog(run.folder.parents[1])
    collector = Collector(run, prepared.config.limits.events, activity)
    collector.model = prepared.choice.shown
    if caller.on_start:
        caller.on_start(prepared, run.id)
    start = time.monotonic()
    ending = Ending("cancelled")
    trace = _tracing(prepared, caller, run)
    open_transcript = cache(partial(_open_transcript, prepared, collector))  # once
    try:
        ending = await _supervise(prepared, caller, collector, trace, open_transcript)
    finally:
        open_transcript()  # also of a child that could not be started
        duration_ms = round((time.monotonic() - start) * 1000)
        result = conclude(prepared, ending, collector, duration_ms)
        collector.record_unanswered()
        activity.add(of_run(result.details.results[0], run.id))
        trace(result)
    return result


def _tracing(prepared: Prepared, caller: Caller, run: RunRecorder) -> Trace:
    """Return what is told of a run, to make spans of it where telemetry is on."""
    if not prepared.config.telemetry.is_on(caller.env):
        return lambda _news: None
    from outrider.delegation.telemetry import headers_above, silence_exporter, telemetry_doubt

    above, begun = headers_above(caller.above, caller.env), time.time_ns()
    is_lost = bool(telemetry_doubt())

    @cache
    def spans() -> Any:  # from the first event on, when the child is at work
        silence_exporter()
        from outrider.delegation.spans import RunSpans

        return RunSpans(prepared, run.id, above, begun)

    def take(news: MaskedEvent | ToolResult) -> None:
        nonlocal is_lost
        is_lost = is_lost or not _tell(lambda one: spans().take(one, time.time_ns()), news)

    return take


def _open_transcript(prepared: Prepared, collector: Collector) -> None:
    """Record what was asked, and what the run can be resumed with."""
    collector.shown_task = prepared.project.masker.text(prepared.request.task)
    collector.run.add_event(_opening(prepared, collector.run, collector.shown_task))
    if prepared.main_turn is None:
        collector.run.add_event(_prompt(prepared))


def _opening(prepared: Prepared, run: RunRecorder, shown_task: str) -> dict[str, object]:
    """Return the first line of the transcript: what was asked, of whom, and with which tools."""
    return {
        "type": "run",
        "at": 0,
        "startedAt": time.time(),
        "runId": run.id,
        "agent": prepared.definition.name,
        "task": shown_task,
        "model": prepared.choice.shown,
        "modelReason": prepared.choice.reason,
        "tools": list(prepared.permit.tools),
        "withheld": to_json(prepared.permit.withheld),
        "cwd": prepared.project.masker.text(str(prepared.project.folder)),
        "project": prepared.project.name,
        **({"resumes": prepared.past.run_id} if prepared.past else {}),
        **({"masked": True} if shown_task != prepared.request.task else {}),
        **({"folder": str(prepared.project.folder)} if prepared.main_turn else {}),
    }


def _prompt(prepared: Prepared) -> dict[str, object]:
    """Return the second line of the transcript: what the run can be resumed with."""
    prompt = system_prompt(prepared)
    kept = prepared.project.without_secrets(prompt)
    return {
        "type": "prompt",
        "at": 0,
        # Of pi's there is none: what it says to its model is its own.
        "systemPrompt": kept if prepared.runtime.takes_messages else None,
        "model": prepared.choice.model,
        "folder": str(prepared.project.folder),
        **({"outputSchema": prepared.schema} if prepared.schema is not None else {}),
        **({"masked": True} if kept != prompt else {}),
    }


async def _supervise(
    prepared: Prepared,
    caller: Caller,
    collector: Collector,
    trace: Trace,
    open_transcript: Callable[[], object],
) -> Ending:
    """Return why the run is over.

    Its transcript is opened while its child starts: to mask the task takes about as long.
    """
    updates = _Updates(caller, collector)

    def changed(masked: MaskedEvent) -> None:
        event = masked.event
        trace(masked)
        if isinstance(event, RetryEvent) and event.kind in PROVIDER_IS_BUSY:
            process_admission().pause(prepared.provider, event.delay_ms / 1000)
        updates.changed(event)

    masker, config = prepared.project.masker, prepared.config
    gate = EventMasker(masker, collector.drop)
    supervisor = Supervisor(gate, collector, config, changed, caller.on_request, open_transcript)
    runtime = prepared.runtime.create(config, caller.env, masker, one_shot=caller.one_shot)
    brief = brief_for(prepared, collector.run)
    environment = child_environment(prepared, collector.run.id)
    answer = partial(_answer, prepared, supervisor)
    control = ControlSocket(collector.run.folder, answer)
    place = caller.place and caller.place(config.subagents.max_concurrent)
    if place is not None:
        open_transcript()  # of a run that may wait for long
    try:
        return await supervisor.run(runtime, brief, environment, caller.cancelled, place)
    finally:
        updates.close()
        control.close()


def _answer(prepared: Prepared, supervisor: Supervisor, question: Json) -> Json:
    """Do what another process asks of a run, and return what it gets to know."""
    match question:
        case {"stop": True}:
            supervisor.stop()
        case {"tell": str()} if not prepared.runtime.takes_messages:
            return {"refused": f"{prepared.definition.name} runs in pi: {NO_MESSAGES}"}
        case {"tell": str(text)}:
            return {"id": supervisor.tell(text)}
        case _:
            pass
    return {}


class _Updates:
    """Tells the caller of each event, and at most twenty times a second how far the run is."""

    def __init__(self, caller: Caller, collector: Collector) -> None:
        self._on_event, self._on_update = caller.on_event, caller.on_update
        self._collector = collector
        self._timer: asyncio.TimerHandle | None = None
        self._last = 0.0

    def changed(self, event: Event) -> None:
        if self._on_event is not None and not _tell(self._on_event, event):
            self._on_event = None
        if self._on_update is not None and self._timer is None:
            wait = max(0.0, self._last + UPDATE_INTERVAL_SECONDS - time.monotonic())
            self._timer = asyncio.get_running_loop().call_later(wait, self._send, self._on_update)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _send(self, on_update: OnUpdate) -> None:
        self._timer, self._last = None, time.monotonic()
        streaming = self._collector.streaming()
        details = Details(run_id=self._collector.run.id, streaming=streaming)
        if not _tell(on_update, text_result(self._collector.partial.text, details)):
            self._on_update = None


def _tell(tell: Callable[[T], object], news: T) -> bool:
    """Tell whoever wants to know; a fault of theirs is no reason to lose the run."""
    try:
        tell(news)
    except Exception:
        log.exception("on_event, on_update or a trace failed; it isn't told of this run again")
        return False
    return True
