"""A report is data first; a table, the lines of a panel and JSON are three forms of it.

Rows may have what files, models and runs say: every cell is cleaned when it is drawn.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from outrider.surfaces.table import Paint, Piece, Table
from outrider.surfaces.text import as_text, clean_line, fit, wrapped

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its heading, and what it shows of a row."""

    heading: str = ""
    entry: str | Callable[[Row], Any] = ""
    """The name of a row's entry, if it isn't the heading, or a function; a list gives lines."""
    colour: str | Callable[[Row], str | None] | None = None
    form: Callable[[Any], str] = as_text
    optional: bool = False
    """Left out where there is little room, the last one first."""

    def cell(self, row: Row) -> list[Piece]:
        """Return the lines for a row; the first one is in the column's colour."""
        found = self.entry(row) if callable(self.entry) else row.get(self.entry or self.heading)
        said = cast("list[Any]", found if isinstance(found, list) else [found])
        texts = ["" if one is None else clean_line(self.form(one)) for one in said]
        colour = self.colour(row) if callable(self.colour) else self.colour
        return [(text, "dim" if number else colour) for number, text in enumerate(texts or [""])]


@dataclass(frozen=True, slots=True)
class Section:
    """Rows of one kind."""

    columns: tuple[Column, ...]
    rows: Sequence[Row]
    title: str = ""
    wraps: bool = False
    """Whether the last column goes on in further lines where the room ends; else it is cut."""

    def lines(self, room: int | None, paint: Paint) -> Iterator[str]:
        """Return the rows for so many columns; without a limit they are whole, and no headings."""
        spare = [number for number, column in enumerate(self.columns) if column.optional]
        rows = [[column.cell(row) for column in self.columns] for row in self.rows]
        headings = [column.heading for column in self.columns]
        return Table(headings, rows, spare, self.wraps).lines(room, paint)


@dataclass(frozen=True, slots=True)
class Report:
    """What was found: data for programs, and the sections of it that people see."""

    data: Mapping[str, Any]
    sections: tuple[Section, ...] = ()
    notes: tuple[str, ...] = ()
    """What has to be said beside it: warnings, and what to do where there is nothing to show."""

    def table(self, room: int | None = None, paint: Paint = lambda text, _: text) -> Iterator[str]:
        """Yield the lines for a terminal of so many columns; for a pipe without a limit."""
        for number, section in enumerate(section for section in self.sections if section.rows):
            if room is not None and section.title:
                yield from [""] * (number > 0)
                yield paint(fit(clean_line(section.title), room), "bold")
            yield from (line.rstrip() for line in section.lines(room, paint))

    def lines(self, room: int) -> list[str]:
        """Return the lines of a panel of so many columns, with the notes at its end."""
        notes = (line for note in self.notes for line in wrapped(clean_line(note), room))
        return [*self.table(room), *notes]
