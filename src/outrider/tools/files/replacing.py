"""Exact replacements in a text: all of them or none, each where it says and nowhere else."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from outrider.protocol.envelope import ToolCode
from outrider.tools.files.faults import FileFault, bad
from outrider.tools.files.nearest import nearest_lines

MAX_PLACES_NAMED = 10


@dataclass(frozen=True, slots=True)
class Replacement:
    """One piece of text to be replaced, where it stands once, or everywhere."""

    old: str
    new: str
    everywhere: bool = False


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of the text by its bounds, what takes its place, and the edit that wants it."""

    start: int
    end: int
    new: str
    edit: int


def replaced(text: str, replacements: Sequence[Replacement], shown: str) -> str:
    """Return `text` with every replacement made against the text as it was; faults if one can't."""
    spans: list[Span] = []
    for number, one in enumerate(replacements, 1):
        _refuse_pointless(one, number)
        spans += _spans(text, one, number, shown)
    spans.sort(key=lambda span: span.start)
    _refuse_overlaps(text, spans)
    return "".join(_pieces(text, spans))


def _refuse_pointless(one: Replacement, number: int) -> None:
    if not one.old:
        raise bad(f"edit {number}: oldText is empty; use write to make or replace a whole file")
    if one.old == one.new:
        raise bad(f"edit {number}: oldText and newText are the same, nothing would change")
    if any("\ud800" <= character <= "\udfff" for character in one.new):
        raise bad(f"edit {number}: newText holds half a surrogate pair, which no file can hold")


def _pieces(text: str, spans: list[Span]) -> Iterator[str]:
    at = 0
    for span in spans:
        yield text[at : span.start]
        yield span.new
        at = span.end
    yield text[at:]


def _spans(text: str, one: Replacement, number: int, shown: str) -> list[Span]:
    pattern = _pattern(one.old)
    found = [match.span() for match in pattern.finditer(text)]
    if not found:
        raise _not_there(text, one, number, shown)
    if not one.everywhere:
        # Places that overlap count too: which of them was meant?
        again = pattern.search(text, found[0][0] + 1)
        if again is not None:
            raise _not_once(text, pattern, number, shown)
    crlf = _mostly_crlf(text)
    return [
        Span(start, end, _ended_alike(text[start:end], one.new, crlf), number)
        for start, end in found
    ]


def _pattern(old: str) -> re.Pattern[str]:
    """Return a pattern for exactly this text, whichever of the two line endings it has."""
    lines = old.replace("\r\n", "\n").split("\n")
    return re.compile(r"\r?\n".join(map(re.escape, lines)))


def _mostly_crlf(text: str) -> bool:
    return 2 * text.count("\r\n") > text.count("\n")


def _ended_alike(old: str, new: str, crlf: bool) -> str:
    """Return the new text with the line endings of what it replaces, or else of the file."""
    plain = new.replace("\r\n", "\n")
    if "\n" in old:
        crlf = "\r\n" in old
    return plain.replace("\n", "\r\n") if crlf else plain


def _refuse_overlaps(text: str, spans: list[Span]) -> None:
    for one, next_one in pairwise(spans):
        if next_one.start < one.end:
            raise FileFault(
                ToolCode.CONFLICT,
                f"edits {one.edit} and {next_one.edit} overlap at line "
                f"{line_at(text, next_one.start)}: make one edit of them. Nothing was changed",
            )


def _not_there(text: str, one: Replacement, number: int, shown: str) -> FileFault:
    near = nearest_lines(text, one.old)
    return FileFault(
        ToolCode.CONFLICT,
        f"edit {number}: oldText is not in {shown}, nothing was changed. {near}",
    )


def _not_once(text: str, pattern: re.Pattern[str], number: int, shown: str) -> FileFault:
    places = [line_at(text, match.start()) for match in pattern.finditer(text)]
    lines = ", ".join(map(str, places[:MAX_PLACES_NAMED]))
    more = f" and {len(places) - MAX_PLACES_NAMED} more" if len(places) > MAX_PLACES_NAMED else ""
    return FileFault(
        ToolCode.CONFLICT,
        f"edit {number}: oldText is in {shown} more than once (from lines {lines}{more}), nothing "
        "was changed. Add lines around it until it is unique, or set all",
    )


def line_at(text: str, position: int) -> int:
    """Return the number of the line that a position is in."""
    return text.count("\n", 0, position) + 1
