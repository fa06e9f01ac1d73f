"""Reports, and their tables in columns for a terminal of any width.

Optional columns go first; where that isn't enough, a row is broken into several lines.
Rows may have what files, models and runs say: every cell is cleaned when it is drawn.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, cast

from outrider.protocol.data import frozen
from outrider.surfaces.text import as_text, clean_line, fit, pad, width, wrapped

MIN_TEXT_COLUMNS = 16  # with less for the last column, a row is broken into several lines
Row = Mapping[str, Any]
Paint = Callable[[str, str | None], str]  # returns a text in a colour, where there is one
Cell = list[tuple[str, str | None]]  # the lines of a cell, clean, each with its colour


@frozen
class Column:
    """One column: its heading, and what it shows of a row."""

    heading: str = ""
    entry: str | Callable[[Row], Any] = ""  # by default the heading; a list gives lines
    colour: str | Callable[[Row], str | None] | None = None
    form: Callable[[Any], str] = as_text
    optional: bool = False  # left out where there is little room, the last one first

    def cell(self, row: Row) -> Cell:
        found = self.entry(row) if callable(self.entry) else row.get(self.entry or self.heading)
        said = cast("list[Any]", found if isinstance(found, list) else [found])
        texts = ["" if one is None else clean_line(self.form(one)) for one in said]
        colour = self.colour(row) if callable(self.colour) else self.colour
        return [(text, "dim" if number else colour) for number, text in enumerate(texts or [""])]


@frozen
class Table:
    """Rows of one kind."""

    columns: tuple[Column, ...]
    rows: Sequence[Row]
    title: str = ""
    wraps: bool = False  # the last column goes on in further lines instead of being cut

    def lines(self, room: int | None, paint: Paint) -> Iterator[str]:
        """Yield the rows for so many columns; without a limit they are whole, and no headings."""
        rows = [[column.cell(row) for column in self.columns] for row in self.rows]
        *shown, last = range(len(self.columns))
        if room is not None and any(column.heading for column in self.columns):
            rows.insert(0, [[(column.heading, "dim")] for column in self.columns])
        sizes = [max(width(text) for row in rows for text, _ in row[n]) for n in (*shown, last)]
        if room is not None:
            least = min(sizes[last], MIN_TEXT_COLUMNS)
            sizes = [min(size, max(room * 2 // 5, 10)) for size in sizes]
            spare = [number for number in shown if self.columns[number].optional]
            while (left := room - sum(sizes[n] + 2 for n in shown)) < least and spare:
                shown.remove(spare.pop())
            if left < least:
                yield from (line for row in self.rows for line in self._stacked(row, room, paint))
                return
            sizes[last] = left
        for row in rows:
            cells = [[(fit(text, sizes[n]), colour) for text, colour in row[n]] for n in shown]
            cells.append(self._bounded(row[last], sizes[last]))
            for line in zip_longest(*cells, fillvalue=("", None)):
                padded = zip(line, [sizes[n] for n in (*shown, last)], strict=True)
                yield "  ".join(paint(pad(text, size), colour) for (text, colour), size in padded)

    def _stacked(self, row: Row, room: int, paint: Paint) -> Iterator[str]:
        """Yield a row for a narrow terminal: what it is about, and its text below."""
        heads = [column.cell(row)[0] for column in self.columns[:-1] if not column.optional]
        about = " · ".join(text for text, _ in heads if text)
        for number, line in enumerate(wrapped(about, room - 2) if about else ()):
            yield "  " * (number > 0) + paint(line, heads[0][1])
        for line, colour in self._bounded(self.columns[-1].cell(row), room - 2):
            yield f"  {paint(line, colour)}"

    def _bounded(self, cell: Cell, room: int) -> Cell:
        return [
            (line, colour)
            for text, colour in cell
            for line in (wrapped(text, room) if self.wraps else [fit(text, room)])
        ]


@frozen
class Report:
    """Data for programs, and the tables that people see of it on a terminal or in a panel."""

    data: Mapping[str, Any]
    tables: tuple[Table, ...] = ()
    notes: tuple[str, ...] = ()  # warnings, and what to do where there is nothing to show

    def drawn(self, room: int | None = None, paint: Paint = lambda text, _: text) -> Iterator[str]:
        """Yield the lines for a terminal of so many columns; for a pipe without a limit."""
        for number, table in enumerate(table for table in self.tables if table.rows):
            if room is not None and table.title:
                yield from [""] * (number > 0)
                yield paint(fit(clean_line(table.title), room), "bold")
            yield from (line.rstrip() for line in table.lines(room, paint))

    def lines(self, room: int) -> list[str]:
        """Return the lines of a panel of so many columns, with the notes at its end."""
        notes = (line for note in self.notes for line in wrapped(clean_line(note), room))
        return [*self.drawn(room), *notes]
