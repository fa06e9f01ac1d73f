"""A session with the main agent: one run, which each turn goes on with in a process of its own.

The agent runs at depth 0. What it can't do itself, this parent does for it: delegate, and ask the
person. It does neither for a subagent.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from outrider.agents.definitions import AgentDefinition
from outrider.agents.discovery import builtin_agent
from outrider.agents.permissions import permit
from outrider.agents.trust import Trust
from outrider.delegation import profiles
from outrider.delegation.depth import check_depth
from outrider.delegation.perform import Caller, perform_recorded, recording
from outrider.delegation.preparation import Prepared, assemble
from outrider.delegation.project import Project, open_project
from outrider.delegation.request import Request, check_input, invalid
from outrider.delegation.session_history import history_of
from outrider.protocol import envelope
from outrider.protocol.brief import HostTool, MainTurn
from outrider.protocol.changes import Changes
from outrider.protocol.data import to_json
from outrider.protocol.errors import OutriderError, Refusal
from outrider.protocol.events import Event, ParentRequestEvent
from outrider.protocol.jsonl import without_surrogates
from outrider.protocol.results import ToolResult, refused
from outrider.protocol.tool_catalogue import CATALOGUE, run_commands
from outrider.records.runs import RecordedRun, RunRecorder, find_run, recorded_runs
from outrider.settings.keys import PRIVILEGED_LSP_ACTIONS
from outrider.settings.places import runs_folder

WRITING = frozenset({"files", "commands"})
"""What is asked about, once for each or for the whole session."""
PLACE = "You work in `{cwd}`; paths in tool calls are relative to it."

Decision = Literal["once", "session", "no"]
Decide = Callable[[str, Any], Awaitable[Decision]]
"""Asks the person about a call: the tool, and its arguments."""
Settle = Callable[[str], Awaitable[Changes]]
"""Asks the person what becomes of what a run changed, and returns it as it is then."""
Watch = Callable[[str, "str | Event | ToolResult"], object]
"""Told of the main agent's events with an empty key, and of each subagent under a key of its own:
its name and run when it begins, its events, its result."""


@dataclass(slots=True)
class MainSession:
    """A conversation with the main agent."""

    caller: Caller
    watch: Watch
    cwd: str | None = None
    allow_write: bool = False  # whether the agent may write and run commands without asking
    decide: Decide | None = None  # None where nobody can be asked: then it has no tool that writes
    settle: Settle | None = None
    """None where nobody can be asked: then what a subagent changed waits for a command."""
    folder: Path | None = None  # the session's record; None before its first turn
    _allowed: set[str] = field(default_factory=set[str])
    _asking: asyncio.Lock = field(default_factory=asyncio.Lock)
    _children: int = 0
    _queued: "set[asyncio.Future[ToolResult]]" = field(default_factory=set)
    """Those that wait for their turn: no child has begun yet."""
    _stop_children: asyncio.Event = field(default_factory=asyncio.Event)
    _stop_turn: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self._allowed |= WRITING if self.allow_write else set()

    def project(self) -> Project:
        """Return the folder that the session is about; raises `Refusal`, also for the depth."""
        project = open_project(self.cwd, self.caller.env, self.caller.flags)
        check_depth(project.config, self.caller.env)
        return project

    async def turn(self, text: str) -> ToolResult:
        self._stop_turn.clear()
        caller = replace(
            self.caller,
            on_event=partial(self.watch, ""),
            on_request=self._on_request,
            cancelled=self._stop_turn,
        )
        try:
            prepared = self._prepared(text)
            with recording(prepared, caller.env, self._open_record) as run:
                # Whole, as long as this process has the run.
                prepared = replace(prepared, history=history_of(Path(run.session_file)))
                return await perform_recorded(prepared, caller, run)
        except Refusal as refusal:
            return refused(refusal)

    def stop_children(self) -> bool:
        """Stop the subagents at work; return whether there were any that weren't stopping yet."""
        if not self._children or self._stop_children.is_set():
            return False
        self._stop_children.set()
        for child in self._queued:
            child.cancel()
        return True

    def stop(self) -> None:
        self._stop_turn.set()

    def resume(self, name: str | None) -> RecordedRun:
        """Go on with the session of this id, or the last one in this folder; raises `Refusal`."""
        runs, here = runs_folder(self.caller.env), str(self.project().folder)
        own = (run for run in recorded_runs(runs) if run.opening.get("folder") == here)
        run = find_run(runs, name) if name else next(own, None)
        if run is None or "folder" not in run.opening:
            which = f"Run {run.id} isn't a session" if run else f"There is no session in {here}"
            raise invalid(f"{which} of the main agent. Start one with `outrider chat`.")
        self.folder = run.folder
        return run

    def _open_record(self, runs: Path) -> RunRecorder:
        try:
            run = RunRecorder.reopen(self.folder) if self.folder else RunRecorder.create(runs)
        except BlockingIOError:
            raise invalid("Another process is using this session. Wait for it to finish.") from None
        self.folder = run.folder
        return run

    def _prepared(self, text: str) -> Prepared:
        project, agent = self.project(), builtin_agent("main")
        if not text.strip():
            raise invalid("The question is empty. Say what you want to know or have done.")
        request = Request(agent.name, text, cwd=self.cwd, definition=agent)
        check_input(request)
        may_write = self.allow_write or self.decide is not None
        subagents = replace(project.config.subagents, allow_write=may_write)
        given = permit(agent, replace(project.config, subagents=subagents), trust=Trust.TRUSTED)
        # As long as nothing is allowed for good, it sees secrets masked, as all readers do.
        given = replace(given, readonly=WRITING.isdisjoint(self._allowed))
        agents = project.discovery.agents
        tools = profiles.offered_tools(project.config, profiles.SubAgentManager(), tuple(agents))
        policy = profiles.policy_for(project, interactive=self.decide is not None)
        place = PLACE.format(cwd=without_surrogates(str(project.folder)))
        parts = (agent.system_prompt.strip(), place, policy if tools else "")
        opened = may_write and project.config.lsp.tool.allow_mutating_actions and given.lsp_actions
        changing = PRIVILEGED_LSP_ACTIONS if opened else ()
        given = replace(given, lsp_actions=(*given.lsp_actions, *changing))
        agent = replace(agent, system_prompt="\n\n".join(filter(None, parts)))
        turn = MainTurn(
            host_tools=tuple(HostTool(t.name, t.description, t.parameters) for t in tools),
            ask_before=(
                *(name for name in given.tools if CATALOGUE[name].writes),
                *(f"lsp {action}" for action in changing),
            ),
        )
        return replace(assemble(request, project, agent, given), main_turn=turn)

    async def _on_request(self, event: ParentRequestEvent) -> Any:
        if event.kind == "delegate":
            return await self._delegate(event)
        group = "commands" if run_commands([event.name]) else "files"
        return event.kind == "permit" and await self._is_allowed(group, event.name, event.args)

    async def _is_allowed(self, group: str, name: str, args: Any) -> bool:
        async with self._asking:  # one question at a time, and none that was just answered
            if group in self._allowed:
                return True
            decision = await self.decide(name, args) if self.decide else "no"
            self._allowed |= {group} if decision == "session" else set()
            return decision != "no"

    async def _delegate(self, event: ParentRequestEvent) -> envelope.Envelope:
        """Return a delegation's result as the main agent's tool gives it."""
        if not self._children:
            self._stop_children.clear()
        self._children += 1
        try:
            result = await self._run_child(event)
        finally:
            self._children -= 1
        self.watch(event.id, result)
        if (run := result.result) is None:
            return envelope.build_error_response(envelope.ToolCode.BAD_PARAMETER, result.text)
        run_id, changes = result.details.run_id or "", await self._settled(result)
        data = {"runId": run_id, "text": result.text, "usage": to_json(run.usage)}
        data |= {"agent": run.agent, "outcome": run.outcome}
        if changes and run.changes:  # said beside the text, in which the subagent could say it too
            data["text"] = result.text.removesuffix(f"\n\n[{run.changes.words(run_id)}]")
            data["changes"] = changes.words(run_id)
        if result.completed:
            return envelope.build_success_response(data)
        failed = f"{run.agent} did not complete its task ({run.outcome})."
        return envelope.build_error_response(envelope.ToolCode.UPSTREAM_FAILED, failed, data)

    async def _settled(self, result: ToolResult) -> Changes | None:
        """Return what a writer changed, after the person was asked what becomes of it."""
        changes, task = result.details.results[0].changes, asyncio.current_task()
        is_over = task is not None and task.cancelling() > 0  # then nobody waits for the answer
        if changes is None or changes.state != "pending" or self.settle is None or is_over:
            return changes
        if self.project().config.subagents.land == "never":
            return changes
        with suppress(asyncio.CancelledError, OSError, OutriderError):  # then it waits
            async with self._asking:
                return await self.settle(result.details.run_id or "")
        return changes

    async def _run_child(self, event: ParentRequestEvent) -> ToolResult:
        """Return a subagent's result. When the turn is over before it, it is stopped as well."""
        profile, watch = profiles.sub_agent_profile(event.name), partial(self.watch, event.id)

        def started(prepared: Prepared, run_id: str) -> None:
            self._queued.discard(child)
            if self.caller.on_start is not None:
                self.caller.on_start(prepared, run_id)
            watch(f"{prepared.definition.name} {run_id}")

        async def confirm(agent: AgentDefinition, _reason: str) -> bool:
            return await self._is_allowed(f"agent {agent.name}", event.name, event.args)

        caller = replace(
            self.caller,
            confirm=confirm if self.decide else None,
            on_start=started,
            on_event=watch,
            cancelled=self._stop_children,
            above={"run": self.folder.name} if self.folder else None,
        )
        manager = profiles.SubAgentManager(Path(self.cwd) if self.cwd else None, caller)
        child = asyncio.ensure_future(profiles.SubAgentTool(profile, manager).call(event.args))
        self._queued.add(child)
        try:
            return await asyncio.shield(child)
        except asyncio.CancelledError:
            self._stop_children.set()
            if child in self._queued and not child.cancel():
                return refused(invalid("The user stopped this before it began."))
            return await child
        finally:
            self._queued.discard(child)
