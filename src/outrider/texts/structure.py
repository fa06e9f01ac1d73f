"""The structure of code, JSON and YAML: literals, lists of arguments, braces and indentation."""

import sys
from collections.abc import Iterator

from .spans import LINE_END, compiled

QUOTE = r"(?:\\{0,16}[\"'`])"
"""What opens a literal: a quote, with backslashes before it where it is inside another one."""

_IN_LIST = rf"[,()]|{QUOTE}"
_MAX_LITERAL = 2048
_MAX_DEPTH = 4  # of the calls in a list of arguments

IndentedLine = tuple[int, bool, int, int]
"""The column of a line's content, whether it begins an item, and where it begins and ends."""


def quoted_end(view: str, position: int, opening: str) -> tuple[int, bool]:
    """Return where the literal that `opening` began ends, and whether its quote was found."""
    # A quote with more backslashes before it than the opening one is part of the value; one with
    # fewer ends an outer literal, and so this one too.
    depth, mark = len(opening) - 1, opening[-1]
    limit = min(len(view), position + _MAX_LITERAL)
    line = view.find("\n", position, limit)
    limit = limit if line < 0 else line
    at = view.find(mark, position, limit)
    while at >= 0:
        before = view[max(position, at - 64) : at]
        backslashes = len(before) - len(before.rstrip("\\"))
        if backslashes <= depth:
            return at - backslashes, True
        at = view.find(mark, at + 1, limit)
    return limit, line >= 0


def strings(view: str, first: int, last: int) -> Iterator[tuple[int, int, int]]:
    """Yield where each literal begins and ends, and where the text goes on behind it."""
    quote = compiled(QUOTE).search(view, first, last)
    while quote is not None:
        end, _ = quoted_end(view, quote.end(), quote.group())
        after = end + len(quote.group())
        yield quote.end(), end, after
        quote = compiled(QUOTE).search(view, after, last)


def arguments(view: str, position: int, last: int) -> tuple[dict[int, tuple[int, int]], int]:
    """Return the literals of the list that opens before `position`, by place, and its end."""
    # Nothing after the place `last` is looked at.
    cells: dict[int, tuple[int, int]] = {}
    place = depth = 0
    limit = position + _MAX_LITERAL
    while 0 <= depth < _MAX_DEPTH and place <= last:
        mark = compiled(_IN_LIST).search(view, position, limit)
        if mark is None:
            break
        position = mark.end()
        if mark.group() in "()":
            depth += 1 if mark.group() == "(" else -1
        elif mark.group() == ",":
            place += not depth
        else:
            end, _ = quoted_end(view, position, mark.group())
            cells[place] = (cells[place][0] if place in cells else position, end)
            position = end + len(mark.group())
    return cells, position


def open_brace(view: str, first: int, position: int) -> int | None:
    """Return where the brace stands that is open at `position`."""
    depth = 0
    for brace in reversed(list(compiled(r"[{}]").finditer(view, first, position))):
        depth += 1 if brace.group() == "}" else -1
        if depth < 0:
            return brace.start()
    return None


def closing_brace(view: str, position: int, last: int) -> int:
    """Return where the brace or bracket ends that was opened before `position`."""
    depth = 1
    for brace in compiled(r"[{}\[\]]").finditer(view, position, last):
        depth += 1 if brace.group() in "{[" else -1
        if not depth:
            return brace.end()
    return last


def indented_lines(view: str, first: int, last: int) -> Iterator[IndentedLine]:
    """Yield the lines of YAML; an empty one is part of what is above it."""
    ends = [line_end.span() for line_end in compiled(LINE_END).finditer(view, first, last)]
    for end, below in [*ends, (last, last)]:
        lead = compiled(r"[ \t]*(?P<dash>(?:- +)*)(?=(?P<content>\S)?)").match(view, first, end)
        if lead is not None:
            column = lead.end() - first if lead.group("content") else sys.maxsize
            is_end = view.startswith("---", lead.end())
            yield -1 if is_end else column, bool(lead.group("dash")), lead.end(), end
        first = below
