"""What is shown of agents at work: how they began, what they are doing, and how they ended."""

import asyncio
import math
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from outrider.delegation.preparation import Prepared
from outrider.models.resolution import is_embedded
from outrider.protocol import events
from outrider.protocol.data import from_json
from outrider.protocol.outcomes import Outcome
from outrider.protocol.results import SingleResult, ToolResult
from outrider.protocol.usage import Usage
from outrider.surfaces.terminal import output
from outrider.surfaces.terminal.markdown_blocks import Streamed
from outrider.surfaces.text import by_reason, call_line, clean, clean_line, count, duration, fit

if TYPE_CHECKING:
    from outrider.surfaces.terminal.drawing import Drawn

CHOSEN = ("flag", "agent file", "configuration")
MAX_SILENCE_SECONDS = 15
MAX_LINE = 200
MAX_TAIL = 100_000  # how many characters of an answer are kept to draw its end
MAX_STEPS = 5
MAX_STEP = 30  # columns for what an agent does: the rest of its row has to be seen too


class Row:
    """An agent at work, and how far it is."""

    def __init__(self, name: str, begun: float | None = None) -> None:
        self.name, self.begun = name, time.monotonic() if begun is None else begun
        self.turn, self.usage = 0, Usage()
        self.steps: list[str] = []  # the last tool calls: `grep idleTimeout`

    def take(self, event: events.Event) -> None:
        match event:
            case events.TurnStartEvent(turn=turn):
                self.turn = turn
            case events.MessageEndEvent(tool_calls=calls, usage=usage):
                self.steps += [call_line(one.name, one.args) for one in calls]
                del self.steps[:-MAX_STEPS]
                self.usage += usage
            case events.TurnEndEvent(usage=usage):  # that of all turns so far
                self.usage = usage
            case _:
                pass

    def line(self) -> str:
        """`explorer · turn 2 · grep idleTimeout · 1,234 tokens · 0:07`."""
        seconds = int(time.monotonic() - self.begun)
        turn = f"turn {self.turn}" if self.turn else "starting"
        step = [fit(one, MAX_STEP) for one in self.steps[-1:]]
        used, took = spent(self.usage), f"{seconds // 60}:{seconds % 60:02}"
        return clean_line(" · ".join((self.name, turn, *step, used, took)))


