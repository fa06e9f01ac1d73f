"""What the tools have shown so far: lines of files with their numbers, parsed from their text.

The only module that knows how `grep`, `read` and `find` write their results. It skips what it
can't parse; a file's content can add lines to quote, and nothing else.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

_MAX_LINE = 400

_NUMBERED = re.compile(r" *(?P<line>\d{1,9})(?:\t|: ?| ?[|│→] ?)(?P<text>.*)")
_TOTAL = re.compile(r"\[[\d,]+ of (?:more than )?([\d,]+) matching lines")
_FAULT = re.compile(r"Error \d{4} \(.*")
_NOTE = re.compile(r"\[.*\]|\?:.*|--|No matches\.|No files match\.|Error \d+ \(.*")


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call, to make or made, with the text that came back."""

    name: str
    arguments: Mapping[str, Any]
    text: str = field(default="", repr=False)


@dataclass(slots=True)
class Evidence:
    """Everything seen: lines by file, file names, hits by pattern, and the faults of searches."""

    lines: dict[str, dict[int, str]] = field(default_factory=dict[str, dict[int, str]])
    files: list[str] = field(default_factory=list[str])
    hits: dict[str, int] = field(default_factory=dict[str, int])
    read: dict[str, list[tuple[int, int]]] = field(default_factory=dict[str, list[tuple[int, int]]])
    listing: list[str] = field(default_factory=list[str])
    faults: dict[str, str] = field(default_factory=dict[str, str])


def collect(calls: Iterable[Call]) -> Evidence:
    """Return what all of the calls have shown."""
    evidence = Evidence()
    for call in calls:
        rows = [row.rstrip() for row in call.text.split("\n")]
        entries = [row for row in rows if row and not _NOTE.fullmatch(row.strip())]
        if call.name == "grep":
            _take_hits(evidence, call)
        elif call.name == "read":
            _take_window(evidence, call)
        elif call.name == "find":
            evidence.files += [path for path in entries if path not in evidence.files]
        elif call.name == "ls":
            evidence.listing += entries
    return evidence


def _take_hits(evidence: Evidence, call: Call) -> None:
    """Parse paths, each with rows of `line: text` below it."""
    pattern, heading, count = str(call.arguments.get("pattern", "")), "", 0
    for row in call.text.split("\n"):
        if heading and _take_line(evidence, heading, row) is not None:
            count += 1
        elif total := _TOTAL.match(row):
            count = max(count, int(total[1].replace(",", "")))
        elif row.strip() and not _NOTE.fullmatch(row.strip()):
            heading = _plain(row)
    # A file may be named like an error, but then it has lines.
    if count == 0 and (fault := _FAULT.match(call.text)):
        evidence.faults[pattern] = fault.group()
        return
    evidence.hits[pattern] = max(count, evidence.hits.get(pattern, 0))


def _take_window(evidence: Evidence, call: Call) -> None:
    path = _plain(str(call.arguments.get("path", "")))
    taken = [_take_line(evidence, path, row) for row in call.text.split("\n")]
    if numbers := [number for number in taken if number is not None]:
        evidence.read.setdefault(path, []).append((numbers[0], numbers[-1]))


def _take_line(evidence: Evidence, path: str, row: str) -> int | None:
    """Keep the line that a row shows, and return its number."""
    if (shown := _NUMBERED.fullmatch(row)) is None:
        return None
    number = int(shown["line"])
    evidence.lines.setdefault(path, {})[number] = shown["text"][:_MAX_LINE]
    return number


def _plain(path: str) -> str:
    return path.strip().removeprefix("./")
