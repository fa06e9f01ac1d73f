"""One task: turn after turn, until there is an answer, a report, or a reason to stop."""

import json
import math
from dataclasses import dataclass, replace
from typing import Any

from outrider.child.checking import Checker
from outrider.child.report_back import NO_REPORT, REMINDER
from outrider.child.turn import TurnExecutor, TurnResult
from outrider.models.endings import CUT, EMPTY, StopReason, answer_in
from outrider.models.failures import Failure
from outrider.protocol.events import TaskFinishEvent
from outrider.protocol.outcomes import Outcome
from outrider.schemas.output_schema import JudgedReport

MAX_TEXT = 1 << 20
NO_CALL = "The model answered without calling report_back, even when told to."


@dataclass(slots=True)
class TaskExecutor:
    """Runs the turns of one task and says how it ended."""

    session_id: str
    turns: TurnExecutor
    check: Checker | None = None
    max_layer_bytes: float = math.inf
    _last_text: str = ""
    _reminded: bool = False
    _only_report_back: bool = False
    _reports: tuple[JudgedReport, ...] = ()
    _refused: Failure | None = None
    """Why the model's server took no request with tools."""

    async def run(self) -> TaskFinishEvent:
        """Return the end of the task; it never raises for what a model or a tool can do."""
        turn = 1
        while (finish := await self._checked(await self._step(turn))) is None:
            turn += 1
        return finish

    async def _checked(self, finish: TaskFinishEvent | None) -> TaskFinishEvent | None:
        """Return how the task ended: an answer counts once its check passes."""
        if finish is None or self.check is None or finish.outcome is not Outcome.COMPLETED:
            return finish
        if await self.check.passes():
            return replace(finish, check=self.check.told)
        if advice := self.check.advice():
            self.turns.say(advice)
            self._reports, self._reminded = (), False
            return None
        error = f"The check failed with {self.check.how}: {self.check.command}"
        failed = self._finished(Outcome.CHECK_FAILED, finish.task_result, error)
        return replace(failed, check=self.check.told)

    async def _step(self, turn: int) -> TaskFinishEvent | None:
        if over := self.turns.budget.forbids_turn():
            return self._finished(Outcome.OVER_BUDGET, error=over)
        if advice := self.turns.budget.wrap_up():
            self.turns.say(advice)
        result = await self.turns.run(turn, only_report_back=self._only_report_back)
        self._only_report_back = False
        self._last_text = result.text or self._last_text
        self._reports += result.reports
        if result.failure is not None:
            if turn == 1 and self.turns.ask_for_json(result.failure):
                self._refused, self._reminded = result.failure, True
                return None
            failure = self._refused or result.failure
            return self._finished(Outcome.FAILED, result.text, failure.message)
        if self.turns.layer_bytes > self.max_layer_bytes:
            error = f"It has written more than {self.max_layer_bytes:,} bytes (runs.keepBytes)."
            return self._finished(Outcome.OVER_BUDGET, error=error)
        if result.has_report_back:
            return self._reported(result.report_back_result)
        if result.over_budget:
            return self._finished(Outcome.OVER_BUDGET, error=result.over_budget)
        if not result.has_tool_call:
            return self._settle(result)
        if not result.reports or self.turns.reports_left > 0:
            return None
        error = f"None of {len(self._reports)} reports fitted the output schema."
        return self._finished(Outcome.SCHEMA_FAILED, error=error)

    def _settle(self, result: TurnResult) -> TaskFinishEvent | None:
        """Decide on a turn that called no tool: the answer, or what kept it from being one."""
        if self.turns.report_back is not None:
            return self._remind_or_fail(result)
        is_cut, answer = result.stop_reason == StopReason.CUT, answer_in(result.text)
        if is_cut or not answer:
            return self._finished(Outcome.FAILED, result.text, CUT if is_cut else EMPTY)
        return self._finished(Outcome.COMPLETED, answer)

    def _remind_or_fail(self, result: TurnResult) -> TaskFinishEvent | None:
        if self._reminded:
            if self.turns.ask_for_json():
                return None
            error = f"{NO_CALL} {CUT}" if result.stop_reason == StopReason.CUT else NO_CALL
            return self._finished(Outcome.SCHEMA_FAILED, error=error)
        self._reminded = self._only_report_back = True
        self.turns.say(REMINDER)
        return None

    def _reported(self, value: Any) -> TaskFinishEvent:
        text = json.dumps(value, ensure_ascii=False)
        return TaskFinishEvent(
            self.session_id,
            # The parent writes the text anew from the value: a large one needn't be sent twice.
            text if len(text) <= MAX_TEXT else "",
            structured_output=value,
            has_structured_output=True,
            outcome=Outcome.COMPLETED,
            usage=self.turns.budget.usage,
        )

    def _finished(
        self, outcome: Outcome, text: str = "", error: str | None = None
    ) -> TaskFinishEvent:
        """Return an end without a valid report; what was wrong with the last one is kept."""
        last = self._reports[-1] if self._reports else None
        faults = last.faults if last else ()
        if outcome is Outcome.SCHEMA_FAILED:
            faults = faults or (NO_REPORT,)
        return TaskFinishEvent(
            self.session_id,
            text or self._last_text,
            outcome=outcome,
            error=error,
            schema_faults=tuple(fault.to_dict() for fault in faults) or None,
            last_report=last.value if last else None,
            has_last_report=last is not None,
            usage=self.turns.budget.usage,
        )
