"""What a search found, kept in the order of paths, counted and bounded."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from outrider.tools.files.masked_search import Block

MAX_BYTES = 45_000
MAX_LINE_CHARACTERS = 500
_BEFORE_MATCH = 100

Hit = tuple[int, int]
"""The number of a line that matches, and where in it the first match begins, in bytes."""


@dataclass(slots=True)
class Matches:
    """Takes the hits of files in the order of their paths, and keeps the first ones.

    Kept are `limit` matches with the lines around them; or, without lines, `limit` files with
    their counts. What limits it depends on lines that match, and on nothing else.
    """

    limit: int
    context: int
    with_lines: bool
    max_counted: int
    max_bytes: int
    """How much is looked at in files that match, only to count what isn't kept."""
    total: int = 0
    files: int = 0
    shown: int = 0
    complete: bool = True
    """Whether all hits were taken."""
    kept: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """The files, each with its path, and its lines or their count."""
    _path: str = ""
    _bytes: int = 0
    _room: int = MAX_BYTES

    def take(self, block: Block, hits: Sequence[Hit]) -> None:
        """Count the hits in a block of a file, and keep them while there is room."""
        if not hits or not self.complete:
            return
        left, is_full = self.max_counted - self.total, self._is_full(block.path)
        self.complete = len(hits) <= left and not (is_full and self._bytes > self.max_bytes)
        if not self.complete and (is_full or not left):
            return
        hits = hits[:left]
        self._bytes += len(block.content)
        self.total += len(hits)
        if block.path != self._path:
            self._path = block.path
            self.files += 1
            self._room -= len(block.path)
            if not is_full:
                self.kept.append({"path": block.path, "lines": [], "count": 0})
        if not is_full:
            self.kept[-1]["count"] += len(hits)
        if self.with_lines and not is_full:
            self._keep_lines(block, hits)

    def _is_full(self, path: str) -> bool:
        if self.with_lines:
            return self.shown >= self.limit or self._room < 0
        return len(self.kept) >= self.limit and path != self.kept[-1]["path"]

    def _keep_lines(self, block: Block, hits: Sequence[Hit]) -> None:
        wanted = hits[: self.limit - self.shown]
        for line in _lines(block, wanted, {number for number, _ in hits}, self.context):
            self.kept[-1]["lines"].append(line)
            self.shown += line["match"]
            self._room -= len(line["text"].encode(errors="replace")) + 10
            if self._room < 0:
                break


def _lines(
    block: Block, hits: Sequence[Hit], matching: set[int], context: int
) -> Iterator[dict[str, Any]]:
    """Yield the lines of the hits and those around them, in order."""
    lines = block.content.split(b"\n")
    columns = dict(hits)
    done, end = 0, block.first + block.lines
    for hit, _ in hits:
        for number in range(max(block.first, hit - context, done), min(end, hit + context + 1)):
            done = number + 1
            if number in columns or number not in matching:
                line, column = lines[number - block.first], columns.get(number, 0)
                text = _shown(line, column, block.shown.get(number))
                yield {"line": number, "text": text, "match": number in columns}


def _shown(line: bytes, column: int, masked: str | None) -> str:
    """Return a line as text, cut around its match at byte `column` where it is long."""
    text = line.rstrip(b"\r").decode(errors="replace") if masked is None else masked
    if len(text) <= MAX_LINE_CHARACTERS:
        return text
    first = max(0, len(line[:column].decode(errors="replace")) - _BEFORE_MATCH)
    last = first + MAX_LINE_CHARACTERS
    ends = "…" if first else "", "…" if last < len(text) else ""
    return f"{ends[0]}{text[first:last]}{ends[1]} [cut: {len(text):,} characters]"
