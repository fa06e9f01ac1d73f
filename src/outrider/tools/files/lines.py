"""A window of lines out of a text of any length, in memory that doesn't grow with the text."""

from dataclasses import dataclass, field

from outrider.masking import Masker

MAX_LINE_CHARACTERS = 2_000
# How far above what is shown a secret may have begun: the largest private keys have 200 lines.
_LINES_ABOVE = 250
# What a line number and its separators take.
_BYTES_AROUND_LINE = 8


@dataclass(slots=True)
class LineWindow:
    """Takes a text piece by piece and keeps the lines from `first` on, as many as fit.

    Only a newline ends a line; a carriage return before it is dropped.
    """

    first: int
    max_lines: int
    max_bytes: int
    lines: list[str] = field(default_factory=list[str])
    cut: dict[int, int] = field(default_factory=dict[int, int])
    """By line number: how many characters a line has that was cut."""
    more: bool = False
    """Whether there is text after the window."""
    _newlines: int = 0
    _open: bool = False
    """Whether the text so far ends within a line."""
    _kept: list[str] = field(default_factory=list[str])
    _length: int = 0
    _bytes: int = 0

    @property
    def full(self) -> bool:
        """Whether there is no room for another line."""
        return len(self.lines) >= self.max_lines or self._bytes >= self.max_bytes

    @property
    def total(self) -> int:
        """How many lines the text fed so far has."""
        return self._newlines + self._open

    def feed(self, text: str) -> None:
        """Take the next piece of the text."""
        if not text:
            return
        self._open = not text.endswith("\n")
        start = self._skip(text)
        while start < len(text):
            if self.full:
                self.more = True
                self._newlines += text.count("\n", start)
                return
            end = text.find("\n", start)
            self._keep(text, start, len(text) if end < 0 else end)
            if end < 0:
                return
            self._newlines += 1
            self._end_line()
            start = end + 1

    def finish(self) -> None:
        """Take the end of the text: a last line needs no newline."""
        if self._length and not self.full:
            self._end_line()

    def _skip(self, text: str) -> int:
        """Return where in `text` the window starts, or its length where that is further on."""
        wanted = self.first - 1 - self._newlines
        if wanted <= 0:
            return 0
        found = text.count("\n")
        self._newlines += min(found, wanted)
        return len(text) if found < wanted else len(text) - len(text.split("\n", wanted)[-1])

    def _keep(self, text: str, start: int, end: int) -> None:
        room = MAX_LINE_CHARACTERS - self._length
        if room > 0:
            self._kept.append(text[start : min(end, start + room)])
        self._length += end - start

    def _end_line(self) -> None:
        line = "".join(self._kept)
        if self._length > MAX_LINE_CHARACTERS:
            self.cut[self.first + len(self.lines)] = self._length
        else:
            line = line.removesuffix("\r")
        self.lines.append(line)
        self._bytes += len(line.encode(errors="replace")) + _BYTES_AROUND_LINE
        self._kept.clear()
        self._length = 0


@dataclass(frozen=True, slots=True)
class Windows:
    """The lines to show, and those above them that tell whether they are part of a secret."""

    shown: LineWindow
    above: LineWindow | None
    mask: Masker | None

    @classmethod
    def of(cls, first: int, max_lines: int, max_bytes: int, mask: Masker | None) -> "Windows":
        """Return the windows for lines from `first` on."""
        shown = LineWindow(first, max_lines, max_bytes)
        if mask is None:
            return cls(shown, None, None)
        start = max(1, first - _LINES_ABOVE)
        room = _LINES_ABOVE * 8 * MAX_LINE_CHARACTERS
        return cls(shown, LineWindow(start, first - start, room), mask)

    def feed(self, text: str) -> None:
        """Take the next piece of the text."""
        self.shown.feed(text)
        if self.above is not None:
            self.above.feed(text)

    def finish(self) -> None:
        """Take the end of the text, and hide the secrets."""
        self.shown.finish()
        above = [] if self.above is None else self.above.lines
        if self.mask is not None:
            self.shown.lines = self.mask.lines([*above, *self.shown.lines])[len(above) :]
