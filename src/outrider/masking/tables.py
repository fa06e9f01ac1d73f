"""Columns of secrets: a heading that promises one makes the cells below it values.

In Markdown a line of dashes follows the header; in CSV and TSV the header has only names, and is
the first of some lines with equally many cells. A table ends with the first line that doesn't
fit, so no line is read as part of two tables.
"""

from outrider.texts.spans import LINE_END, Findings, compiled
from outrider.texts.structure import arguments

from .names import Promise, promise_of
from .values import Style, is_literal_secret

_MAX_LINE = 2000
_MAX_BEFORE = 160  # of a header before the heading: what a stream still has of its line

_DELIMITER = r"[,;|\t]|\\{1,8}t"
_RULE = r"[ \t]*+[|+]?[ \t]*+:?--[ \t:|+-]*+"
_HEADING = r"[A-Za-z][\w .:/()-]{0,48}"
_EDGE = " \t*`\"'\\"

Cells = list[tuple[int, int]]  # where each content begins and ends, without quotes and emphasis


def find_columns(found: Findings, start: int, end: int) -> bool:
    """Mask the columns of the table that has a heading from `start` to `end`, if there is one."""
    first = max(0, start - _MAX_BEFORE)
    ends = [line_end.end() for line_end in compiled(LINE_END).finditer(found.view, first, start)]
    if not ends and (first or not found.is_start):
        return False
    first = ends[-1] if ends else 0
    if first not in found.tables:
        found.tables[first] = _found_table(found, first, end)
    return bool(found.tables[first])


def find_inserted(found: Findings, start: int, end: int) -> None:
    """Mask the columns of `INSERT … (names) VALUES (…), …` and of `COPY … (names) FROM stdin`."""
    # The names are around `start`, the rows begin at `end`.
    view = found.view
    first = view.rfind("(", max(0, start - _MAX_LINE), start)
    names = view[first + 1 : view.find(")", start)].split(",")
    columns = {place: promise for place, name in enumerate(names) if (promise := promise_of(name))}
    if first < 0 or first in found.tables:
        return
    found.tables[first] = rows = [first, end]
    if found.folded.endswith("stdin", first, end):
        rows[1] = _line_end(view, end)[1]
        _find_cells(found, rows, "\t", len(names), columns)
        return
    while row := compiled(r"(?>(?:[\s,]|\\{1,8}[nrt])*)\(").match(view, rows[-1]):
        cells, after = arguments(view, row.end(), len(names))
        found.leave(row.start(), after + 1)
        for place, promise in columns.items():
            if place in cells:
                _judge_cell(found, promise, *cells[place])
        rows.append(after)


def _line_end(view: str, position: int) -> tuple[int, int]:
    match = compiled(LINE_END).search(view, position, position + _MAX_LINE)
    last = min(len(view), position + _MAX_LINE)
    return match.span() if match else (last, last)


def _found_table(found: Findings, first: int, position: int) -> list[int]:
    """Mask the columns of the table whose header is the line from `first` on; return its rows."""
    view = found.view
    end, below = _line_end(view, position)
    found.leave(first, below)
    mark = compiled(_DELIMITER).search(view, first, end)
    delimiter = mark.group() if mark else ""
    if delimiter == "|":
        last, after = _line_end(view, below)
        found.leave(first, after)
        if not compiled(_RULE).fullmatch(view, below, last):
            return []
        below = after
    elif not delimiter or delimiter + " " in view[first:end]:
        return []  # a list in code or prose
    cells = _cells(view, first, end, delimiter)
    if delimiter != "|":  # a header has only names, and isn't a row itself
        above = view[max(0, first - _MAX_LINE) : first].splitlines()[-1:] or [""]
        names = all(compiled(_HEADING).fullmatch(view, *cell) for cell in cells)
        if not names or delimiter in above[0]:
            return []
    promises = [promise_of(view[start:stop]) for start, stop in cells]
    columns = {index: promise for index, promise in enumerate(promises) if promise}
    rows = [first, below]
    _find_cells(found, rows, delimiter, len(cells), columns)
    return rows


def _cells(view: str, first: int, end: int, delimiter: str) -> Cells:
    """Return the cells of a line; a delimiter in quotes doesn't divide."""
    parts: list[str] = []
    for part in view[first:end].split(delimiter):
        if parts and parts[-1].lstrip(_EDGE[:2]).count('"') % 2 and len(parts[-1]) < 512:
            parts[-1] += delimiter + part
        else:
            parts.append(part)
    cells: Cells = []
    for part in parts:
        start = first + len(part) - len(part.lstrip(_EDGE))
        cells.append((start, max(start, first + len(part.rstrip(_EDGE)))))
        first += len(part) + len(delimiter)
    return cells


def _find_cells(
    found: Findings, rows: list[int], delimiter: str, width: int, columns: dict[int, Promise]
) -> None:
    """Mask the cells in these columns of the rows that fit; `rows` has where they begin."""
    view = found.view
    while rows[-1] < len(view):
        end, below = _line_end(view, rows[-1])
        cells = _cells(view, rows[-1], end, delimiter)
        found.leave(rows[-1], below)
        if delimiter == "|":
            under = _line_end(view, below)
            found.leave(rows[-1], under[1])
            is_header = view[below : below + 1] != "+"  # else the table's lower edge
            is_header = is_header and compiled(_RULE).fullmatch(view, below, under[0]) is not None
            fits = len(cells) > 1 and not is_header
        else:
            fits = len(cells) == width
        if below - rows[-1] >= _MAX_LINE or not (fits or end == len(view)):
            return
        for index, promise in columns.items() if fits else ():
            _judge_cell(found, promise, *cells[min(index, len(cells) - 1)])
        rows.append(below)


def _judge_cell(found: Findings, promise: Promise, start: int, end: int) -> None:
    # "Secret" heads a column of names as often as one of values.
    promise = promise if promise is Promise.PASSWORD else min(promise, Promise.TOKEN)
    quote = compiled(r"[\"`]").search(found.view, start, end)
    end = quote.start() if quote else end
    if is_literal_secret(promise, found.text[start:end], Style.QUOTED):
        found.mask(start, end, "secret")
