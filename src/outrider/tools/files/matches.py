"""What ripgrep finds, kept in order and bounded while it arrives.

ripgrep searches files in parallel and reports them as they finish. The first files by path are
kept, all others only counted, so that the answer is the same each time and memory is bounded.
"""

import base64
import bisect
import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from outrider.masking import Masker

MAX_LINE_CHARACTERS = 500
MAX_RECORD_BYTES = 1024 * 1024
_BEFORE_MATCH = 100
# How much of a long line is looked at for secrets, before and after what is shown of it.
_AROUND_MATCH = 16 * 1024
_BEGIN, _MATCH, _CONTEXT = b'{"type":"begin"', b'{"type":"match"', b'{"type":"context"'
# Quotes within a string are escaped: only ripgrep itself can have written this.
_LINE_NUMBER = re.compile(rb'"line_number":(\d+),"absolute_offset":\d+,"submatches":')


@dataclass(slots=True)
class FoundLine:
    """A line that matched, or that is near one that did."""

    number: int | None
    text: str
    is_match: bool


@dataclass(slots=True)
class FoundFile:
    """The lines of one file that were kept; `matches` counts all that matched."""

    path: str
    lines: list[FoundLine] = field(default_factory=list[FoundLine])
    matches: int = 0
    held: int = 0
    """How much of the limit it takes: its matches that are kept, or one for the file."""


@dataclass(slots=True)
class Matches:
    """Takes ripgrep's JSON records and keeps the first ones by path.

    Kept are `limit` matches with their lines; or, without lines, `limit` files with their counts.
    """

    limit: int
    with_lines: bool = True
    mask: Masker | None = None
    wanted: Callable[[str], bool] = lambda path: True
    """Whether a file, by its path below the searched folder, belongs in the answer."""
    total: int = 0
    files: int = 0
    complete: bool = False
    """Whether ripgrep said that it was done."""
    kept: list[FoundFile] = field(default_factory=list[FoundFile])
    """In the order of their paths."""
    _held: int = 0
    _current: FoundFile | None = None
    _counted: bool = False

    def feed(self, record: bytes) -> None:
        """Take one record, without its newline."""
        if record.startswith(_MATCH):
            self._take_match(record)
        elif record.startswith(_CONTEXT):
            if self._current is not None and self._current.matches < self.limit:
                self._current.lines.append(_line(record, self.mask, is_match=False))
        elif record.startswith(_BEGIN):
            self._begin(os.fsdecode(_bytes(_data(record)["path"])).removeprefix("./"))
        elif b'"type":"summary"' in record:
            self.complete = True

    def _begin(self, path: str) -> None:
        self._counted = self.wanted(path)
        self.files += self._counted
        self._current = None
        if self._counted and (self._held < self.limit or path < self.kept[-1].path):
            self._current = FoundFile(path)
            bisect.insort(self.kept, self._current, key=lambda found: found.path)
            if not self.with_lines:
                self._hold_one_more(self._current)

    def _take_match(self, record: bytes) -> None:
        self.total += self._counted
        current = self._current
        if current is None:
            return
        current.matches += 1
        if self.with_lines and current.held < self.limit:
            current.lines.append(_line(record, self.mask, is_match=True))
            self._hold_one_more(current)

    def _hold_one_more(self, current: FoundFile) -> None:
        current.held += 1
        self._held += 1
        # The last files are dropped as soon as those before them fill the limit.
        while (last := self.kept[-1]) is not current and self._held - last.held >= self.limit:
            self._held -= self.kept.pop().held


def json_lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines of a stream; of a line that is too long only the two ends are kept."""
    rest = b""
    for chunk in chunks:
        *complete, last = chunk.split(b"\n")
        if complete:
            yield rest + complete[0]
            yield from complete[1:]
            rest = last
        else:
            rest = _ends(rest + last)


def _ends(record: bytes) -> bytes:
    if len(record) <= 2 * MAX_RECORD_BYTES:
        return record
    half = MAX_RECORD_BYTES // 2
    # The newline makes it invalid JSON, so that it is never taken for a whole record.
    return record[:half] + b"\n" + record[-half:]


def _data(record: bytes) -> Any:
    import orjson

    return orjson.loads(record)["data"]


def _bytes(value: Any) -> bytes:
    return value["text"].encode() if "text" in value else base64.b64decode(value["bytes"])


def _line(record: bytes, mask: Masker | None, *, is_match: bool) -> FoundLine:
    try:
        data = _data(record)
    except ValueError:  # a line too long, of which only the ends are left
        numbers = _LINE_NUMBER.findall(record)
        number = int(numbers[-1]) if numbers else None
        return FoundLine(number, "[a line too long to show]", is_match)
    raw = _bytes(data["lines"]).rstrip(b"\r\n")
    start = data["submatches"][0]["start"] if data["submatches"] else 0
    return FoundLine(data["line_number"], _shown_line(raw, start, mask), is_match)


def _shown_line(raw: bytes, start: int, mask: Masker | None) -> str:
    """Return a line as text, cut around its match at byte `start` where it is long."""
    text = raw.decode(errors="replace")
    length = len(text)
    if length <= MAX_LINE_CHARACTERS:
        return text
    at = len(raw[:start].decode(errors="replace"))
    if mask is not None:
        # Before it is cut: what identifies a secret may be far from the match.
        near = max(0, at - _AROUND_MATCH)
        text, at = mask.text(text[near : at + _AROUND_MATCH]), len(mask.text(text[near:at]))
    first = max(0, at - _BEFORE_MATCH)
    last = first + MAX_LINE_CHARACTERS
    ends = "…" if first else "", "…" if last < len(text) else ""
    return f"{ends[0]}{text[first:last]}{ends[1]} [cut: {length:,} characters]"
