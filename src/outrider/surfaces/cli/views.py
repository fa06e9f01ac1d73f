"""What a person hears of a run beside its answer: how it began, and how it ended."""

from types import TracebackType
from typing import Protocol, Self

from outrider.delegation.preparation import Prepared
from outrider.models.resolution import is_embedded
from outrider.protocol.outcomes import Outcome
from outrider.protocol.results import SingleResult, ToolResult
from outrider.protocol.usage import Usage
from outrider.surfaces.cli import output
from outrider.surfaces.cli.text import count, duration

CHOSEN = ("flag", "agent file", "configuration")


class View(Protocol):
    """Follows a run from outside; a context manager, so that it always ends."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def started(self, prepared: Prepared, run_id: str) -> None:
        """The child is about to be started."""
        ...

    def updated(self, result: ToolResult) -> None:
        """The run has come further."""
        ...

    def stopping(self) -> None:
        """The person wants it to end."""
        ...


class QuietView:
    """For a pipe: one line at the start."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def started(self, prepared: Prepared, run_id: str) -> None:
        """Say which model answers, and the run's id."""
        output.say(opening(prepared, run_id))

    def updated(self, result: ToolResult) -> None:
        """Nothing: a log isn't helped by progress."""

    def stopping(self) -> None:
        """Say that the signal has arrived."""
        output.say("stopping the child …")


def opening(prepared: Prepared, run_id: str) -> str:
    """Return the line a run begins with."""
    choice = prepared.choice
    begun = f"{prepared.definition.name} works as run {run_id}"
    if is_embedded(choice.model) and choice.reason not in CHOSEN:
        told = f"{begun}; the embedded model answers ({choice.reason})."
        return f"{told} It finds and quotes, it doesn't reason."
    return f"{begun}; {choice.model} answers ({choice.reason})."


def without_tools(prepared: Prepared) -> list[str]:
    """Return what to say of tools that the agent lists and doesn't get, a line for each reason."""
    by_reason: dict[str, list[str]] = {}
    for one in prepared.permit.withheld:
        by_reason.setdefault(one.reason, []).append(one.tool)
    name = prepared.definition.name
    return [f"{name} works without {', '.join(tools)}: {why}" for why, tools in by_reason.items()]


def summary(result: SingleResult, run_id: str) -> list[str]:
    """Return the lines a run ends with: how, what it took, and where to read on."""
    calls = int(result.receipt.get("toolCalls", 0))
    errors = int(result.receipt.get("toolErrors", 0))
    parts = [
        count(result.usage.turns, "turn"),
        count(calls, "tool call") + (f" ({errors} failed)" if errors else ""),
        spent(result.usage),
        duration(result.duration_ms),
        f"run {run_id}",
    ]
    figures = " · ".join(parts)
    problem = [result.record_problem] if result.record_problem else []
    if result.outcome is Outcome.COMPLETED:
        return [f"completed · {figures}", *problem]
    story = f"'outrider show {run_id} --events' tells the whole story"
    return [f"{result.outcome}: {result.error}", f"{figures} · {story}", *problem]


def spent(usage: Usage) -> str:
    """`1,234 tokens`, and the money where it is known."""
    cost = f" · ${usage.cost:.4f}" if usage.cost_known and usage.cost else ""
    return f"{count(usage.tokens, 'token')}{cost}"
