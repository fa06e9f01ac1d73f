"""A child, from its brief to its last event."""

import _socket
import asyncio
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NoReturn

from outrider.agents.lsp_permissions import lsp_actions_in_reach
from outrider.child.checking import Checker
from outrider.child.confinement import cells_for, confine
from outrider.child.conversation import Conversation
from outrider.child.emitter import Emit, Emitter, take_standard_streams
from outrider.child.exhaustion import on_loop_error
from outrider.child.history import History
from outrider.child.parent_requests import Parent
from outrider.child.report_back import ReportBackTool
from outrider.child.retry import RetryPolicy
from outrider.child.task import TaskExecutor
from outrider.child.turn import TurnExecutor
from outrider.masking import Masker, secret_environment_values, without_secrets
from outrider.models.building import build_model
from outrider.models.cost import load_prices_soon
from outrider.models.failures import ModelUnavailable
from outrider.models.keeping import restored
from outrider.models.known_providers import EMBEDDED
from outrider.models.messages import ChatModel
from outrider.processes.cell_start import Cells
from outrider.processes.guardian import DONE
from outrider.processes.reaping import call_oneself, is_broken, limit_nesting, seal
from outrider.processes.walls import Begun
from outrider.protocol.brief import DEPTH_VARIABLE, MAX_DEPTH_VARIABLE, Brief, MainTurn, Start
from outrider.protocol.budget import Budget
from outrider.protocol.data import from_json, frozen
from outrider.protocol.events import SessionEvent, TaskFinishEvent
from outrider.protocol.tool_catalogue import is_own, reach_network, run_commands
from outrider.settings.keys import ConvertConfig, LspConfig, WebConfig
from outrider.tools.context import ToolContext
from outrider.tools.executor import ToolExecutor
from outrider.tools.loading import builtin_tools, load_tools
from outrider.tools.lsp.session import LspSession
from outrider.tools.registry import Tool
from outrider.tools.web.session import WebSession, take_search_keys
from outrider.workspaces.layers.audit import LayerAudit


def run_child(
    guardian: _socket.socket, ready: "Ready | None" = None, *, is_cold: bool = False
) -> None:
    """Read the brief from stdin, do its task, write the events to stdout, and exit.

    `guardian` leads to its guardian; `ready` is what was made while there was nothing to do. A
    cold child doesn't say that it is done: its guardian has the run's id in its environment, and
    is found by that until it ends itself.
    """
    brief_in, events_out = take_standard_streams()
    start = time.monotonic()
    emit = Emitter(events_out)
    try:
        with open(brief_in, "rb", closefd=False) as brief_file:
            told = from_json(Start, json.loads(brief_file.readline()))
        start = start if told.begun is None else told.begun
        if is_broken(brief_in):  # the parent let go, and may have started another child
            os._exit(1)
        _take_surroundings(told)
        confined = confine(told.brief, ready.begun if ready else None, guardian)
        if run_commands(told.brief.tools):
            seal()
    except (ValueError, OSError) as error:
        emit(TaskFinishEvent(error=f"The child can't start: {error}"))
        os._exit(1)
    about, isolation = confined.brief, confined.isolation
    emit(SessionEvent(about.run_id, about.agent, about.model, about.cwd, isolation))
    cells, told_done = cells_for(about, isolation, emit), None if is_cold else guardian
    around = Surroundings(cells, confined.audit, told_done)
    # Not `asyncio.run`: what that does beside takes half a millisecond, most of it for an end
    # that never comes.
    loop = ready.loop if ready else asyncio.new_event_loop()
    loop.run_until_complete(_run_until_stopped(about, emit, start, brief_in, around))


@frozen
class Ready:
    """What a child has before its brief comes."""

    loop: asyncio.AbstractEventLoop
    begun: Begun


def _take_surroundings(told: Start) -> None:
    """Take over the caller's folder and variables."""
    os.chdir(told.brief.cwd)
    os.environ.clear()
    os.environ.update(told.environment)
    depth = int(told.environment.get(DEPTH_VARIABLE, 1))
    limit_nesting(depth, int(told.environment.get(MAX_DEPTH_VARIABLE, depth)))
    call_oneself("child" if depth else "main")
    time.tzset()


async def _run_until_stopped(
    brief: Brief, emit: Emit, start: float, link: int, around: "Surroundings"
) -> NoReturn:
    """Do the task and exit; SIGTERM cancels it, so that its tools can close."""
    task = asyncio.ensure_future(_do(brief, emit, start, link, around))
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(on_loop_error)
    loop.add_signal_handler(signal.SIGTERM, task.cancel)
    with suppress(asyncio.CancelledError):
        await task
    _exit(around)


def _exit(around: "Surroundings") -> NoReturn:
    """Say that this is the end, and exit at once: an orderly one of an interpreter full of SDKs
    takes 100 ms, and nothing is left to do."""
    sys.stderr.flush()
    if around.guardian is not None:
        with suppress(OSError):
            around.guardian.send(DONE)
    os._exit(0)


