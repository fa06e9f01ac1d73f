"""A child reports only through events, one a line, on a link that nothing else can write to."""

import os
import time
from collections.abc import Callable

from outrider.protocol import jsonl
from outrider.protocol.events import Event, event_to_json

Emit = Callable[[Event], None]


class Emitter:
    """Writes events to a descriptor, each with the milliseconds since the start."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._start = time.monotonic()

    def __call__(self, event: Event) -> None:
        """Send one whole event. If nobody reads it any more, the child ends."""
        at = round((time.monotonic() - self._start) * 1000)
        data = memoryview(jsonl.encode(event_to_json(event, at)) + b"\n")
        try:
            while data:
                data = data[os.write(self._descriptor, data) :]
        except BrokenPipeError:
            raise SystemExit(1) from None


def take_standard_streams() -> tuple[int, int]:
    """Return private descriptors of the brief and the events, and point 0 and 1 elsewhere.

    A tool or a library that prints then writes to stderr, and one that reads gets nothing.
    """
    brief, events = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    return brief, events
