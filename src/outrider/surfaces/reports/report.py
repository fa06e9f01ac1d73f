"""A report is data first; a table, the lines of a panel and JSON are three forms of it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from outrider.surfaces.table import Paint, Table
from outrider.surfaces.text import clean_line, fit, wrapped


@dataclass(frozen=True, slots=True)
class Report:
    """What was found: data for programs, and the tables that people see of it."""

    data: Mapping[str, Any]
    tables: tuple[Table, ...] = ()
    notes: tuple[str, ...] = ()
    """What has to be said beside it: warnings, and what to do where there is nothing to show."""

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
