"""One turn: a request to the model, and the tool calls it asks for, all at once."""

import asyncio
import math
import time
from dataclasses import dataclass, replace
from typing import Any

from pydantic_ai.messages import ModelResponse, ToolCallPart, ToolReturnPart
from pydantic_ai.tools import ToolDefinition

from outrider.child.budget import Budget
from outrider.child.conversation import Conversation, Reply
from outrider.child.emitter import Emit
from outrider.child.history import History
from outrider.child.report_back import (
    REPORT_BACK,
    Report,
    ReportBackTool,
    accepted,
    ignored,
    rejected,
)
from outrider.models.failures import Failure
from outrider.protocol.envelope import (
    Envelope,
    Meta,
    ToolCode,
    build_error_response,
    is_success,
)
from outrider.protocol.events import (
    MessageEndEvent,
    ToolCallData,
    ToolResultEndEvent,
    ToolStartEvent,
    TurnEndEvent,
    TurnStartEvent,
)
from outrider.schemas.output_schema import parse_arguments
from outrider.tools.executor import ToolExecutor, ToolOutcome

REPORT_TIMEOUT_MS = 30_000
GRACE_SECONDS = 5.0
"""How long before the run's deadline a task that has its report gives up on its other tools."""


@dataclass(frozen=True, slots=True)
class TurnResult:
    """What a turn came to."""

    text: str = ""
    stop_reason: str = "stop"
    tool_calls: tuple[ToolCallPart, ...] = ()
    failure: Failure | None = None
    over_budget: str | None = None
    report_back_result: Any = None
    reports: tuple[Report, ...] = ()

    @property
    def has_tool_call(self) -> bool:
        """Whether the model asked for anything; a turn without a call is its answer."""
        return bool(self.tool_calls)

    @property
    def has_report_back(self) -> bool:
        """Whether a valid report was made, which ends the task."""
        return any(report.valid for report in self.reports)


