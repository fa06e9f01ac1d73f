"""One turn: a request to the model, and the tool calls it asks for, all at once."""

import asyncio
import json
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from outrider.child.conversation import Conversation, ModelReply
from outrider.child.emitter import Emit
from outrider.child.history import History
from outrider.child.parent_requests import Parent
from outrider.child.report_back import (
    AS_JSON,
    ReportBackTool,
    accepted,
    ignored,
    rejected,
)
from outrider.models.endings import StopReason, answer_in
from outrider.models.failures import Failure
from outrider.models.keeping import kept_of
from outrider.models.messages import CallResult, ModelCall, OfferedTool
from outrider.processes.threads import in_thread
from outrider.protocol.budget import Budget
from outrider.protocol.data import frozen
from outrider.protocol.envelope import (
    Envelope,
    ToolCode,
    build_error_response,
    build_meta,
    is_success,
)
from outrider.protocol.events import (
    MessageEndEvent,
    ToolCallData,
    ToolResultEndEvent,
    ToolStartEvent,
    TurnEndEvent,
    TurnStartEvent,
    UserMessageEvent,
)
from outrider.protocol.text import one_line
from outrider.protocol.tool_catalogue import REPORT_BACK
from outrider.schemas.arguments import CallArguments, read_arguments
from outrider.schemas.output_schema import Fault, JudgedReport
from outrider.tools.executor import ToolExecutor, ToolOutcome
from outrider.workspaces.layers.audit import LayerAudit

REPORT_TIMEOUT_MS = 30_000
MAX_MODEL = 200
CUT_CALL = Fault("$", "the call was cut at the model's token limit, before its arguments")
TOLD_AFTER, ENDED_AFTER = 3, 6
"""How many turns in a row may make the same calls and get the same results."""
REPEATING = (
    "You have made the same call {times} times in a row and got the same result. Don't make it "
    "again: try another way, or answer with what you know and say what is missing."
)
GRACE_SECONDS = 5.0
"""How long before the run's deadline a task that has its report gives up on its other tools."""


@frozen
class RequestedCall:
    """A call as the model asked for it; its arguments are read here and nowhere else."""

    id: str
    name: str
    arguments: CallArguments


@frozen
class TurnResult:
    """How a turn ended."""

    text: str = ""
    stop_reason: str = "stop"
    tool_calls: tuple[RequestedCall, ...] = ()
    failure: Failure | None = None
    over_budget: str | None = None
    report_back_result: Any = None
    reports: tuple[JudgedReport, ...] = ()

    @property
    def has_tool_call(self) -> bool:
        """Whether the model asked for anything; a turn without a call is its answer."""
        return bool(self.tool_calls)

    @property
    def has_report_back(self) -> bool:
        """Whether a valid report was made, which ends the task."""
        return any(report.is_valid for report in self.reports)


