"""An answer that comes in pieces, of which each block of Markdown can be had when it is whole."""

import re

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")


class Streamed:
    """What has come of a text. Every piece is looked at once, however long a line or block gets."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._last: list[str] = []  # the pieces of the line that isn't whole yet
        self._seen = 0
        self._fence = ""

    @property
    def text(self) -> str:
        """What has come, without the blocks that were taken."""
        return "".join((*self._lines, *self._last))

    def add(self, piece: str) -> None:
        *lines, rest = piece.split("\n")
        if lines:
            lines[0] = "".join((*self._last, lines[0]))
            self._lines += (f"{line}\n" for line in lines)
            self._last = []
        self._last.append(rest)

    def take_blocks(self) -> list[str]:
        """Return the blocks that are whole, and keep what is behind them."""
        blocks: list[str] = []
        begin = 0
        for number in range(self._seen, len(self._lines)):
            line = self._lines[number]
            if mark := _FENCE.match(line):
                if not self._fence:
                    self._fence = mark[1]
                elif mark[1].startswith(self._fence):  # a shorter one is part of the code
                    self._fence = ""
            elif not self._fence and not line.strip():
                blocks.append("".join(self._lines[begin : number + 1]))
                begin = number + 1
        del self._lines[:begin]
        self._seen = len(self._lines)
        return blocks
