"""The delegations of one server: each goes on until it ends, its caller leaves, or the server ends.

One in the background goes on all the same: any server finds it by its id.

A run that takes longer than a client waits is answered with a handle. The same request again then
joins that run. A run that nobody has a handle for is never joined: two equal calls are two runs.
"""

import asyncio
import gc
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from outrider.delegation.background import start_background
from outrider.delegation.perform import Caller, perform_prepared
from outrider.delegation.preparation import Confirm, Prepared, prepare
from outrider.delegation.profiles import SubAgentManager, SubAgentTool, sub_agent_profile
from outrider.delegation.project import Project
from outrider.delegation.request import Request, invalid
from outrider.delegation.run_handle import RunHandle
from outrider.delegation.telemetry import headers_in
from outrider.processes.reaping import libc
from outrider.protocol.errors import ErrorCode, Refusal
from outrider.protocol.events import Event, ToolStartEvent, TurnStartEvent
from outrider.protocol.results import Details, refused
from outrider.runtimes.native.fork_client import end_fork_servers
from outrider.settings.keys import Config
from outrider.surfaces.mcp.connection import ClientRequest
from outrider.surfaces.mcp.handshake import Json
from outrider.surfaces.mcp.offer import BACKGROUND, CAN_GO_ON, READER
from outrider.surfaces.mcp.results import DETACHED, call_result, handle, recorded_result
from outrider.surfaces.text import call_line, fit

PROGRESS_EVERY_SECONDS = 10.0
TIDY_AFTER_SECONDS = 1.0
MAX_PROGRESS_TEXT = 120
MAX_HANDLES = 64  # of runs that have ended, kept for those who ask again
DEAF_CLIENTS = ("claude-ai",)  # they give a token for progress, and give up all the same
Key = tuple[Path, str, Json]  # a folder, a tool and its arguments


@dataclass(eq=False)
class Run:
    """A delegation under way."""

    key: Key  # the request that joins it
    above: Mapping[str, str]  # the client's span
    id: str = ""  # empty while it waits for its turn
    doing: str = "waiting for other subagents to end"
    has_handle: bool = False  # a client was told that it goes on, and may ask for it again
    watchers: set[ClientRequest] = field(default_factory=set[ClientRequest])
    task: "asyncio.Task[Details | None]" = field(init=False)

    def on_start(self, _prepared: Prepared, run_id: str) -> None:
        self.id = run_id

    def on_event(self, event: Event) -> None:
        """Tell those who wait of each turn and tool call."""
        if isinstance(event, TurnStartEvent):
            self.doing = f"turn {event.turn}"
        elif isinstance(event, ToolStartEvent):
            self.doing = fit(call_line(event.name, event.args), MAX_PROGRESS_TEXT)
        else:
            return
        for request in self.watchers:
            request.progress(self.doing)

    async def wait_for_end(self, request: ClientRequest, seconds: float) -> bool:
        """Wait so long, with progress on the way; return whether it has ended."""
        self.watchers.add(request)
        try:
            return await _wait(self.task, request, seconds, lambda: self.doing)
        finally:
            self.watchers.discard(request)

    async def perform(self, prepared: Prepared) -> Details | None:
        """Do it, and return the details of its result; with a handle, only its record has them."""
        env, above = prepared.project.env, self.above
        caller = Caller(env, on_start=self.on_start, on_event=self.on_event, above=above)
        try:
            result = await perform_prepared(prepared, caller)
        except asyncio.CancelledError:
            if self.id:  # its record has what there is so far
                return None
            why = "It was stopped before a child was started."
            result = refused(Refusal(ErrorCode.SUBAGENT_CANCELLED, why))
        # A client may never ask again, and a server lives long: it doesn't keep all that was said.
        return None if self.has_handle and self.id else result.details


async def _wait(
    task: "asyncio.Future[Any]", request: ClientRequest, seconds: float, doing: Callable[[], str]
) -> bool:
    """Wait so long for something, with progress on the way; return whether it is done."""
    give_up = time.monotonic() + seconds
    while not task.done() and (left := give_up - time.monotonic()) > 0:
        await asyncio.wait({task}, timeout=min(left, PROGRESS_EVERY_SECONDS))
        request.progress(doing())
    return task.done()


async def tell_run(request: ClientRequest, run_id: str, text: str, seconds: float) -> Json | None:
    """Return a handle on a run that was told something; None if it has ended before.

    Raises `Refusal`. Where the model takes longer, it reads the message later.
    """
    telling = asyncio.ensure_future(RunHandle.find(run_id).tell(text))
    if not await _wait(telling, request, seconds, lambda: "telling it"):
        return handle(run_id, "sent; not read yet")
    turn = telling.result()
    return None if turn is None else handle(run_id, f"read in turn {turn}")


