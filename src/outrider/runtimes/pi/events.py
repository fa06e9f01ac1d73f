"""pi's events in our words, line by line; none of pi's words is believed to be of the right kind.

Versions differ: 0.87 sends pieces of text, a system message and `agent_settled`, 0.73 with each
piece all that came before it. What is read here both of them have.
"""

import re
import time
from collections.abc import Iterator
from typing import Any, cast

from outrider.protocol import events as ours, jsonl
from outrider.protocol.brief import Brief
from outrider.protocol.budget import Budget
from outrider.protocol.envelope import (
    ToolCode,
    build_error_response,
    build_meta,
    build_success_response,
)
from outrider.protocol.outcomes import FailureKind, Outcome
from outrider.protocol.receipt import CommandRun, Effects, FileWrite
from outrider.protocol.usage import Usage
from outrider.schemas.values import is_array, is_object

MAX_ERROR = 2_000
TOOL_TIMEOUT_MS = 120_000
"""How long a tool without a timeout of its own may be silent and still count as at work."""
CUT = "The model's answer was cut at its token limit."
EMPTY = "The model gave an empty answer."
FAILED = "The model's provider failed, and pi says no more than that."
UNSURE = "The answer may be cut: no usage came after it, and this pi doesn't tell. Update pi."
NO_PRICE = "pi knows no price of the model, so subagents.budget.maxCost can't be kept."
# Known by how they begin: they repeat all that was said, and can be of any length.
REPEATING = (b'{"type":"agent_end"', b'{"type":"turn_end"')
_STOP_REASONS = {"toolUse": "tool_call", "aborted": "error"}
_STATUS = re.compile(r"\b(429|5\d\d)\b")
_EXIT_CODE = re.compile(r"exited with code (\d{1,3})")


class Translator:
    """Turns the lines of one run into events, and says at the end how the task ended."""

    def __init__(self, brief: Brief) -> None:
        self._brief = brief
        self._budget = Budget(brief.budget)
        self._model = brief.model
        self._turn = 0
        self._retrying = False
        self._calls: dict[str, tuple[float, Any]] = {}
        self._ended = False
        self._tells_cuts = True
        self.answer = ""
        """The text of the model's last message."""
        self._text = ""
        self._stop_reason = self._error = ""

    def events(self, line: bytes) -> Iterator[ours.Event]:
        """Yield what a line stands for; nothing where it isn't one of pi's events."""
        if line.startswith(REPEATING):
            self._ended = line.startswith(REPEATING[0])
            turn_end = ours.TurnEndEvent(self._turn, self._budget.usage)
            yield self._at_work() if self._ended else turn_end
            return
        try:
            data: Any = jsonl.decode(line)
        except (ValueError, RecursionError):
            return
        if is_object(data) and isinstance(data.get("type"), str):
            yield from self._event(data)

    def _event(self, data: dict[str, Any]) -> Iterator[ours.Event]:
        message = _object(data.get("message"))
        match data["type"]:
            case "session":
                self._ended = False
                yield self._session()
            case "turn_start":
                yield from self._turn_start()
            case "message_start" | "message_end" if message.get("role") != "assistant":
                yield self._at_work()
            case "message_start":
                yield from self._message_start(message)
            case "message_update":
                update = _object(data.get("assistantMessageEvent"))
                is_text = update.get("type") == "text_delta"
                delta = _text(update.get("delta")) if is_text else ""
                yield ours.MessageUpdateEvent(self._turn, delta)
            case "message_end":
                yield from self._message_end(message)
            case "tool_execution_start":
                yield self._tool_start(data)
            case "tool_execution_end":
                yield self._tool_end(data)
            case "auto_retry_start":
                yield self._retry(data)
            case _:
                yield self._at_work()

    def _at_work(self) -> ours.Event:
        return ours.MessageUpdateEvent(self._turn, "")

    def _session(self) -> ours.Event:
        brief = self._brief
        return ours.SessionEvent(brief.run_id, brief.agent, self._model, brief.cwd)

    def _turn_start(self) -> Iterator[ours.Event]:
        if self._retrying:  # the same turn once more
            yield self._at_work()
            return
        if over := self._budget.forbids_turn():
            yield self.finished(Outcome.OVER_BUDGET, over)
        self._turn += 1
        yield ours.TurnStartEvent(self._turn)

    def _message_start(self, message: dict[str, Any]) -> Iterator[ours.Event]:
        self._ended = False
        # 0.73 says "stop" from the start, so also of a stream that ends without an end.
        self._tells_cuts = message.get("stopReason") == "pending"
        names = [_text(message.get("provider")), _text(message.get("model"))]
        if all(names) and self._model.partition(":")[2] != names[1]:
            self._model = ":".join(names)
            yield self._session()
        else:
            yield self._at_work()

    def _message_end(self, message: dict[str, Any]) -> Iterator[ours.Event]:
        parts = [_object(part) for part in _array(message.get("content"))]
        text = "".join(_text(part.get("text")) for part in parts if part.get("type") == "text")
        calls = tuple(
            ours.ToolCallData(_text(part.get("id")), _text(part.get("name")), part.get("arguments"))
            for part in parts
            if part.get("type") == "toolCall"
        )
        said = _text(message.get("stopReason"))
        self.answer, self._text = text, text or self._text
        self._stop_reason = _STOP_REASONS.get(said, said) or "error"
        self._error = _line(message.get("errorMessage"))
        usage = _usage(message.get("usage"), turns=0 if self._retrying else 1)
        self._retrying = False
        if said == "stop" and not usage.output and not self._tells_cuts:
            self._stop_reason, self._error = "error", UNSURE
        self._budget.usage += usage
        yield ours.MessageEndEvent(self._turn, text, calls, self._stop_reason, usage)
        if over := self._budget.forbids_tool_calls(len(calls)) if calls else None:
            yield self.finished(Outcome.OVER_BUDGET, over)
        if self._brief.budget.max_cost is not None and not self._budget.usage.cost_known:
            yield self.finished(Outcome.FAILED, NO_PRICE)
        self._budget.tool_calls += len(calls)

    def _tool_start(self, data: dict[str, Any]) -> ours.Event:
        args = data.get("args")
        call = _text(data.get("toolCallId"))
        self._calls[call] = (time.monotonic(), args)
        seconds = _number(_object(args).get("timeout"))
        timeout_ms = round(min(seconds, 86_400) * 1000) if seconds > 0 else TOOL_TIMEOUT_MS
        return ours.ToolStartEvent(call, _text(data.get("toolName")), args, timeout_ms)

    def _tool_end(self, data: dict[str, Any]) -> ours.Event:
        call, name = _text(data.get("toolCallId")), _text(data.get("toolName"))
        begun, args = self._calls.pop(call, (time.monotonic(), None))
        parts = _array(_object(data.get("result")).get("content"))
        text = "\n".join(_text(_object(part).get("text")) for part in parts)
        failed = data.get("isError") is not False
        code = ToolCode.UPSTREAM_FAILED
        envelope = build_error_response(code, text) if failed else build_success_response(text)
        envelope["meta"] = build_meta(name, time.monotonic() - begun)
        effects = _effects(name, _object(args), text, failed=failed)
        return ours.ToolResultEndEvent(call, name, envelope, effects)

    def _retry(self, data: dict[str, Any]) -> ours.Event:
        attempt, error = round(_number(data.get("attempt"))), _line(data.get("errorMessage"))
        if attempt >= self._brief.request_attempts:
            return self.finished(Outcome.FAILED, error or FAILED)
        self._retrying = True
        delay_ms = round(_number(data.get("delayMs")))
        return ours.RetryEvent(self._turn, attempt, _kind(error), error, delay_ms)

    def finished(self, outcome: Outcome, error: str | None = None) -> ours.TaskFinishEvent:
        """Return the end of the task, without a report."""
        run_id, usage = self._brief.run_id, self._budget.usage
        return ours.TaskFinishEvent(run_id, self._text, outcome=outcome, error=error, usage=usage)

    def failure(self) -> ours.TaskFinishEvent | None:
        """Return the provider's failure that pi reported last; None where it reported none."""
        return self.finished(Outcome.FAILED, self._error) if self._error else None

    def end(self) -> ours.TaskFinishEvent | None:
        """Return how the task ended, of a pi that is done; None where it never came to an end."""
        if not self._ended or self._stop_reason == "tool_call":
            return None
        if self._stop_reason == "stop" and self.answer.strip():
            return self.finished(Outcome.COMPLETED)
        endings = {"length": CUT, "stop": EMPTY}
        return self.finished(
            Outcome.FAILED, endings.get(self._stop_reason) or self._error or FAILED
        )


