"""What a search found, kept in the order of paths, counted and bounded."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from outrider.tools.files.visible import Block

MAX_LINE_CHARACTERS = 500
_BEFORE_MATCH = 100

Hit = tuple[int, int]
"""The number of a line that matches, and where in it the first match begins, in bytes."""


@dataclass(slots=True)
class FoundLine:
    """A line that matched, or that is near one that did."""

    number: int
    text: str
    is_match: bool


@dataclass(slots=True)
class FoundFile:
    """The lines of one file that were kept; `matches` counts all that matched."""

    path: str
    lines: list[FoundLine] = field(default_factory=list[FoundLine])
    matches: int = 0


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
    complete: bool = True
    """Whether all hits were taken."""
    kept: list[FoundFile] = field(default_factory=list[FoundFile])
    _last: FoundFile = field(default_factory=lambda: FoundFile(""))
    _shown: int = 0
    _bytes: int = 0

    def take(self, block: Block, hits: Sequence[Hit]) -> None:
        """Count the hits in a block of a file, and keep them while there is room."""
        if not hits or not self.complete:
            return
        room, is_full = self.max_counted - self.total, self._is_full(block.path)
        self.complete = len(hits) <= room and not (is_full and self._bytes > self.max_bytes)
        if self.complete or (room and not is_full):
            self._bytes += len(block.content)
            self._count(block, hits[:room])

    def _is_full(self, path: str) -> bool:
        if self.with_lines:
            return self._shown >= self.limit
        return len(self.kept) >= self.limit and path != self.kept[-1].path

    def _count(self, block: Block, hits: Sequence[Hit]) -> None:
        if self._last.path != block.path:
            is_full, self._last = self._is_full(block.path), FoundFile(block.path)
            self.files += 1
            self.kept += [] if is_full else [self._last]
        self.total += len(hits)
        self._last.matches += len(hits)
        room = self.limit - self._shown
        if self.with_lines and room > 0:
            self._last.lines += _lines(block, hits[:room], {at for at, _ in hits}, self.context)
            self._shown += min(room, len(hits))


def _lines(
    block: Block, hits: Sequence[Hit], matching: set[int], context: int
) -> Iterator[FoundLine]:
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
                yield FoundLine(number, text, number in columns)


def _shown(line: bytes, column: int, masked: str | None) -> str:
    """Return a line as text, cut around its match at byte `column` where it is long."""
    text = line.rstrip(b"\r").decode(errors="replace") if masked is None else masked
    if len(text) <= MAX_LINE_CHARACTERS:
        return text
    first = max(0, len(line[:column].decode(errors="replace")) - _BEFORE_MATCH)
    last = first + MAX_LINE_CHARACTERS
    ends = "…" if first else "", "…" if last < len(text) else ""
    return f"{ends[0]}{text[first:last]}{ends[1]} [cut: {len(text):,} characters]"