class Runs:
    """The runs of a server that go on, and those that a client may ask for again."""

    def __init__(self) -> None:
        self._runs: list[Run] = []
        self._timers: tuple[asyncio.TimerHandle, ...] = ()  # for when nothing is delegated

    async def call(
        self,
        request: ClientRequest,
        name: str,
        arguments: Json,
        project: Project,
        confirm: Confirm | None,
    ) -> Json:
        """Return the result of a tool that delegates, or a handle where that takes too long.

        Raises `Refusal`. The person is asked, and all is decided, before there is a run.
        """
        alone = arguments.pop(BACKGROUND, None) if name == CAN_GO_ON else None
        if not isinstance(alone, bool | None):
            raise invalid(f"{BACKGROUND} must be true or false.")
        if name == READER:
            asked = Request("", arguments["tell"], resume=arguments["runId"])
        else:
            tool = SubAgentTool(sub_agent_profile(name), SubAgentManager(project.folder))
            asked = tool.request(arguments)
        above = headers_in(request.params.get("_meta"))
        if alone:
            caller = Caller(project.env, confirm=confirm, above=above)
            run_id = await start_background(asked, caller)
            return handle(run_id, DETACHED)
        key = (project.folder, name, arguments)
        run = next((one for one in self._runs if one.has_handle and one.key == key), None)
        if run is None:
            prepared = await prepare(asked, env=project.env, confirm=confirm, project=project)
            run = self._begin(Run(key, above), prepared)
        return await self._result(run, request, project.config)

    async def _result(self, run: Run, request: ClientRequest, config: Config) -> Json:
        try:
            run.has_handle = not await run.wait_for_end(request, patience(request, config))
        except asyncio.CancelledError:
            if not run.has_handle:
                run.task.cancel()
            raise
        if run.has_handle:
            return handle(run.id)
        self.forget(run)
        details, most = run.task.result(), config.mcp.result_bytes
        return call_result(details, most) if details else recorded_result(run.id, most)

    async def wait_for(self, request: ClientRequest, run_id: str, seconds: float) -> Json | None:
        """Return a handle on a run that doesn't end in time, None if it has; raises `Refusal`."""
        if run := next((one for one in self._runs if one.id == run_id), None):
            if not await run.wait_for_end(request, seconds):
                return handle(run_id)
            self.forget(run)
            return None
        ending = asyncio.ensure_future(RunHandle.find(run_id).result())
        try:
            is_over = await _wait(ending, request, seconds, lambda: "running")
        finally:
            ending.cancel()
        return None if is_over else handle(run_id, DETACHED)

    def forget(self, run: Run) -> None:
        """Drop a run whose end was told: the same request is a new one now."""
        with suppress(ValueError):  # two may have waited for it
            self._runs.remove(run)

    def _begin(self, run: Run, prepared: Prepared) -> Run:
        run.task = asyncio.create_task(run.perform(prepared))
        self._runs.append(run)
        for timer in self._timers:
            timer.cancel()
        keep_minutes = prepared.config.warm.keep_minutes
        run.task.add_done_callback(lambda _: self._on_end(run, keep_minutes))
        return run

    def _on_end(self, run: Run, keep_minutes: int) -> None:
        if not run.has_handle:
            self.forget(run)
        for past in [one for one in self._runs if one.task.done()][:-MAX_HANDLES]:
            self.forget(past)
        if all(one.task.done() for one in self._runs):
            later = asyncio.get_running_loop().call_later
            end_warmth = later(keep_minutes * 60, end_fork_servers)
            self._timers = (later(TIDY_AFTER_SECONDS, _tidy), end_warmth)

    async def close(self) -> None:
        """End all runs, and return when their children are gone."""
        for run in self._runs:
            run.task.cancel()
        await asyncio.gather(*(run.task for run in self._runs), return_exceptions=True)


def _tidy() -> None:
    """Give back the memory of what has ended: a server idles long."""
    gc.collect()  # a run's parts refer to each other, and the collector seldom looks at old ones
    with suppress(AttributeError):  # it is only in Linux's C library
        libc().malloc_trim(0)


def patience(request: ClientRequest, config: Config) -> float:
    """Return for how many seconds a client can be kept waiting."""
    counts = request.token is not None and request.client.info.get("name") not in DEAF_CLIENTS
    return float("inf") if counts else config.mcp.reply_within_ms / 1000
