"""What a caller gets back: the tool result, its details, and the one run inside."""

from dataclasses import field
from typing import Any

from outrider.protocol.changes import Changes
from outrider.protocol.data import frozen, to_json
from outrider.protocol.errors import ErrorCode, Refusal
from outrider.protocol.isolation import Isolation
from outrider.protocol.outcomes import Outcome, TimeoutReason
from outrider.protocol.usage import Usage


@frozen
class TextContent:
    """A piece of text for the caller's model or reader."""

    text: str
    type: str = "text"


@frozen
class ErrorInfo:
    """Why a delegation didn't simply succeed."""

    code: ErrorCode
    message: str


@frozen
class WithheldTool:
    """A tool that an agent lists and didn't get, and why."""

    tool: str
    reason: str


@frozen
class SingleResult:
    """One child's run: how it ended, what it said, and what it was seen to do."""

    agent: str
    task: str
    outcome: Outcome
    exit_code: int
    usage: Usage = field(default_factory=Usage)
    output: str = ""
    structured_output: Any = None
    has_structured_output: bool = False
    """Whether a report was accepted: null is one too."""
    error: str | None = None
    timeout_reason: TimeoutReason | None = None
    schema_faults: tuple[Any, ...] | None = None
    last_report: Any = None
    has_last_report: bool = False
    masked_paths: tuple[str, ...] | None = None
    check: dict[str, Any] | None = None
    """The check of the answer: its command, its last exit code, and how often it was run."""
    changes: Changes | None = None
    """What a writer changed in its layer, and what has become of that."""
    isolation: Isolation | None = None
    """What kept the child from the rest of the machine; None where it never began."""
    attempts: int = 1
    model: str | None = None
    """The model that answered."""
    asked_model: str | None = None
    """The one that was asked for, where another one answered."""
    duration_ms: int = 0
    resumes: str | None = None
    """The run that this one goes on with."""
    session_file: str | None = None
    output_file: str | None = None
    record_problem: str | None = None
    """What kept the run's record from being complete: a full disk, say."""
    withheld: tuple[WithheldTool, ...] = ()
    """Tools that the agent lists and didn't get."""
    warnings: tuple[str, ...] = ()
    """What a caller should know: settings refused, modules that can't be loaded."""
    receipt: dict[str, Any] = field(default_factory=dict[str, Any])
    display_items: tuple[dict[str, Any], ...] = ()


@frozen
class Streaming:
    """How far a run has come, while it runs."""

    display_items: tuple[dict[str, Any], ...] = ()
    usage: Usage = field(default_factory=Usage)
    turn_count: int = 0


@frozen
class Details:
    """The part of a tool result that programs read."""

    mode: str = "single"
    run_id: str | None = None
    results: tuple[SingleResult, ...] = ()
    error: ErrorInfo | None = None
    streaming: Streaming | None = None
    delegations: tuple[dict[str, Any], ...] | None = None
    """What a main agent has delegated: agent, runId, outcome, and usage that isn't its own."""


@frozen
class ToolResult:
    """What every delegation returns, however it ended."""

    content: tuple[TextContent, ...]
    details: Details

    @property
    def text(self) -> str:
        """The text for the caller; possibly cut."""
        return "".join(item.text for item in self.content)

    @property
    def result(self) -> SingleResult | None:
        """The child's run; None where no child was started."""
        return self.details.results[0] if self.details.results else None

    @property
    def completed(self) -> bool:
        """Whether the task was done. A text that was cut for display is still a task done."""
        return self.result is not None and self.result.outcome is Outcome.COMPLETED

    def with_changes(self) -> "ToolResult":
        """Return it with a text that ends with what a writer changed, and what to do."""
        if self.result is None or self.result.changes is None:
            return self
        changes = self.result.changes.words(self.details.run_id or "")
        return text_result(f"{self.text}\n\n[{changes}]", self.details)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form, as the `subagent` tool and `--json` give it."""
        return to_json(self)


def text_result(text: str, details: Details) -> ToolResult:
    return ToolResult((TextContent(text),), details)


def refused(refusal: Refusal) -> ToolResult:
    """Return the result of a request that no child was started for."""
    mode = "management" if refusal.code is ErrorCode.SUBAGENT_DEPTH_EXCEEDED else "single"
    details = Details(mode, error=ErrorInfo(refusal.code, refusal.message))
    return text_result(refusal.message, details)