class View:
    """Follows agents at work: in moving lines on a terminal, in a line for each turn elsewhere."""

    def __init__(self, *, keeps_answer: bool = False) -> None:
        """`keeps_answer` says to leave the answer on the screen: nobody else prints it."""
        self._keeps_answer = keeps_answer
        self._rows: dict[str, Row] = {}
        self._answer, self._tail = Streamed(), ""
        self._failure, self._again_at = "", 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._moving = None
        if not output.is_plain(sys.stderr):
            from outrider.surfaces.terminal.drawing import Moving

            self._moving = Moving(sys.stdout if keeps_answer else sys.stderr, self._render)

    def show_start(self, prepared: Prepared, run_id: str) -> None:
        """Show what the run has to do without, which model answers, and the run's id."""
        name, main = prepared.definition.name, prepared.main_turn
        if main is None or not prepared.history:
            without = () if main else by_reason(prepared.permit.withheld)
            output.warn((*prepared.warnings, *(f"{name} runs without {one}" for one in without)))
            output.say(_opening(prepared, run_id))
        self._rows.clear()
        self.show_row("", Row(name))

    def show_row(self, key: str, row: Row) -> None:
        """Show an agent at work: without a key, the one that all else is about."""
        self._rows[key] = row
        self._move()

    def close(self) -> None:
        """Leave the terminal as it was, with what there is of the answer."""
        self._end_message()
        self._rest()

    @contextmanager
    def pause(self) -> Generator[None]:
        """Let nothing move meanwhile."""
        self._rest()
        try:
            yield
        finally:
            self._move()

    def say(self, line: str, *, fits: bool = False) -> None:
        """Show a line of ours that stays, whole or only what fits."""
        if self._moving is None:
            output.say(line)
        else:
            self._moving.say(clean_line(line), fits=fits)

    def show_answer(self, text: str) -> None:
        """Show what there is of an answer that whoever calls reads elsewhere."""
        self._tail = text[-MAX_TAIL:]

    def watch(self, key: str, news: str | events.Event | ToolResult) -> None:
        """Take in what happens: to the agent itself without a key, to its subagents with one."""
        match news:
            case str():
                self._rows[key] = Row(news)
                self._tell(f"{news} started")
            case ToolResult():
                self._rows.pop(key, None)
                self.end(news)
            case _:
                if key in self._rows:
                    self._rows[key].take(news)
                if not key:
                    self._take(news)

    def _take(self, event: events.Event) -> None:
        """Show an event of the agent that all else is about."""
        match event:
            case events.TurnStartEvent():
                self._answer, self._tail = Streamed(), ""
            case events.MessageUpdateEvent(delta=delta):
                self._failure = ""
                self._tail = (self._tail + delta)[-MAX_TAIL:]
                if self._keeps_answer:
                    self._keep(delta)
            case events.MessageEndEvent(turn=turn, tool_calls=calls):
                self._end_message()
                if lines := [call_line(call.name, call.args) for call in calls]:
                    self._tell(f"turn {turn} · {', '.join(lines)}"[:MAX_LINE])
            case events.RetryEvent(message=message, delay_ms=delay, attempt=attempt):
                self._answer, self._tail = Streamed(), ""
                self._failure = f"attempt {attempt} · {message}"
                self._again_at = time.monotonic() + delay / 1000
                self._tell(self._retry())
            case events.DroppedEvent(ids=ids):
                left = count(len(ids), "old tool result")
                self.say(f"the model's context window is nearly full, so it no longer sees {left}.")
            case _:
                pass

    def end(self, result: ToolResult) -> None:
        """Show how a run ended and what it took, and apart from that what its subagents took."""
        run, run_id = result.result, result.details.run_id or ""
        if run is None:
            self.say(result.text)
        else:
            self.say(f"{run.agent} {run_id}: {' · '.join(summary(run))}", fits=True)
            if run.changes:
                self.say(run.changes.words(run_id))
        if children := result.details.delegations:
            used = sum((from_json(Usage, one["usage"]) for one in children), Usage())
            self.say(f"plus {count(len(children), 'subagent')}: {spent(used)}")

    def _keep(self, delta: str) -> None:
        """Print what came of the answer, on a terminal each block of Markdown when it is whole."""
        self._answer.add(delta)
        if self._moving is None:
            print(clean(delta), end="", flush=True)
            self._move()
            return
        if blocks := self._answer.take_blocks():
            self._tail = self._answer.text
        for block in blocks:
            self._moving.show_markdown(block)

    def _end_message(self) -> None:
        self._failure = ""
        if self._keeps_answer and (text := self._answer.text):
            print(flush=True) if self._moving is None else self._moving.show_markdown(text)
            self._answer, self._tail = Streamed(), ""

    def _tell(self, line: str) -> None:
        """Say a line where nothing moves."""
        if self._moving is None:
            output.say(line)
            self._move()

    def _move(self) -> None:
        """Begin to draw, or else see to it that a line is said if there is none for a while."""
        if self._moving is not None:
            return self._moving.start()
        self._rest()
        wait = asyncio.get_running_loop().call_later
        self._timer = wait(MAX_SILENCE_SECONDS, self._break_silence)
        return None

    def _break_silence(self) -> None:
        rows = [self._rows[""]] if "" in self._rows else self._rows.values()
        self._tell("; ".join(row.line() for row in rows))

    def _rest(self) -> None:
        if self._moving is not None:
            self._moving.stop()
        if self._timer is not None:
            self._timer.cancel()

    def _render(self, spinner: str) -> "list[Drawn]":
        assert self._moving is not None
        own = self._rows.get("")  # none where several are watched that belong to nobody here
        others = [row for row in self._rows.values() if row is not own]
        rows = [(f"{spinner} {row.line()}", "bold") for row in (*others, *filter(None, [own]))]
        retry = [(clean_line(self._retry()), "yellow")] if self._failure else []
        room = max(self._moving.console.height - 1 - len(rows) - len(retry), 0)
        steps = [(f"  {step}", "dim") for step in (own.steps if own else ())][:room]
        left = room - len(steps)
        answer = [self._moving.answer(self._tail, left)] if left else []
        return [*steps, *answer, *retry, *rows]

    def _retry(self) -> str:
        """`retrying in 12 s, attempt 2 · …`, while a request waits to be sent again."""
        left = max(0, math.ceil(self._again_at - time.monotonic()))
        return f"retrying in {left} s, {self._failure}"


def _opening(prepared: Prepared, run_id: str) -> str:
    choice = prepared.choice
    begun = f"{prepared.definition.name} started as run {run_id}"
    if is_embedded(choice.model) and choice.reason not in CHOSEN:
        hint = "It searches and quotes but doesn't reason."
        return f"{begun} on the embedded model ({choice.reason}). {hint}"
    return f"{begun} on {choice.shown} ({choice.reason})."


def summary(result: SingleResult, run_id: str = "") -> list[str]:
    """Return the lines a run ends with; its id is left out where the caller names it."""
    calls, errors = (int(result.receipt.get(name, 0)) for name in ("toolCalls", "toolErrors"))
    parts = [
        count(result.usage.turns, "turn"),
        count(calls, "tool call") + (f" ({errors} failed)" if errors else ""),
        spent(result.usage),
        *([f"{result.model} instead of {result.asked_model}"] if result.asked_model else []),
        duration(result.duration_ms),
        *([count(result.attempts, "attempt")] if result.attempts > 1 else []),
    ]
    if result.outcome is Outcome.COMPLETED:
        named = [f"run {run_id}"] if run_id else []
        lines = [" · ".join(["completed", *parts, *named])]
    else:
        hint = f"'outrider show {run_id or 'last'} --events' shows what happened"
        lines = [f"{result.outcome}: {result.error}", " · ".join([*parts, hint])]
    return [*lines, result.record_problem] if result.record_problem else lines


def spent(usage: Usage) -> str:
    """`1,234 tokens`, and the cost where it is known."""
    cost = f" · ${usage.cost:.4f}" if usage.cost_known and usage.cost else ""
    return f"{count(usage.tokens, 'token')}{cost}"
