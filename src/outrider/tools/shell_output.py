"""What a command printed, bounded: the beginning and the end of a flood, without its middle."""

import re
from collections import deque

MAX_END_BYTES = 4 * 1024 * 1024

_ESCAPE = re.compile(
    r"\x1b(?:"
    r"\[[0-?]*[ -/]*[@-~]"  # control sequences: colours, cursor moves
    r"|[\]PX^_].*?(?:\x07|\x1b\\|\Z)"  # titles, links, device strings
    r"|[ -/]*[0-~])",  # the short ones
    re.DOTALL,
)
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


class OutputBuffer:
    """Keeps the first and the last megabytes of what is added."""

    def __init__(self, most_end_bytes: int = MAX_END_BYTES) -> None:
        self._most = most_end_bytes
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_bytes = 0
        self._dropped = 0

    def add(self, chunk: bytes) -> None:
        """Take what was printed next."""
        room = self._most - len(self._head)
        if room > 0:
            self._head += chunk[:room]
            chunk = chunk[room:]
        if chunk:
            self._tail.append(chunk)
            self._tail_bytes += len(chunk)
        while self._tail and self._tail_bytes - len(self._tail[0]) >= self._most:
            oldest = self._tail.popleft()
            self._tail_bytes -= len(oldest)
            self._dropped += len(oldest)

    def text(self) -> str:
        """Return all that was kept, as plain text that says what was dropped."""
        tail = b"".join(self._tail)
        if not self._dropped:
            return plain_text(bytes(self._head) + tail)
        gap = f"\n[{self._dropped:,} bytes of output were not kept]\n"
        return plain_text(bytes(self._head)) + gap + plain_text(tail)


def plain_text(raw: bytes) -> str:
    """Return terminal output as text, without escape sequences and control characters."""
    text = raw.decode(errors="replace")
    if "\x1b" in text:
        text = _ESCAPE.sub("", text)
    return _CONTROL.sub("", text.replace("\r\n", "\n"))
