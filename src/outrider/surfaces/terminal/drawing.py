"""What is drawn on a terminal: answers, and what moves at its bottom while agents are at work."""

import asyncio
import os
import termios
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TextIO

from markdown_it import MarkdownIt
from rich.cells import cell_len
from rich.console import Console, Group
from rich.control import Control
from rich.live import Live
from rich.markdown import Markdown
from rich.segment import ControlType, Segment, SegmentLines
from rich.text import Text

from outrider.surfaces.text import clean

REFRESH_SECONDS = 0.1
MAX_DRAWN = 4_000  # characters of an unfinished answer: as many as a screen holds
SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
Drawn = tuple[str, str] | SegmentLines
# What doesn't break lines anew on a resize cuts them off; then nothing has to be done.
_REFLOWS = "XTERM_VERSION" not in os.environ or "TMUX" in os.environ
_line = partial(Text, no_wrap=True, overflow="ellipsis")
# What looks like HTML is text: it is code more often, and would be missing from the answer.
_PARSER = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"])


class Answer(Markdown):
    """A text as Markdown to draw. It can't control the terminal, and hides no link and no HTML."""

    def __init__(self, text: str) -> None:
        super().__init__("", hyperlinks=False, justify="default")
        self.parsed = _PARSER.parse(clean(text))


def console(file: TextIO) -> Console:
    """Return what draws on a terminal, wrapped to its width."""
    return Console(file=file, highlight=False, emoji=False)


class Moving:
    """Lines at the bottom of a terminal, drawn ten times a second; typed text isn't shown."""

    def __init__(self, file: TextIO, render: Callable[[str], Sequence[Drawn]]) -> None:
        self.console = console(file)
        self._render = render
        self._live: Live | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._mode: list[Any] | None = None
        self._answered = ("", 0, SegmentLines(()))
        self._width, self._sizes = 0, list[int]()

    def start(self) -> None:
        with suppress(OSError, termios.error):
            self._mode = mode = termios.tcgetattr(2)
            self._set_mode([*mode[:3], mode[3] & ~termios.ECHO, *mode[4:]])
        self._live = Live(
            console=self.console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
            get_renderable=self._group,
        )
        self._live.start()
        self._tick()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        with suppress(OSError, termios.error):  # a terminal that is gone must not cost the answer
            if self._live is not None:
                self._refit()
                self._live.stop()
                self._set_mode(self._mode)
        self._live = None

    def answer(self, text: str, room: int) -> SegmentLines:
        """Return the last lines of an answer that is still being written, drawn as Markdown."""
        if (text, room) != self._answered[:2]:
            start = max(0, len(text) - MAX_DRAWN)
            start = text.find("\n", start) + 1 if start else 0
            fence = "```\n" if text.count("\n```", 0, start) % 2 else ""
            lines = self.console.render_lines(Answer(fence + text[start:]), pad=False)[-room:]
            self._answered = text, room, SegmentLines(lines if text else (), new_lines=True)
        return self._answered[2]

    def say(self, line: str, *, fits: bool) -> None:
        """Print a line above, whole or only what fits."""
        with suppress(OSError):
            self._refit()
            self.console.print((_line if fits else Text)(line, "dim"))

    def show_markdown(self, block: str) -> None:
        with suppress(OSError):
            if block.strip():
                self._refit()
                self.console.print(Answer(block), "")

    def _set_mode(self, mode: list[Any] | None) -> None:
        # A job in the background would be stopped for it.
        if mode is not None and os.tcgetpgrp(2) == os.getpgrp():
            termios.tcsetattr(2, termios.TCSANOW, mode)

    def _tick(self) -> None:
        with suppress(OSError):
            if self._live is not None:
                self._refit()
                self._live.refresh()
        self._timer = asyncio.get_running_loop().call_later(REFRESH_SECONDS, self._tick)

    def _group(self) -> Group:
        drawn = self._render(SPINNER[int(time.monotonic() / REFRESH_SECONDS) % len(SPINNER)])
        self._width = self.console.width
        self._sizes = [min(size, self._width) for one in drawn for size in _sizes(one)]
        return Group(*(_line(*one) if isinstance(one, tuple) else one for one in drawn))

    def _refit(self) -> None:
        """Remove all of our lines if the terminal is narrower now: it has broken them into more."""
        width = self.console.width
        if self._live is not None and width < self._width and _REFLOWS:
            more = sum(max(0, size - 1) // width for size in self._sizes)
            up = (ControlType.ERASE_IN_LINE, 2), (ControlType.CURSOR_UP, 1)
            self.console.control(Control(*up * more))
            self._live.refresh()


def _sizes(drawn: Drawn) -> list[int]:
    """Return how many columns each line takes."""
    if isinstance(drawn, tuple):
        return [cell_len(drawn[0])]
    return [Segment.get_line_length(line) for line in drawn.lines]
