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
    """One tool call, to make or made."""

    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Exchange:
    """A tool call and the text that came back."""

    call: Call
    text: str


@dataclass(slots=True)
class Evidence:
    """Everything seen: lines by file, file names, hits by pattern, and the faults of searches."""

    lines: dict[str, dict[int, str]] = field(default_factory=dict[str, dict[int, str]])
    files: list[str] = field(default_factory=list[str])
    hits: dict[str, int] = field(default_factory=dict[str, int])
    read: dict[str, list[tuple[int, int]]] = field(default_factory=dict[str, list[tuple[int, int]]])
    listing: list[str] = field(default_factory=list[str])
    faults: dict[str, str] = field(default_factory=dict[str, str])


def collect(exchanges: Iterable[Exchange]) -> Evidence:
    """Return what all of the exchanges have shown."""
    evidence = Evidence()
    for exchange in exchanges:
        name = exchange.call.name
        if name == "grep":
            _take_hits(evidence, exchange)
        elif name == "read":
            _take_window(evidence, exchange)
        elif name == "find":
            found = _entries(exchange.text)
            evidence.files += [path for path in found if path not in evidence.files]
        elif name == "ls":
            evidence.listing += _entries(exchange.text)
    return evidence


def _take_hits(evidence: Evidence, exchange: Exchange) -> None:
    """Parse paths, each with rows of `line: text` below it."""
    pattern, heading, count = str(exchange.call.arguments.get("pattern", "")), "", 0
    for row in exchange.text.split("\n"):
        if heading and (numbered := _NUMBERED.fullmatch(row)):
            lines = evidence.lines.setdefault(heading, {})
            lines[int(numbered["line"])] = numbered["text"][:_MAX_LINE]
            count += 1
        elif total := _TOTAL.match(row):
            count = max(count, int(total[1].replace(",", "")))
        elif row.strip() and not _NOTE.fullmatch(row.strip()):
            heading = _plain(row)
    # A file may be named like an error, but then it has lines.
    if count == 0 and (fault := _FAULT.match(exchange.text)):
        evidence.faults[pattern] = fault.group()
        return
    evidence.hits[pattern] = max(count, evidence.hits.get(pattern, 0))


def _take_window(evidence: Evidence, exchange: Exchange) -> None:
    path = _plain(str(exchange.call.arguments.get("path", "")))
    numbers: list[int] = []
    for row in exchange.text.split("\n"):
        if numbered := _NUMBERED.fullmatch(row):
            numbers.append(int(numbered["line"]))
            lines = evidence.lines.setdefault(path, {})
            lines[numbers[-1]] = numbered["text"][:_MAX_LINE]
    if numbers:
        evidence.read.setdefault(path, []).append((numbers[0], numbers[-1]))


def _entries(text: str) -> list[str]:
    rows = [row.rstrip() for row in text.split("\n")]
    return [row for row in rows if row and not _NOTE.fullmatch(row.strip())]


def _plain(path: str) -> str:
    return path.strip().removeprefix("./")
