"""What is known of a run from its events: its text, usage, receipt, and its end."""

import time
from collections.abc import Mapping
from typing import Any, cast

from outrider.delegation.lines import Flooded
from outrider.delegation.partial import PartialText
from outrider.masking import Masker
from outrider.protocol import jsonl
from outrider.protocol.catalogue import REPORT_BACK
from outrider.protocol.envelope import is_success
from outrider.protocol.events import (
    Event,
    MessageEndEvent,
    MessageUpdateEvent,
    RetryEvent,
    SessionEvent,
    TaskFinishEvent,
    ToolResultEndEvent,
    ToolStartEvent,
    TurnEndEvent,
    TurnStartEvent,
    event_from_json,
)
from outrider.protocol.receipt import Receipt
from outrider.protocol.results import Streaming
from outrider.protocol.usage import Usage
from outrider.records.runs import Run
from outrider.settings.keys import LimitsConfig

MAX_DISPLAY_ITEMS = 200
MAX_DISPLAY_TEXT = 4_000


class Collector:
    """Takes a child's lines and keeps what the result needs; the rest goes to the transcript."""

    def __init__(self, run: Run, masker: Masker, limits: LimitsConfig) -> None:
        self.run = run
        self.partial = PartialText(run, masker)
        self.receipt = Receipt()
        self.usage = Usage()
        self.finish: TaskFinishEvent | None = None
        self.model: str | None = None
        self.attempts = 1
        self.turn_count = 0
        self.last_event = "none"
        self.last_retry: RetryEvent | None = None
        self.display_items: list[dict[str, Any]] = []
        self._masker = masker
        self._limits = limits
        self._events = 0
        self._seen_at = time.monotonic()
        self._waiting: dict[str, float] = {}

    def feed(self, line: bytes) -> bool:
        """Take in one line; return whether it was an event. Plain text is no sign of life."""
        try:
            data = jsonl.decode(line)
            event = event_from_json(data)
        except (ValueError, RecursionError):
            return False
        if event is None or self.finish is not None:
            return False
        self._seen_at = time.monotonic()
        if not isinstance(event, MessageUpdateEvent):
            self._record(cast("dict[str, Any]", data))
        self._apply(event)
        self.last_event = event.type
        return True

    def idle_since(self) -> float:
        """Return since when nothing has moved: no event came, and no tool was within its time."""
        return max([self._seen_at, *self._waiting.values()])

    def streaming(self) -> Streaming:
        """Return how far the run has come."""
        items = tuple(self.display_items)
        if text := self.partial.text:
            items = (*items, {"type": "text", "text": text[-MAX_DISPLAY_TEXT:]})
        return Streaming(items, self.usage, self.turn_count)

    def _record(self, data: Mapping[str, Any]) -> None:
        self._events += 1
        if self._events > self._limits.events:
            raise Flooded(f"more than {self._limits.events:,} events")
        masked, _ = self._masker.value(data)
        self.run.add_event(masked)

    def _apply(self, event: Event) -> None:
        match event:
            case SessionEvent():
                self.model = event.model
            case TurnStartEvent():
                self.turn_count = event.turn
                self.partial.begin()
            case MessageUpdateEvent():
                if event.delta:  # an empty one says no more than that the model is at work
                    self.partial.add(event.delta)
            case RetryEvent():
                self.attempts += 1
                self.last_retry = event
                self._waiting["retry"] = self._seen_at + event.delay_ms / 1000
                self.partial.begin()
            case MessageEndEvent():
                self._message_ended(event)
            case ToolStartEvent():
                self._waiting[event.id] = self._seen_at + event.timeout_ms / 1000
            case ToolResultEndEvent():
                self._waiting.pop(event.id, None)
                if event.name != REPORT_BACK:  # handing over the result is no work done
                    self.receipt.add(event.effects, failed=not _succeeded(event))
            case TurnEndEvent():
                self.usage = event.usage
            case TaskFinishEvent():
                self.usage = event.usage
                self.finish = event

    def _message_ended(self, event: MessageEndEvent) -> None:
        self._waiting.pop("retry", None)
        self.partial.settle()
        # The turn's end brings the run's sum; until then this message is on top of it.
        self.usage += event.usage
        # Masked before it is cut: half a secret is not known for one.
        if event.text:
            text = self._masker.text(event.text)
            self._show({"type": "text", "text": text[:MAX_DISPLAY_TEXT]})
        for call in event.tool_calls:
            args, _ = self._masker.value(call.args)
            name = self._masker.text(call.name)
            self._show({"type": "toolCall", "name": name, "args": _arguments(args)})

    def _show(self, item: dict[str, Any]) -> None:
        self.display_items.append(item)
        del self.display_items[:-MAX_DISPLAY_ITEMS]


def _succeeded(event: ToolResultEndEvent) -> bool:
    envelope = event.envelope
    return isinstance(envelope, dict) and is_success(cast("dict[str, Any]", envelope))


def _arguments(args: Any) -> dict[str, Any]:
    """Return a call's arguments as an object; text that isn't one is shown as it is."""
    if isinstance(args, dict):
        return cast("dict[str, Any]", args)
    return {} if args is None else {"raw": str(args)[:MAX_DISPLAY_TEXT]}
