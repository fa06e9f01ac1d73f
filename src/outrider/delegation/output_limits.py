"""Cutting a child's output into lines, with a bound on everything it could make us hold."""

from collections.abc import Iterator

from outrider.protocol.errors import OutriderError

KEPT_ERROR_BYTES = 16_384


class Flooded(OutriderError):
    """A child sent more than its limits allow; the message says which one."""


class LineReader:
    """Takes bytes as they come and gives whole lines, holding at most one line at a time."""

    def __init__(self, *, max_bytes: int, max_line: int) -> None:
        self._most_bytes = max_bytes
        self._most_line = max_line
        self._total = 0
        self._held = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the lines that `data` completes; raises `Flooded` at a limit."""
        self._total += len(data)
        if self._total > self._most_bytes:
            raise Flooded(f"more than {self._most_bytes:,} bytes of events")
        for number, piece in enumerate(data.split(b"\n")):
            if number:  # a line ends before it
                line = bytes(self._held)
                self._held.clear()  # first: who stops here must not get the line again
                yield line
            self._held += piece
            if len(self._held) > self._most_line:
                raise Flooded(f"an event of more than {self._most_line:,} bytes")


class ErrorText:
    """The end of what a child wrote to stderr; the limit counts all of it."""

    def __init__(self, max_bytes: int) -> None:
        self._most_bytes = max_bytes
        self._total = 0
        self._tail = b""

    def feed(self, data: bytes) -> None:
        """Take in more; raises `Flooded` at the limit."""
        self._total += len(data)
        self._tail = (self._tail + data)[-KEPT_ERROR_BYTES:]
        if self._total > self._most_bytes:
            raise Flooded(f"more than {self._most_bytes:,} bytes on stderr")

    @property
    def text(self) -> str:
        """What is kept of it."""
        return self._tail.decode(errors="replace")
