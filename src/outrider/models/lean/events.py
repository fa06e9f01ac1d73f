"""Server-sent events: what lies between two blank lines of a stream."""

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from outrider.models.failures import RequestFailed, failure_of
from outrider.protocol.outcomes import FailureKind

MAX_EVENT_BYTES = 32 << 20
_LINE_END = re.compile(rb"\r\n|\n|\r(?!\Z)")  # after the last `\r` a `\n` may come
ERROR = b"error"
_BOM = b"\xef\xbb\xbf"


@dataclass(slots=True)
class ServerEvent:
    """One event: what kind it says it is, and its data."""

    name: bytes = b""
    data: list[bytes] = field(default_factory=list[bytes])

    def take(self, line: bytes) -> None:
        """Take in one line; what is no data and no name of an event doesn't count."""
        key, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if key == b"data":
            self.data.append(value)
        elif key == b"event":
            self.name = value
        elif key == ERROR:  # as llama.cpp wrote it
            self.name, self.data = ERROR, [value]


async def server_events(chunks: AsyncIterator[bytes]) -> AsyncIterator[ServerEvent]:
    """Yield each event that has data, as soon as it is whole; one that is cut isn't told."""
    event, pieces, size, is_first = ServerEvent(), list[bytes](), 0, True
    async for chunk in chunks:
        pieces.append(chunk)
        size += len(chunk)
        if size > MAX_EVENT_BYTES:
            detail = f"an event of more than {MAX_EVENT_BYTES >> 20} MB"
            raise RequestFailed(failure_of(FailureKind.MALFORMED, detail=detail))
        if b"\n" not in chunk and b"\r" not in chunk and not pieces[0].endswith(b"\r"):
            continue  # a long line isn't searched again with each of its pieces
        *lines, rest = _LINE_END.split(b"".join(pieces))
        for line in lines:
            if is_first:
                line, is_first = line.removeprefix(_BOM), False
            if line:
                event.take(line)
            else:
                if event.data or event.name == ERROR:
                    yield event
                event = ServerEvent()
        pieces, size = [rest], len(rest) + sum(map(len, event.data))
    # A stream of lone `\r`s ends with one that nothing can follow any more.
    if b"".join(pieces) == b"\r" and event.data:
        yield event
