"""What stderr shows of a run: how it began, what it is doing, and how it ended."""

import asyncio
import math
import sys
import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from outrider.delegation.preparation import Prepared
from outrider.models.resolution import is_embedded
from outrider.protocol import events
from outrider.protocol.outcomes import Outcome
from outrider.protocol.results import SingleResult, Streaming
from outrider.protocol.usage import Usage
from outrider.schemas.values import is_object
from outrider.surfaces.cli import output
from outrider.surfaces.text import as_text, by_reason, count, duration, one_line

if TYPE_CHECKING:
    from outrider.surfaces.cli.live import Drawn

CHOSEN = ("flag", "agent file", "configuration")
MAX_SILENCE_SECONDS = 15
MAX_LINE = 200
MAX_STEPS = 5
MAX_TEXT = 100_000
MAX_ARGUMENTS = 500
# The argument that says most about a call, in this order; without one, all are shown.
MAIN_ARGUMENTS = ("pattern", "about", "command", "agent", "query", "url", "path")


class View:
    """Follows a run: in moving lines on a terminal, which disappear when it ends.

    A pipe or a log gets a line for each turn and each retry, and one now and then.
    """

    def __init__(self) -> None:
        self._steps: deque[str] = deque(maxlen=MAX_STEPS)
        self._text = ""
        self._name = self._model = self._failure = ""
        self._turn = self._calls = 0
        self._usage = Usage()
        self._begun = self._again_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._moving = None
        if not output.is_plain(sys.stderr):
            from outrider.surfaces.cli.live import Moving

            self._moving = Moving(sys.stderr, self._render)

    def started(self, prepared: Prepared, run_id: str) -> None:
        """Show what the run has to do without, which model answers, and the run's id."""
        self._name, self._model = prepared.definition.name, prepared.choice.shown
        self._begun = time.monotonic()
        without = by_reason(prepared.permit.withheld)
        output.warn((*prepared.warnings, *(f"{self._name} works without {one}" for one in without)))
        output.say(opening(prepared, run_id))
        self._wait() if self._moving is None else self._moving.start()

    def updated(self, event: events.Event) -> None:
        """Take in what the child does."""
        match event:
            case events.TurnStartEvent(turn=turn):
                self._turn, self._text = turn, ""
            case events.MessageUpdateEvent(delta=delta):
                self._text, self._failure = (self._text + delta)[-MAX_TEXT:], ""
            case events.MessageEndEvent(tool_calls=calls, usage=usage):
                self._usage += usage  # until the turn's end brings the sum
                self._calls, self._failure = self._calls + len(calls), ""
                lines = [call_line(call.name, call.args) for call in calls]
                self._steps.extend(lines)
                if lines:
                    self._tell(f"turn {self._turn} · {', '.join(lines)}"[:MAX_LINE])
            case events.TurnEndEvent(usage=usage):
                self._usage = usage
            case events.RetryEvent(message=message, delay_ms=delay, attempt=attempt):
                self._failure, self._text = f"attempt {attempt} follows: {message}", ""
                self._again_at = time.monotonic() + delay / 1000
                self._tell(self._retry())
            case _:
                pass

    def stopping(self) -> None:
        """Show that a signal to stop has arrived."""
        self._name = "stopping"
        self._tell("stopping the child …")

    def close(self) -> None:
        """Leave the terminal as it was."""
        if self._moving is not None:
            self._moving.stop()
        if self._timer is not None:
            self._timer.cancel()

    def _tell(self, line: str) -> None:
        if self._moving is None:
            output.say(line)
            self._wait()

    def _wait(self) -> None:
        """Say that the run goes on, if nothing else is told for a while."""
        if self._timer is not None:
            self._timer.cancel()
        wait = asyncio.get_running_loop().call_later
        self._timer = wait(MAX_SILENCE_SECONDS, lambda: self._tell(self._status()))

    def _render(self, spinner: str) -> "list[Drawn]":
        assert self._moving is not None
        room = max(self._moving.console.height - 2, 0)
        steps = [(f"  {step}", "dim") for step in self._steps][-room:] if room else []
        retry = [(one_line(self._retry()), "yellow")] if self._failure else []
        left = room - len(steps) - len(retry)
        answer = [self._moving.answer(self._text, left)] if left > 0 else []
        return [*steps, *answer, *retry, (f"{spinner} {self._status()}", "bold")]

    def _retry(self) -> str:
        """`again in 12 s · attempt 2 follows: …`, while a request waits to be sent again."""
        left = max(0, math.ceil(self._again_at - time.monotonic()))
        return f"again in {left} s · {self._failure}"

    def _status(self) -> str:
        """`explorer · 0:07 · turn 2 · 1 tool call · 1,234 tokens · openai:gpt-6.1-terra`."""
        seconds = int(time.monotonic() - self._begun)
        turn = f"turn {self._turn}" if self._turn else "starting"
        calls, used = count(self._calls, "tool call"), spent(self._usage)
        time_spent = f"{seconds // 60}:{seconds % 60:02}"
        return one_line(" · ".join((self._name, time_spent, turn, calls, used, self._model)))


