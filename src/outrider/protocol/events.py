"""What a child tells its parent: one JSON object a line. Any event is a sign of life."""

from dataclasses import field
from typing import Any, ClassVar, TypeGuard, get_args

from outrider.protocol.data import from_json, frozen, member, to_json
from outrider.protocol.isolation import Isolation
from outrider.protocol.outcomes import Outcome
from outrider.protocol.receipt import Effects
from outrider.protocol.usage import Usage

VERSION = 1


@frozen
class SessionEvent:
    """The child is up, and this is what it was told."""

    type: ClassVar[str] = "session"
    run_id: str
    agent: str
    model: str
    cwd: str
    isolation: Isolation = field(default_factory=Isolation)
    version: int = VERSION


@frozen
class UnconfinedEvent:
    """What the child starts is less confined than it should be: this machine lacks these."""

    type: ClassVar[str] = "unconfined"
    missing: tuple[str, ...]


@frozen
class TurnStartEvent:
    """A request goes to the model."""

    type: ClassVar[str] = "turn_start"
    turn: int


@frozen
class MessageUpdateEvent:
    """A piece of the model's text, as it comes. Transient: `message_end` has the whole."""

    type: ClassVar[str] = "message_update"
    turn: int
    delta: str


@frozen
class ToolCallData:
    """A tool call as the model wrote it; arguments that aren't a JSON object stay text."""

    id: str
    name: str
    args: Any = None


@frozen
class MessageEndEvent:
    """The model's message is whole, or as whole as it will get: `stop_reason` says which."""

    type: ClassVar[str] = "message_end"
    turn: int
    text: str
    tool_calls: tuple[ToolCallData, ...] = ()
    stop_reason: str = "stop"
    usage: Usage = field(default_factory=Usage)
    model: str | None = None
    """What the provider calls the model that answered."""
    kept: dict[str, Any] | None = None
    """What only the provider understands, and gets back if the run is resumed."""


@frozen
class RetryEvent:
    """A request failed in passing, and is sent again after `delay_ms`."""

    type: ClassVar[str] = "retry"
    turn: int
    attempt: int
    kind: str
    message: str
    delay_ms: int


@frozen
class ToolStartEvent:
    """A tool begins. It counts as activity until `timeout_ms` have passed."""

    type: ClassVar[str] = "tool_start"
    id: str
    name: str
    args: Any
    timeout_ms: int


@frozen
class ToolResultEndEvent:
    """A tool has answered."""

    type: ClassVar[str] = "tool_result_end"
    id: str
    name: str
    envelope: Any
    effects: Effects = field(default_factory=Effects)
    summary: str = ""
    text: str | None = None
    """What the model saw, where that isn't all of the envelope."""


@frozen
class ParentRequestEvent:
    """A main agent asks its parent to `delegate` or to `permit` a call; no other child may."""

    type: ClassVar[str] = "parent_request"
    id: str
    kind: str
    name: str
    args: Any = None


@frozen
class UserMessageEvent:
    """A message that the next request carries beside the task; with an `id` it is a person's."""

    type: ClassVar[str] = "user_message"
    turn: int
    text: str
    id: str | None = None


@frozen
class DroppedEvent:
    """The results of these calls were left out of the conversation, to fit the model's window."""

    type: ClassVar[str] = "dropped"
    turn: int
    ids: tuple[str, ...]


@frozen
class TurnEndEvent:
    """A turn is over; `usage` is the run's so far."""

    type: ClassVar[str] = "turn_end"
    turn: int
    usage: Usage = field(default_factory=Usage)


@frozen
class TaskFinishEvent:
    """The task is over, and how. Without this event a run has failed, whatever else it said."""

    type: ClassVar[str] = "task_finish"
    session_id: str = ""
    task_result: str = ""
    structured_output: Any = None
    has_structured_output: bool = False
    """Whether a report was accepted: null is one too."""
    outcome: Outcome = Outcome.FAILED
    error: str | None = None
    schema_faults: tuple[Any, ...] | None = None
    last_report: Any = None
    has_last_report: bool = False
    check: Any = None
    """The check of the answer: its command, its last exit code, and how often it was run."""
    usage: Usage = field(default_factory=Usage)
    failure_kind: str | None = None
    """What went wrong with the request to the model that ended the task."""
    retry_after: float | None = None
    """How many seconds the provider said to wait then."""


Event = (
    SessionEvent
    | UnconfinedEvent
    | TurnStartEvent
    | MessageUpdateEvent
    | MessageEndEvent
    | RetryEvent
    | ToolStartEvent
    | ToolResultEndEvent
    | ParentRequestEvent
    | UserMessageEvent
    | DroppedEvent
    | TurnEndEvent
    | TaskFinishEvent
)

EVENTS: dict[str, type[Event]] = {cls.type: cls for cls in get_args(Event)}


def event_to_json(event: Event, at: int) -> dict[str, Any]:
    """Return an event as it goes over the wire; `at` is milliseconds since the start."""
    return {"type": event.type, "at": at, **to_json(event)}


def is_event(data: object) -> TypeGuard[dict[str, Any]]:
    """Return whether `data` is an object whose `type` names an event."""
    kind = member(data, "type")
    return isinstance(kind, str) and kind in EVENTS


def event_from_json(data: dict[str, Any]) -> Event:
    """Return the event that an object is; raises `ValueError` naming what doesn't fit."""
    return from_json(EVENTS[data["type"]], data)
