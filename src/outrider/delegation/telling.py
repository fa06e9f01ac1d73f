"""Messages for a child at work: each is read once, in order, or the run ends before.

A message counts as read when the model has answered the request that carries it, not earlier.
"""

import asyncio
from collections.abc import Callable

from outrider.protocol import jsonl
from outrider.protocol.events import Event, MessageEndEvent, UserMessageEvent

FAILED = "error"
"""The reason why a message ended that is no answer."""


class Telling:
    """The messages of one run, from when somebody sends them until the model has read them."""

    def __init__(self) -> None:
        self._unread: dict[str, asyncio.Future[int | None]] = {}
        self._carried: list[str] = []
        """Those that the request under way carries."""
        self._unsent: list[bytes] = []
        self._send: Callable[[bytes], None] | None = None
        self._count = 0
        self._is_over = False

    def add(self, text: str) -> "asyncio.Future[int | None]":
        """Send a message; what it returns has the turn in which it was read, None for never."""
        read: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
        if self._is_over:
            read.set_result(None)
            return read
        self._count += 1
        self._unread[str(self._count)] = read
        self._unsent.append(jsonl.encode({"id": str(self._count), "text": text}) + b"\n")
        self._flush()
        return read

    def begin(self, send: Callable[[bytes], None] | None) -> None:
        """Take the way to the child, which has read its brief and now reads messages."""
        self._send = send
        self._flush()

    def on_event(self, event: Event) -> None:
        """Take in what the child says that it did with messages."""
        if isinstance(event, UserMessageEvent) and event.id in self._unread:
            self._carried.append(event.id)
        elif isinstance(event, MessageEndEvent) and self._carried and event.stop_reason != FAILED:
            for name in self._carried:
                self._settle(name, event.turn)
            self._carried.clear()

    def close(self) -> None:
        """Tell whoever waits that the run has ended."""
        self._is_over = True
        for name in tuple(self._unread):
            self._settle(name, None)

    def _settle(self, name: str, turn: int | None) -> None:
        read = self._unread.pop(name, None)
        if read is not None and not read.done():
            read.set_result(turn)

    def _flush(self) -> None:
        if self._send is not None:
            for line in self._unsent:
                self._send(line)
            self._unsent.clear()