def call_line(name: str, args: object) -> str:
    """Return a tool call as one line: `grep idleTimeout`."""
    values = args if is_object(args) else {}
    shown = next((values[key] for key in MAIN_ARGUMENTS if key in values), values or "")
    return one_line(f"{name} {as_text(shown)[:MAX_ARGUMENTS]}")


@dataclass(slots=True)
class Row:
    """An agent at work among others, and how far it is."""

    name: str
    streaming: Streaming = field(default_factory=Streaming)
    begun: float = field(default_factory=time.monotonic)

    def line(self) -> str:
        """Return its turn, what it does, its tokens and its time."""
        done, seconds = self.streaming, int(time.monotonic() - self.begun)
        calls = [one for one in done.display_items if one["type"] == "toolCall"][-1:]
        tool = [call_line(one["name"], one["args"]) for one in calls]
        turn = f"turn {done.turn_count}" if done.turn_count else "starting"
        parts = (self.name, turn, *tool, spent(done.usage), f"{seconds // 60}:{seconds % 60:02}")
        return one_line(" · ".join(parts))


def opening(prepared: Prepared, run_id: str) -> str:
    """Return the line a run begins with."""
    choice = prepared.choice
    begun = f"{prepared.definition.name} works as run {run_id}"
    if is_embedded(choice.model) and choice.reason not in CHOSEN:
        hint = "It finds and quotes, it doesn't reason."
        return f"{begun}; the embedded model answers ({choice.reason}). {hint}"
    return f"{begun}; {choice.shown} answers ({choice.reason})."


def summary(result: SingleResult, run_id: str) -> list[str]:
    """Return the lines a run ends with: its outcome, what it used, and where to read more."""
    calls, errors = (int(result.receipt.get(name, 0)) for name in ("toolCalls", "toolErrors"))
    parts = [
        count(result.usage.turns, "turn"),
        count(calls, "tool call") + (f" ({errors} failed)" if errors else ""),
        spent(result.usage),
        duration(result.duration_ms),
        *([count(result.attempts, "attempt")] if result.attempts > 1 else []),
        f"run {run_id}",
    ]
    if result.outcome is Outcome.COMPLETED:
        lines = [" · ".join(["completed", *parts])]
    else:
        hint = f"'outrider show {run_id} --events' shows what happened"
        lines = [f"{result.outcome}: {result.error}", " · ".join([*parts, hint])]
    return [*lines, result.record_problem] if result.record_problem else lines


def spent(usage: Usage) -> str:
    """`1,234 tokens`, and the cost where it is known."""
    cost = f" · ${usage.cost:.4f}" if usage.cost_known and usage.cost else ""
    return f"{count(usage.tokens, 'token')}{cost}"
