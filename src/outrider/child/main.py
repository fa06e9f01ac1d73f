"""A child from its brief to its last event."""

import asyncio
import os
import signal
import sys
import time
import traceback
from contextlib import suppress
from pathlib import Path

from outrider.child.budget import Budget
from outrider.child.conversation import Conversation
from outrider.child.emitter import Emit, Emitter, read_line, take_standard_streams
from outrider.child.history import History
from outrider.child.report_back import ReportBackTool
from outrider.child.task import TaskExecutor
from outrider.child.toolset import tool_executor
from outrider.child.turn import TurnExecutor
from outrider.models.failures import ModelUnavailable
from outrider.models.providers import build_model, has_price
from outrider.protocol import jsonl
from outrider.protocol.brief import Brief
from outrider.protocol.data import ABSENT, from_json
from outrider.protocol.errors import Outcome
from outrider.protocol.events import SessionEvent, TaskFinishEvent
from outrider.protocol.retry import RetryPolicy


def run_child() -> None:
    """Read the brief from stdin, do its task, tell all of it on stdout, and exit."""
    brief_in, events_out = take_standard_streams()
    start = time.monotonic()
    emit = Emitter(events_out)
    try:
        brief = from_json(Brief, jsonl.decode(read_line(brief_in)))
    except ValueError as error:
        emit(TaskFinishEvent(Outcome.FAILED, error=f"The brief can't be read: {error}"))
        os._exit(1)
    asyncio.run(_until_stopped(brief, emit, start))
    sys.stderr.flush()
    # Nothing is left to do, and taking an interpreter full of SDKs apart costs 100 ms.
    os._exit(0)


async def _until_stopped(brief: Brief, emit: Emit, start: float) -> None:
    """Do the task; SIGTERM cancels it, so that its tools are ended in good order."""
    task = asyncio.ensure_future(_do(brief, emit, start))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    with suppress(asyncio.CancelledError):
        await task


async def _do(brief: Brief, emit: Emit, start: float) -> None:
    emit(SessionEvent(brief.run_id, brief.agent, brief.model, brief.cwd))
    budget = Budget(brief.budget)
    try:
        finish = await _task(brief, budget, emit, start)
    except ModelUnavailable as error:
        finish = TaskFinishEvent(Outcome.FAILED, error=error.message)
    except Exception as error:
        traceback.print_exc()
        words = f"The child failed: {type(error).__name__}: {error}"
        finish = TaskFinishEvent(Outcome.FAILED, error=words, usage=budget.usage)
    emit(finish)


async def _task(brief: Brief, budget: Budget, emit: Emit, start: float) -> TaskFinishEvent:
    model = build_model(brief.model)
    if brief.budget.max_cost is not None and not has_price(model):
        error = f"The price of {brief.model} is unknown, so subagents.budget.maxCost can't be kept."
        return TaskFinishEvent(Outcome.FAILED, error=f"{error} Limit maxTokens instead.")
    wants_report = brief.output_schema is not ABSENT
    report_back = ReportBackTool.for_schema(brief.output_schema) if wants_report else None
    history = History(brief.system_prompt, brief.task)
    retry = RetryPolicy(brief.retry.enabled, brief.retry.max_attempts)
    deadline = start + brief.timeout_ms / 1000
    conversation = Conversation(model, brief.model, emit, retry, deadline)
    async with tool_executor(brief, Path(brief.cwd), os.environ) as executor:
        turns = TurnExecutor(
            conversation, history, executor, budget, emit, report_back, brief.report_back_attempts
        )
        return await TaskExecutor(
            turns, history, budget, wants_report, brief.report_back_attempts
        ).run()
