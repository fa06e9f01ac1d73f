"""What is known of a run from its (masked) events: its text, usage, receipt, and its end."""

from dataclasses import replace
from io import StringIO
from typing import Any

from outrider.delegation.event_masking import MaskedEvent
from outrider.delegation.output_limits import Flooded
from outrider.models.resolution import is_embedded, shown_model
from outrider.protocol import events
from outrider.protocol.data import as_object, member
from outrider.protocol.isolation import Isolation
from outrider.protocol.receipt import Receipt
from outrider.protocol.results import Streaming
from outrider.protocol.tool_catalogue import REPORT_BACK
from outrider.protocol.usage import Usage, estimated_tokens
from outrider.records.activity import KINDS, ActivityLog, of_call
from outrider.records.runs import RunRecorder

MAX_DISPLAY_ITEMS = 200
MAX_DISPLAY_TEXT = 4_000
MAX_HELD_TEXT = 1 << 20
DELEGATION_KEYS = {"agent", "runId", "outcome", "usage"}
NO_REQUESTS = "the child sent a request, which only a main agent may; it was dropped"
UNREADABLE = "the child sent a {kind} event that can't be read; it was dropped"


class PartialText:
    """The last message's text: in memory its beginning, in the run's output file all of it."""

    def __init__(self, run: RunRecorder) -> None:
        self._run = run
        self._held = StringIO()
        self.is_over = True
        """Whether the next text begins anew; the old one stays until there is a new one."""

    def add(self, text: str) -> None:
        if self.is_over:
            self.is_over = False
            self._held = StringIO()
            self._run.restart_output()
        self._run.add_output(text)
        if self._held.tell() < MAX_HELD_TEXT:
            self._held.write(text)

    @property
    def text(self) -> str:
        """What is held of it."""
        return self._held.getvalue()


class Collector:
    """Keeps what the result needs of a child's events; all of them go to the transcript."""

    def __init__(
        self, run: RunRecorder, max_events: int, activity: ActivityLog | None = None
    ) -> None:
        self.run = run
        self.shown_task = ""
        """The task, masked."""
        self._activity = activity
        self.partial = PartialText(run)
        self.receipt = Receipt()
        self.usage = Usage()
        self.finish: events.TaskFinishEvent | None = None
        self.masked_paths: tuple[str, ...] = ()  # where masking changed the structured output
        self.model: str | None = None  # the model that was asked for; with pi, the one that it uses
        self.answered: dict[str, None] = {}  # the models that answered, in order
        self.attempts = 1
        self.isolation: Isolation | None = None  # what held, once the child has told it
        self.turn_count = 0
        self.last_event = "none"
        self.display_items: list[dict[str, Any]] = []
        self.delegations: list[dict[str, Any]] = []
        self.faults: dict[str, None] = {}  # what is wrong with what the child sent, each once
        self._max_events = max_events
        self._events = 0
        self._calls: dict[str, events.ToolStartEvent] = {}

    def take(self, masked: MaskedEvent) -> None:
        """Take in one event; what comes after the task's end is ignored."""
        if self.finish is not None:
            return
        if not isinstance(masked.event, events.MessageUpdateEvent):
            self._record(masked.data)
        self.masked_paths = masked.output_paths  # those of the last event count
        self._apply(masked.event)
        self.last_event = masked.event.type

    def take_answer(self, answer: Any) -> None:
        """Take in the answer to a main agent's request; that to a delegation says how it went."""
        data = as_object(member(answer, "data"))
        if data.keys() >= DELEGATION_KEYS:
            self.delegations.append({key: data[key] for key in sorted(DELEGATION_KEYS)})

    def refuse(self, event: events.ParentRequestEvent) -> None:
        """Drop a request of a child that has nobody to ask."""
        self._note_fault(NO_REQUESTS, event.kind)

    def drop(self, kind: str) -> None:
        """Note an event that can't be read."""
        if self.finish is None:
            self._note_fault(UNREADABLE.format(kind=kind), kind)

    def _note_fault(self, message: str, kind: str) -> None:
        self._record({"type": "fault", "message": message, "kind": kind})
        self.faults[message] = None

    def streaming(self) -> Streaming:
        items = tuple(self.display_items)
        if text := self.partial.text:
            items = (*items, {"type": "text", "text": text[-MAX_DISPLAY_TEXT:]})
        return Streaming(items, self.usage, self.turn_count)

    @property
    def used(self) -> Usage:
        """What the run used, with an estimate of a message that its end has cut off."""
        known = self.usage
        if self.finish or self.partial.is_over or self.turn_count <= known.turns:
            return known
        output, turns = known.output + estimated_tokens(self.partial.text), known.turns + 1
        is_known = known.cost_known and known.turns > 0
        return replace(known, output=output, turns=turns, cost_known=is_known, estimated=True)

    def record_unanswered(self) -> None:
        for call in self._calls.values():
            self._add_activity(call, None)

    def _add_activity(self, call: events.ToolStartEvent, envelope: Any) -> None:
        if self._activity is not None:
            self._activity.add(of_call(call.name, call.args, envelope, self.run.id))

    def _record(self, data: dict[str, Any]) -> None:
        self._events += 1
        if self._events > self._max_events:
            raise Flooded(f"more than {self._max_events:,} events")
        self.run.add_event(data)

    def _apply(self, event: events.Event) -> None:
        match event:
            case events.SessionEvent():
                self.model = shown_model(event.model)
                self.isolation = event.isolation
            case events.UnconfinedEvent():
                self.isolation = (self.isolation or Isolation()).lacking(event.missing)
            case events.TurnStartEvent():
                self.turn_count = event.turn
                self.partial.is_over = True
            case events.MessageUpdateEvent():
                if event.delta:  # an empty one only says that the model is at work
                    self.partial.add(event.delta)
            case events.RetryEvent():
                self.attempts += 1
                self.partial.is_over = True
            case events.MessageEndEvent():
                self._end_message(event)
            case events.ToolStartEvent():
                if event.name in KINDS:
                    self._calls[event.id] = event
            case events.ToolResultEndEvent():
                if call := self._calls.pop(event.id, None):
                    self._add_activity(call, event.envelope)
                if event.name != REPORT_BACK:  # handing over the result is not work done
                    self.receipt.add(event.name, event.effects, event.envelope)
            case events.ParentRequestEvent() | events.UserMessageEvent() | events.DroppedEvent():
                pass
            case events.TurnEndEvent():
                self.usage = event.usage
            case events.TaskFinishEvent():
                self.usage = event.usage
                self.finish = event

    def _end_message(self, event: events.MessageEndEvent) -> None:
        # The turn's end brings the run's sum; until then this message is on top of it.
        self.usage += event.usage
        if event.model and self.model and not is_embedded(self.model):
            provider = self.model.partition(":")[0]
            self.answered[shown_model(f"{provider}:{event.model}")] = None
        if event.text:
            self.display_items.append({"type": "text", "text": event.text[:MAX_DISPLAY_TEXT]})
        for call in event.tool_calls:
            args: Any = call.args  # text that isn't an object is shown as it is
            if not isinstance(args, dict):
                args = {} if args is None else {"raw": str(args)[:MAX_DISPLAY_TEXT]}
            self.display_items.append({"type": "toolCall", "name": call.name, "args": args})
        del self.display_items[:-MAX_DISPLAY_ITEMS]