@dataclass(slots=True)
class TurnExecutor:
    """Runs one turn after another against the same history; each is told to the parent."""

    conversation: Conversation
    history: History
    executor: ToolExecutor
    budget: Budget
    emit: Emit
    report_back: type[ReportBackTool] | None = None
    reports_left: int = 0
    deadline: float = math.inf
    parent: Parent | None = None
    audit: LayerAudit | None = None
    """Records what each call changes in the layer, where the child has one."""
    layer_bytes: int = 0
    """How much is in there, of what the child has written."""
    _tools: list[OfferedTool] = field(init=False)
    _report_tool: list[OfferedTool] = field(init=False)
    _as_json: bool = False
    _last_turn: Any = None
    _same_turns: int = 0
    _turn: int = 1
    """The turn of the next request."""

    def __post_init__(self) -> None:
        self._tools = list(self.executor.tools)
        self._report_tool = [self.report_back.schema()] if self.report_back else []

    def ask_for_json(self, failure: Failure | None = None) -> bool:
        """Have the model report as JSON; returns whether that may help, and wasn't tried."""
        if self._as_json or not self._report_tool:
            return False
        self._as_json = self.conversation.can_answer_as_json(failure)
        if self._as_json:
            schema = json.dumps(self._report_tool[0].parameters)
            self.say(f"{AS_JSON}\n{schema}")
        return self._as_json

    def say(self, text: str, name: str | None = None) -> None:
        """Add a message to the next request; `name` is the id of one that a person told us."""
        self.emit(UserMessageEvent(self._turn, text, name))
        self.history.say(text)

    async def run(self, turn: int, *, only_report_back: bool = False) -> TurnResult:
        """Return how the turn ended; `only_report_back` offers the model that tool alone."""
        self.emit(TurnStartEvent(turn))
        for name, text in self.parent.told() if self.parent else ():
            self.say(text, name)
        tools = self._report_tool if only_report_back else self._tools + self._report_tool
        schema = self._report_tool[0].parameters if self._as_json else None
        reply = await self.conversation.request(turn, self.history, tools, schema)
        self._turn = turn + 1
        self.budget.usage += reply.usage
        result = self._announce(turn, reply)
        if result.failure is None:
            self.history.messages.append(reply.answer)
            result = await self._run_tools(result)
        self.emit(TurnEndEvent(turn, self.budget.usage))
        return result

    def _announce(self, turn: int, reply: ModelReply) -> TurnResult:
        """Tell the parent of the model's message, and return it as the turn's result so far."""
        answer = reply.answer
        is_cut = reply.stop_reason is StopReason.CUT
        made = answer.calls if reply.failure is None else ()
        calls = tuple(_requested(call, is_cut=is_cut) for call in made)
        text = answer_in(answer.text).strip()
        if self._as_json and text.startswith(("{", "`")) and reply.failure is None:
            calls = (RequestedCall(f"json-{turn}", REPORT_BACK, read_arguments(text)),)
        told = tuple(ToolCallData(call.id, call.name, call.arguments.shown) for call in calls)
        model = one_line(answer.model, MAX_MODEL) if isinstance(answer.model, str) else None
        kept = kept_of(answer) if reply.failure is None else None
        ended = (reply.stop_reason, reply.usage, model, kept)
        self.emit(MessageEndEvent(turn, answer.text, told, *ended))
        return TurnResult(answer.text, reply.stop_reason, calls, reply.failure)

    async def _run_tools(self, result: TurnResult) -> TurnResult:
        # Judged first and by themselves: nothing another tool does can undo a valid report.
        judged, reports = self._judge_reports(result)
        valid = next((report.value for report in reports if report.is_valid), None)
        result = replace(result, report_back_result=valid, reports=tuple(reports))
        others = (call for call in result.tool_calls if call.name != REPORT_BACK)
        calls = list(others) if self.report_back else result.tool_calls
        if over := self.budget.forbids_tool_calls(len(calls)):
            return replace(result, over_budget=over)
        self.budget.tool_calls += len(calls)
        time_left = self.deadline - GRACE_SECONDS - time.monotonic()
        limit_seconds = max(0.0, time_left) if result.has_report_back else None
        results = await asyncio.gather(*(self._call(call, limit_seconds) for call in calls))
        result = replace(result, over_budget=self._repeats(calls, results))
        if self._as_json:
            self.say("\n".join(one.text for one in judged))
        else:
            self.history.messages += [*results, *judged]
        if self._same_turns == TOLD_AFTER:
            self.say(REPEATING.format(times=TOLD_AFTER))
        return result

    def _repeats(self, calls: Sequence[RequestedCall], results: list[CallResult]) -> str | None:
        """Return why a model is stopped that makes the same calls in vain; None where it isn't."""
        made = [(call.name, call.arguments.value) for call in calls]
        turn = made, [{**(one.envelope or {}), "meta": None} for one in results]
        self._same_turns = self._same_turns + 1 if made and turn == self._last_turn else 1
        self._last_turn = turn
        if self._same_turns < ENDED_AFTER:
            return None
        names = ", ".join(dict.fromkeys(call.name for call in calls))
        return (
            f"The model repeats itself: {ENDED_AFTER} times the same call, same result ({names})."
        )

    def _judge_reports(self, result: TurnResult) -> tuple[list[CallResult], list[JudgedReport]]:
        parts: list[CallResult] = []
        reports: list[JudgedReport] = []
        for call in result.tool_calls:
            if self.report_back is None or call.name != REPORT_BACK:
                continue
            self.emit(_started(call, REPORT_TIMEOUT_MS))
            begun = time.monotonic()
            if any(report.is_valid for report in reports):
                envelope = ignored()
            else:
                report = self.report_back.judge(
                    call.arguments, cut=result.stop_reason == StopReason.CUT
                )
                reports.append(report)
                self.reports_left -= not report.is_valid
                envelope = accepted() if report.is_valid else rejected(report, self.reports_left)
            envelope = _completed(envelope, REPORT_BACK, begun)
            text = envelope["message"]
            self.emit(ToolResultEndEvent(call.id, call.name, envelope, text=text))
            parts.append(_returned(call, envelope["message"], envelope))
        return parts, reports

    async def _call(self, call: RequestedCall, limit_seconds: float | None) -> CallResult:
        prepared = self.executor.prepare(call.name, call.arguments)
        if self.parent is not None and prepared.fault is None:
            fault = await self.parent.refusal(call.name, prepared.arguments)
            prepared = replace(prepared, fault=fault)
        self.emit(_started(call, prepared.timeout_ms))
        begun = time.monotonic()
        try:
            async with asyncio.timeout(limit_seconds):
                outcome = await self.executor.run(prepared)
        except TimeoutError:
            words = "Ended: the result was reported, and the run's time is nearly over."
            envelope = build_error_response(ToolCode.TIMEOUT, words)
            outcome = ToolOutcome(_completed(envelope, call.name, begun), words, words)
        if self.audit is not None:
            self.layer_bytes = await in_thread(self.audit.after_call)(call.id)
        seen = outcome.text if outcome.is_cut else None
        did = (outcome.effects, outcome.summary, seen)
        self.emit(ToolResultEndEvent(call.id, call.name, outcome.envelope, *did))
        return _returned(call, outcome.text, outcome.envelope)


def _requested(call: ModelCall, *, is_cut: bool) -> RequestedCall:
    given: Any = call.arguments
    given = cast("Any", given) if isinstance(given, str | dict | None) else str(given)
    arguments = read_arguments(given)
    if is_cut and not str(given or "").strip():  # elsewhere that is how providers write `{}`
        arguments = CallArguments("", fault=CUT_CALL)
    return RequestedCall(call.id, call.name, arguments)


def _completed(envelope: Envelope, tool: str, begun: float) -> Envelope:
    """Return an envelope of ours with the `meta` that the executor gives to all others."""
    return {**envelope, "meta": build_meta(tool, time.monotonic() - begun)}


def _started(call: RequestedCall, timeout_ms: int) -> ToolStartEvent:
    return ToolStartEvent(call.id, call.name, call.arguments.shown, timeout_ms)


def _returned(call: RequestedCall, text: str, envelope: Envelope) -> CallResult:
    return CallResult(call.id, call.name, text, not is_success(envelope), envelope)