def _effects(name: str, args: dict[str, Any], text: str, *, failed: bool) -> Effects:
    """Return what a call did, by its arguments: pi tells no more."""
    if name == "bash":
        found = _EXIT_CODE.search(text[-200:]) if failed else None
        code = int(found[1]) if found else None if failed else 0
        return Effects(commands=(CommandRun(_text(args.get("command")), code),))
    path = _text(args.get("path"))
    if failed or not path:
        return Effects()
    if name in ("write", "edit"):
        return Effects(files_written=(FileWrite(path),))
    return Effects(files_read=(path,) if name == "read" else ())


def _usage(value: object, turns: int) -> Usage:
    given = _object(value)
    read, write = (max(0, round(_number(given.get(key)))) for key in ("cacheRead", "cacheWrite"))
    fresh, output = (max(0, round(_number(given.get(key)))) for key in ("input", "output"))
    cost = max(0.0, _number(_object(given.get("cost")).get("total")))
    tokens = fresh + read + write
    known = cost > 0 or tokens + output == 0
    return Usage(tokens, output, read, write, cost, turns, cost_known=known)


def _kind(error: str) -> FailureKind:
    status = _STATUS.search(error)
    if status is None:
        overloaded = "overloaded" in error.lower()
        return FailureKind.OVERLOADED if overloaded else FailureKind.CONNECTION
    kinds = {"429": FailureKind.RATE_LIMIT, "503": FailureKind.OVERLOADED}
    return (kinds | {"529": FailureKind.OVERLOADED}).get(status[1], FailureKind.SERVER)


def _line(value: object) -> str:
    return " ".join(_text(value)[: 2 * MAX_ERROR].split())[:MAX_ERROR]


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _number(value: object) -> float:
    """Return a number that can be counted with; 0 for anything else."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return cast("float", value) if is_number and abs(cast("float", value)) < 1e15 else 0.0


def _array(value: object) -> list[Any]:
    return value if is_array(value) else []


def _object(value: object) -> dict[str, Any]:
    return value if is_object(value) else {}
