"""Rows in columns, for a terminal of any width.

Columns that can be spared go first; where that isn't enough, a row is broken into several lines.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from outrider.surfaces.text import fit, pad, width, wrapped

MIN_TEXT_COLUMNS = 16
"""The room that the last column needs; with less, a row is broken into several lines."""
Paint = Callable[[str, str | None], str]
"""Returns a text in a colour, where there is one."""
Piece = tuple[str, str | None]
"""A clean text and its colour."""
Cell = Sequence[Piece]
"""Its lines."""
EMPTY: Piece = ("", None)


@dataclass(frozen=True, slots=True)
class Table:
    """Cells, and what may become of them where there is little room."""

    headings: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    spare: Sequence[int] = ()
    """The columns that may be left out, the last one first."""
    wraps: bool = False
    """Whether the last column goes on in further lines where the room ends; else it is cut."""

    def lines(self, room: int | None, paint: Paint) -> Iterator[str]:
        """Yield the rows for so many columns; without a limit they are whole, and no headings."""
        table = self.rows
        if room is not None and any(self.headings):
            table = [[[(heading, "dim")] for heading in self.headings], *table]
        sizes = [
            max(width(text) for row in table for text, _ in row[number])
            for number in range(len(self.headings))
        ]
        *shown, last = range(len(sizes))
        if room is not None:
            least = min(sizes[last], MIN_TEXT_COLUMNS)
            sizes = [min(size, max(room * 2 // 5, 10)) for size in sizes]
            spare = list(self.spare)
            while (left := room - sum(sizes[n] + 2 for n in shown)) < least and spare:
                shown.remove(spare.pop())
            if left < least:
                yield from (line for row in self.rows for line in self._stacked(row, room, paint))
                return
            sizes[last] = left
        for row in table:
            cells = [[(fit(text, sizes[n]), colour) for text, colour in row[n]] for n in shown]
            for line in zip_longest(*cells, self._bounded(row[last], sizes[last]), fillvalue=EMPTY):
                padded = zip(line, [sizes[n] for n in (*shown, last)], strict=True)
                yield "  ".join(paint(pad(text, size), colour) for (text, colour), size in padded)

    def _stacked(self, row: Sequence[Cell], room: int, paint: Paint) -> Iterator[str]:
        """Yield a row for a narrow terminal: what it is about, and its text below."""
        heads = [cell[0] for number, cell in enumerate(row) if number not in self.spare]
        about = " · ".join(text for text, _ in heads[:-1] if text)
        for number, line in enumerate(wrapped(about, room - 2) if about else ()):
            yield "  " * (number > 0) + paint(line, heads[0][1])
        for line, colour in self._bounded(row[-1], room - 2):
            yield f"  {paint(line, colour)}"

    def _bounded(self, cell: Cell, room: int) -> list[Piece]:
        return [
            (line, colour)
            for text, colour in cell
            for line in (wrapped(text, room) if self.wraps else [fit(text, room)])
        ]
