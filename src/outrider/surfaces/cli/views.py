"""What stderr shows of a run: how it began, what it is doing, and how it ended."""

import time
from dataclasses import dataclass, field

from outrider.delegation.preparation import Prepared
from outrider.models.resolution import is_embedded
from outrider.protocol import jsonl
from outrider.protocol.outcomes import Outcome
from outrider.protocol.results import SingleResult, Streaming, ToolResult
from outrider.protocol.usage import Usage
from outrider.schemas.values import is_object
from outrider.surfaces.cli import output
from outrider.surfaces.text import as_text, by_reason, count, duration, one_line

MAX_ARGUMENTS = 500
# The argument that says most about a call, in this order; without one, all are shown.
MAIN_ARGUMENTS = ("path", "pattern", "command", "agent", "url", "query")
CHOSEN = ("flag", "agent file", "configuration")


class View:
    """Follows a run. This one is for a pipe or a log: it shows no progress."""

    def started(self, prepared: Prepared, run_id: str) -> None:
        """Show what the run has to do without, which model answers, and the run's id."""
        name = prepared.definition.name
        without = (f"{name} works without {tools}" for tools in by_reason(prepared.permit.withheld))
        output.warn((*prepared.warnings, *without))
        output.say(opening(prepared, run_id))

    def updated(self, result: ToolResult) -> None:
        """Take in a partial result."""

    def stopping(self) -> None:
        """Show that a signal to stop has arrived."""
        output.say("stopping the child …")

    def close(self) -> None:
        """Leave the terminal as it was."""


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


class UpdatesView(View):
    """Prints each partial result to stdout, for a program that shows how far the run is."""

    def updated(self, result: ToolResult) -> None:
        """Print one line of JSON."""
        output.write_json_text(jsonl.encode(result.to_dict()).decode())


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


def call_line(name: str, args: object) -> str:
    """Return a tool call as one line: `grep idleTimeout`."""
    values = args if is_object(args) else {}
    shown = next((values[key] for key in MAIN_ARGUMENTS if key in values), values or "")
    return one_line(f"{name} {as_text(shown)[:MAX_ARGUMENTS]}")
