"""What a child sends is masked here, once, where it enters the parent.

Everything behind it (record, display, stream, result) takes the masked form and never the other.
"""

from collections.abc import Callable, Iterator
from typing import Any

from outrider.masking import Masker, StreamMasker
from outrider.protocol import jsonl
from outrider.protocol.data import from_json, frozen
from outrider.protocol.events import (
    Event,
    MessageEndEvent,
    MessageUpdateEvent,
    event_from_json,
    is_event,
)

KEPT = "$.kept"
STRUCTURED_OUTPUT = "$.structuredOutput"


@frozen
class MaskedEvent:
    """One event, masked: as an object, and as the transcript keeps it."""

    event: Event
    data: dict[str, Any]
    output_paths: tuple[str, ...] = ()
    """Where masking changed the structured output, as paths into that."""


class EventMasker:
    """Masks the lines of one child. Text that comes in pieces is masked as if it came whole.

    `drop` is told the kind of each event that can't be read.
    """

    def __init__(self, masker: Masker, drop: Callable[[str], None]) -> None:
        self._masker = masker
        self._drop = drop
        self._stream: StreamMasker | None = None
        self._turn = 0
        self._last_text = self._last_masked = ""

    def events(self, line: bytes) -> Iterator[MaskedEvent]:
        """Yield what a line stands for; nothing where it isn't an event."""
        data = jsonl.decoded_object(line)
        if not is_event(data):
            return
        try:
            masked = self._masked(data)
        except (ValueError, RecursionError):
            self._drop(data["type"])
            return
        if not isinstance(masked.event, MessageUpdateEvent):
            yield from self.close()
        yield masked

    def close(self) -> Iterator[MaskedEvent]:
        """Yield the text that was held back: no more of this message will come."""
        if self._stream is not None:
            rest, self._stream = self._stream.finish(), None
            yield MaskedEvent(MessageUpdateEvent(self._turn, rest), {})

    def text(self, text: str) -> str:
        """Return text of the child that is no event, masked."""
        return self._masker.text(text)

    def _masked(self, data: dict[str, Any]) -> MaskedEvent:
        if data["type"] == MessageUpdateEvent.type:
            update = from_json(MessageUpdateEvent, data)
            if update.delta and self._stream is None:
                self._stream = self._masker.stream()
            self._turn = update.turn
            text = self._stream.feed(update.delta) if self._stream else ""
            return MaskedEvent(MessageUpdateEvent(update.turn, text), {})
        # The answer comes twice, as the last message and as the task's result.
        repeats = bool(self._last_text) and data.get("taskResult") == self._last_text
        masked, paths = self._masker.value({**data, "taskResult": ""} if repeats else data)
        if repeats:
            masked["taskResult"] = self._last_masked
        event = event_from_json(masked)
        if paths:
            masked["masked"] = True
            if any(path.startswith(KEPT) for path in paths):
                masked["kept"] = None  # its provider would refuse what isn't what it said
        if isinstance(event, MessageEndEvent):
            self._last_text, self._last_masked = data["text"], event.text
        below = [path.partition(STRUCTURED_OUTPUT) for path in paths]
        return MaskedEvent(event, masked, tuple(f"${rest}" for _, found, rest in below if found))