class TurnExecutor:
    """Runs one turn after another against the same history; each is told to the parent."""

    def __init__(
        self,
        conversation: Conversation,
        history: History,
        executor: ToolExecutor,
        budget: Budget,
        emit: Emit,
        report_back: ReportBackTool | None = None,
        report_attempts: int = 0,
        deadline: float = math.inf,
    ) -> None:
        self._conversation = conversation
        self._history = history
        self._executor = executor
        self._budget = budget
        self._emit = emit
        self._report_back = report_back
        self._reports_left = report_attempts
        self._deadline = deadline

    async def run(self, turn: int, *, only_report_back: bool = False) -> TurnResult:
        """Return what the turn came to; `only_report_back` offers the model that tool alone."""
        self._emit(TurnStartEvent(turn))
        tools = self._definitions(only_report_back=only_report_back)
        reply = await self._conversation.request(turn, self._history, tools)
        self._budget.usage += reply.usage
        result = self._told(turn, reply)
        if reply.response is not None and result.failure is None:
            self._history.add_response(reply.response)
            result = await self._with_tools(result)
        self._emit(TurnEndEvent(turn, self._budget.usage))
        return result

    def _definitions(self, *, only_report_back: bool) -> list[ToolDefinition]:
        report = [self._report_back.definition] if self._report_back else []
        if only_report_back:
            return report
        tools = [
            ToolDefinition(
                name=tool.name,
                description=tool.description,
                parameters_json_schema=tool.parameters,
            )
            for tool in self._executor.tools
        ]
        return tools + report

    def _told(self, turn: int, reply: Reply) -> TurnResult:
        """Tell the parent of the model's message, and return it as the turn's result so far."""
        response = reply.response if reply.failure is None else None
        calls = tuple(response.tool_calls) if response else ()
        reason = _stop_reason(response) if response else "error"
        told = tuple(
            ToolCallData(call.tool_call_id, call.tool_name, _shown(call)) for call in calls
        )
        self._emit(MessageEndEvent(turn, reply.text, told, reason, reply.usage))
        return TurnResult(reply.text, reason, calls, reply.failure)

    async def _with_tools(self, result: TurnResult) -> TurnResult:
        # Judged first and by themselves: nothing another tool does can undo a valid report.
        judged, reports = self._judged(result)
        valid = next((report.value for report in reports if report.valid), None)
        result = replace(result, report_back_result=valid, reports=tuple(reports))
        calls = [call for call in result.tool_calls if not self._is_report(call)]
        if over := self._budget.forbids_tool_calls(len(calls)):
            return replace(result, over_budget=over)
        self._budget.tool_calls += len(calls)
        time_left = self._deadline - GRACE_SECONDS - time.monotonic()
        limit_seconds = max(0.0, time_left) if result.has_report_back else None
        results = await asyncio.gather(*(self._call(call, limit_seconds) for call in calls))
        if result.has_tool_call:
            self._history.add_request([*results, *judged])
        return result

    def _is_report(self, call: ToolCallPart) -> bool:
        return self._report_back is not None and call.tool_name == REPORT_BACK

    def _judged(self, result: TurnResult) -> tuple[list[ToolReturnPart], list[Report]]:
        parts: list[ToolReturnPart] = []
        reports: list[Report] = []
        for call in result.tool_calls:
            if self._report_back is None or not self._is_report(call):
                continue
            self._emit(_started(call, REPORT_TIMEOUT_MS))
            begun = time.monotonic()
            if any(report.valid for report in reports):
                envelope = ignored()
            else:
                cut = result.stop_reason == "length"
                report = self._report_back.judge(call.args, cut=cut)
                reports.append(report)
                self._reports_left -= not report.valid
                envelope = accepted() if report.valid else rejected(report, self._reports_left)
            envelope = _completed(envelope, REPORT_BACK, begun)
            self._emit(ToolResultEndEvent(call.tool_call_id, call.tool_name, envelope))
            parts.append(_returned(call, envelope["message"], envelope))
        return parts, reports

    async def _call(self, call: ToolCallPart, limit_seconds: float | None) -> ToolReturnPart:
        arguments = call.args if call.args is not None else {}
        timeout_ms = self._executor.timeout_ms(call.tool_name, arguments)
        self._emit(_started(call, timeout_ms))
        begun = time.monotonic()
        try:
            async with asyncio.timeout(limit_seconds):
                outcome = await self._executor.execute(call.tool_name, arguments)
        except TimeoutError:
            outcome = _given_up(call.tool_name, begun)
        self._emit(
            ToolResultEndEvent(
                call.tool_call_id,
                call.tool_name,
                outcome.envelope,
                outcome.effects,
                outcome.summary,
            )
        )
        return _returned(call, outcome.text, outcome.envelope)


def _given_up(tool: str, begun: float) -> ToolOutcome:
    words = "Ended: the result was reported, and the run's time is nearly over."
    envelope = build_error_response(ToolCode.TIMEOUT, words)
    return ToolOutcome(_completed(envelope, tool, begun), words, words)


def _completed(envelope: Envelope, tool: str, begun: float) -> Envelope:
    """Return an envelope of ours with the `meta` that the executor gives to all others."""
    meta: Meta = {
        "execution_time_ms": round((time.monotonic() - begun) * 1000, 3),
        "tool": tool,
        "resource_type": None,
        "session_id": None,
        "temporary_session": None,
    }
    return {**envelope, "meta": meta}


def _stop_reason(response: ModelResponse) -> str:
    return response.finish_reason or "stop"


def _started(call: ToolCallPart, timeout_ms: int) -> ToolStartEvent:
    return ToolStartEvent(call.tool_call_id, call.tool_name, _shown(call), timeout_ms)


def _shown(call: ToolCallPart) -> Any:
    """Return a call's arguments as an object; what isn't one stays the text that it is."""
    arguments, fault = parse_arguments(call.args if call.args is not None else {})
    return call.args if fault else arguments


def _returned(call: ToolCallPart, text: str, envelope: Envelope) -> ToolReturnPart:
    return ToolReturnPart(
        tool_name=call.tool_name,
        content=text,
        tool_call_id=call.tool_call_id,
        outcome="success" if is_success(envelope) else "failed",
    )