async def _do(
    brief: Brief, emit: Emit, start: float, link: int, around: "Surroundings"
) -> NoReturn:
    budget = Budget(brief.budget)
    try:
        parent = Parent(brief.main_turn or MainTurn(), brief.timeout_ms, emit, link)
        model = build_model(brief.model, brief.agent, brief.wire)
        finish = await run_task(brief, model, emit, budget, start, parent, around)
    except ModelUnavailable as error:
        finish = TaskFinishEvent(brief.run_id, error=str(error))
    except Exception as error:
        traceback.print_exc()
        words = f"The child failed: {type(error).__name__}: {error}"
        finish = TaskFinishEvent(brief.run_id, error=words, usage=budget.usage)
    emit(finish)
    _exit(around)


@frozen
class Surroundings:
    """What is around a task: the cells of what it starts, the audit of its layer, its guardian."""

    cells: Cells | None = None
    audit: LayerAudit | None = None
    guardian: _socket.socket | None = None


async def run_task(
    brief: Brief,
    model: ChatModel,
    emit: Emit,
    budget: Budget,
    start: float,
    parent: Parent | None = None,
    around: "Surroundings | None" = None,
) -> TaskFinishEvent:
    """Do the task of a brief with a model, and return how it ended."""
    schema = brief.output_schema
    report_back = None if schema is None else ReportBackTool.for_schema(schema)
    attempts = brief.report_back_attempts
    if model.provider != EMBEDDED:
        load_prices_soon()
    retry = RetryPolicy(brief.request_attempts)
    deadline = start + brief.timeout_ms / 1000
    conversation = Conversation(model, emit, retry, deadline)
    around = around or Surroundings()
    async with tool_executor(brief, parent, around.cells) as executor:
        recall = partial(restored, native=model.has_native)
        history = History(brief.system_prompt, brief.task, brief.history, executor.text_of, recall)
        turns = TurnExecutor(
            conversation, history, executor, budget, emit, report_back, attempts, deadline, parent
        )
        turns.audit = around.audit
        check = None
        if brief.check:
            given = (executor.context, emit, deadline, around.audit)
            check = Checker(brief.check, brief.check_attempts, *given)
        return await TaskExecutor(brief.run_id, turns, check, brief.layer_bytes).run()


def _web(
    brief: Brief, keys: Mapping[str, str], secrets: tuple[str, ...], cells: Cells | None
) -> WebSession | None:
    if brief.web is None:
        return None
    return WebSession(
        from_json(WebConfig, brief.web),
        keys=keys,
        mask=Masker(secrets=secrets, only_secrets=True),
        cells=cells,
    )


def _lsp(brief: Brief, depth: str | None) -> LspSession | None:
    if brief.lsp is None:
        return None
    actions = lsp_actions_in_reach(brief.lsp_actions, is_child=depth != "0")
    return LspSession(from_json(LspConfig, brief.lsp), actions, trusted=brief.trusted)


def tool_executor(
    brief: Brief, parent: Parent | None = None, cells: Cells | None = None
) -> ToolExecutor:
    """Return the executor for a brief; its commands see none of the child's secrets."""
    keys = take_search_keys(os.environ) if reach_network(brief.tools) else {}
    env = dict(os.environ)
    available = {tool.name: tool for tool in builtin_tools()}
    wanted = set(brief.tools)
    if not all(is_own(name) for name in wanted):
        sys.path += (path for path in brief.tool_path if path not in sys.path)
        own, _ = load_tools(brief.tool_modules)  # the parent tells what is wrong with them
        available |= {tool.name: tool for tool in own}
    secrets = secret_environment_values({**env, **keys})
    context = ToolContext(
        cwd=Path(brief.cwd),
        allowed_roots=tuple(Path(root).expanduser() for root in brief.allowed_roots),
        allow_credential_files=brief.allow_credential_files,
        environment=without_secrets(env),
        mask=Masker(secrets=secrets, only_secrets=True) if brief.mask_tool_results else None,
        session_id=brief.run_id,
        spill=Path(brief.spill_folder) if brief.spill_folder else None,
        cells=cells,
        web=_web(brief, keys, secrets, cells),
        lsp=_lsp(brief, env.get(DEPTH_VARIABLE)),
        convert=from_json(ConvertConfig, brief.convert) if brief.convert else None,
    )
    given = [available[name] for name in brief.tools if name in available]
    given += parent.tools() if parent else []
    executor = ToolExecutor(given, context, not_given=available.keys() - wanted)
    executor.tools = tuple(_with_actions(one, brief.lsp_actions) for one in given)
    return executor


def _with_actions(tool: Tool, actions: tuple[str, ...]) -> Tool:
    """Return a tool as it is offered: `lsp` with the allowed actions alone, and any other whole.

    The executor keeps all of them, so that a call of one that isn't allowed is told why.
    """
    if tool.name != "lsp":
        return tool
    properties = {**tool.parameters["properties"]}
    properties["action"] = {**properties["action"], "enum": list(actions)}
    return replace(tool, parameters={**tool.parameters, "properties": properties})
