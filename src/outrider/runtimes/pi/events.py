"""pi's events in our words, line by line; none of pi's words is believed to be of the right kind.

Versions differ: 0.87 sends pieces of text, a system message and `agent_settled`, 0.73 with each
piece all that came before it. What is read here both of them have.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import reduce
from typing import Any, cast

from outrider.models.endings import CUT, EMPTY, StopReason, answer_in, stop_reason
from outrider.protocol import events as ours, jsonl
from outrider.protocol.brief import Brief
from outrider.protocol.budget import Budget
from outrider.protocol.data import as_list, member
from outrider.protocol.envelope import ToolCode, build_error_response, build_success_response
from outrider.protocol.isolation import Isolation
from outrider.protocol.outcomes import FailureKind, Outcome
from outrider.protocol.receipt import CommandRun, Effects, FileWrite
from outrider.protocol.usage import Usage, counted_usage, estimated_tokens, is_count

MAX_ERROR = 2_000
MAX_REASON = 100
TOOL_TIMEOUT_SECONDS = 120.0
"""How long a tool without a timeout of its own may be silent and still count as at work."""
FAILED = "The model's provider failed; pi doesn't say why (stop reason {reason!r})."
UNSURE = "The answer may be incomplete: pi sent no usage after it. Update pi."
NO_PRICE = "pi has no price for the model, so subagents.budget.maxCost can't be enforced."
# Known by how they begin: they repeat all that was said, and can be of any length.
REPEATING = (b'{"type":"agent_end"', b'{"type":"turn_end"')
_EXIT_CODE = re.compile(r"exited with code (\d{1,3})")


class Translator:
    """Turns the lines of one run into events, and says at the end how the task ended."""

    def __init__(self, brief: Brief) -> None:
        self.answer = self._text = ""  # the last message's text, and the last text that there was
        self.isolation = Isolation(network="host")  # what held, as the process said that became pi
        self._brief = brief
        self._budget = Budget(brief.budget)
        self._model = brief.model
        self._turn = 0
        self._calls: dict[str, Any] = {}
        self._retrying = self._ended = self._has_begun = False
        self._stop_reason: StopReason | None = None
        self._begun_with = self._error = ""
        self._seen = estimated_tokens(brief.system_prompt, brief.task)
        """About how many tokens the conversation has, as far as it is seen here."""

    def events(self, line: bytes) -> Iterator[ours.Event]:
        """Yield what a line stands for; nothing where it isn't one of pi's events."""
        if line.startswith(REPEATING):
            self._ended = line.startswith(REPEATING[0])
            yield ours.TurnEndEvent(self._turn, self._budget.usage)
            return
        data = jsonl.decoded_object(line)
        if kind := _text(data, "type"):
            if not self._has_begun and kind == "walls":
                missing = tuple(map(str, as_list(member(data, "missing"))))
                self.isolation = Isolation(_text(data, "kind"), "host", missing)
                yield self._session()
                return
            self._has_begun = True
            message = member(data, "message")
            others = message is not None and _text(message, "role") != "assistant"
            yield from self._event("" if others else kind, data)

    def _event(self, kind: str, data: Any) -> Iterator[ours.Event]:
        match kind:
            case "session":
                self._ended = False
                yield self._session()
            case "turn_start" if not self._retrying:
                if over := self._budget.forbids_turn():
                    yield self._finished(Outcome.OVER_BUDGET, over)
                self._turn += 1
                yield ours.TurnStartEvent(self._turn)
            case "message_start":
                yield from self._message_start(data)
            case "message_update":
                update = member(data, "assistantMessageEvent")
                delta = _text(update, "delta") if _text(update, "type") == "text_delta" else ""
                yield ours.MessageUpdateEvent(self._turn, delta)
            case "message_end":
                yield from self._message_end(member(data, "message"))
            case "tool_execution_start":
                call, args = _text(data, "toolCallId"), member(data, "args")
                self._calls[call] = args
                seconds = _number(args, "timeout") or TOOL_TIMEOUT_SECONDS
                name, timeout_ms = _text(data, "toolName"), round(seconds * 1000)
                yield ours.ToolStartEvent(call, name, args, timeout_ms)
            case "tool_execution_end":
                yield self._tool_end(data)
            case "auto_retry_start":
                yield self._retry(data)
            case _:  # it is at work
                yield ours.MessageUpdateEvent(self._turn, "")

    def _session(self) -> ours.Event:
        brief = self._brief
        return ours.SessionEvent(brief.run_id, brief.agent, self._model, brief.cwd, self.isolation)

    def _message_start(self, data: Any) -> Iterator[ours.Event]:
        self._ended = False
        # 0.73 says "stop" from the start, so also of a stream that ends without an end.
        self._begun_with, self._stop_reason = _text(data, "message", "stopReason"), None
        provider, model = _text(data, "message", "provider"), _text(data, "message", "model")
        if model and self._model.partition(":")[2] != model:
            self._model = f"{provider}:{model}"
            yield self._session()
        yield ours.MessageUpdateEvent(self._turn, "")

    def _message_end(self, message: Any) -> Iterator[ours.Event]:
        parts = as_list(member(message, "content"))
        text = "".join(_text(part, "text") for part in parts if _text(part, "type") == "text")
        calls = tuple(
            ours.ToolCallData(_text(part, "id"), _text(part, "name"), member(part, "arguments"))
            for part in parts
            if _text(part, "type") == "toolCall"
        )
        written = estimated_tokens(text, *(str(call.args) for call in calls))
        usage = _usage(member(message, "usage"), self._seen, written)
        usage = replace(usage, turns=0 if self._retrying else 1)
        said, self._error = _text(message, "stopReason"), _line(message, "errorMessage")
        reason = stop_reason(said) or StopReason.FAILED
        counted = _number(member(message, "usage"), "output")
        if reason == self._begun_with == StopReason.DONE and not counted:
            reason, self._error = StopReason.FAILED, UNSURE
        if reason in (StopReason.FILTERED, StopReason.FAILED):
            self._error = self._error or FAILED.format(reason=said[:MAX_REASON])
        self._stop_reason = StopReason.CALLED if calls and reason is StopReason.DONE else reason
        self.answer, self._text, self._retrying = answer_in(text), text or self._text, False
        self._seen += written
        self._budget.usage += usage
        yield ours.MessageEndEvent(self._turn, text, calls, self._stop_reason, usage)
        if calls and (over := self._budget.forbids_tool_calls(len(calls))):
            yield self._finished(Outcome.OVER_BUDGET, over)
        if self._brief.budget.max_cost is not None and not self._budget.usage.cost_known:
            yield self._finished(Outcome.FAILED, NO_PRICE)
        self._budget.tool_calls += len(calls)

    def _tool_end(self, data: Any) -> ours.Event:
        call, name = _text(data, "toolCallId"), _text(data, "toolName")
        parts = as_list(member(member(data, "result"), "content"))
        text = "\n".join(_text(part, "text") for part in parts)
        self._seen += estimated_tokens(text)
        failed = member(data, "isError") is not False
        envelope = build_success_response(text)
        if failed:
            envelope = build_error_response(ToolCode.UPSTREAM_FAILED, text)
        effects = _effects(name, self._calls.pop(call, None), text, failed=failed)
        return ours.ToolResultEndEvent(call, name, envelope, effects)

    def _retry(self, data: Any) -> ours.Event:
        attempt, error = round(_number(data, "attempt")), _line(data, "errorMessage")
        if attempt >= self._brief.request_attempts:
            return self._finished(Outcome.FAILED, error or FAILED.format(reason="error"))
        self._retrying = True
        kind = FailureKind.RATE_LIMIT if "429" in error else FailureKind.SERVER
        return ours.RetryEvent(self._turn, attempt, kind, error, round(_number(data, "delayMs")))

    def _finished(self, outcome: Outcome, error: str | None = None) -> ours.TaskFinishEvent:
        run_id, usage = self._brief.run_id, self._budget.usage
        text = self.answer if outcome is Outcome.COMPLETED else self._text
        return ours.TaskFinishEvent(run_id, text, outcome=outcome, error=error, usage=usage)

    @property
    def has_answered(self) -> bool:
        """Whether the model came to the end of its last message by itself."""
        return self._stop_reason is StopReason.DONE

    def end(self, code: int | None) -> ours.TaskFinishEvent | None:
        """Return how the task ended, of a pi that exited; None where it never came to an end."""
        reason = self._stop_reason
        if code == 0 and self._ended and reason not in (None, StopReason.CALLED):
            if self.has_answered and self.answer:
                return self._finished(Outcome.COMPLETED)
            errors = {StopReason.CUT: CUT, StopReason.DONE: EMPTY}
            return self._finished(Outcome.FAILED, errors.get(reason, self._error))
        return self._finished(Outcome.FAILED, self._error) if code and self._error else None


def _effects(name: str, args: Any, text: str, *, failed: bool) -> Effects:
    """Return what a call did, by its arguments: pi tells no more."""
    path = _text(args, "path")
    if name == "bash":
        found = _EXIT_CODE.search(text[-200:]) if failed else None
        code = int(found[1]) if found else None if failed else 0
        return Effects(commands=(CommandRun(_text(args, "command"), code),))
    if failed or name not in ("read", "write", "edit"):
        return Effects()
    if name == "read":
        return Effects(files_read=(path,))
    return Effects(files_written=(FileWrite(path),))


def _usage(given: Any, sent: int, written: int) -> Usage:
    keys = ("input", "output", "cacheRead", "cacheWrite")
    fresh, output, read, write = (member(given, key) for key in keys)
    if is_count(fresh):  # pi counts apart what was in a cache
        fresh += sum(one for one in (read, write) if is_count(one))
    usage = counted_usage((fresh, output, read, write), lambda: sent, written)
    cost = _number(member(given, "cost"), "total")
    return replace(usage, cost=cost, cost_known=bool(cost or not usage.input))


def _text(value: Any, *names: str) -> str:
    found = reduce(member, names, value)
    return found if isinstance(found, str) else ""


def _line(value: Any, name: str) -> str:
    return " ".join(_text(value, name)[: 2 * MAX_ERROR].split())[:MAX_ERROR]


def _number(value: Any, name: str) -> float:
    """Return a number that can be counted with; 0 for anything else."""
    found = member(value, name)
    is_number = isinstance(found, int | float) and not isinstance(found, bool)
    return cast("float", found) if is_number and 0 <= found < 1e9 else 0.0
