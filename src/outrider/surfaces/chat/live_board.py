"""The board on a terminal: Markdown as it comes, and a moving row for each agent at work."""

import asyncio
import re
import sys
import termios
from contextlib import suppress
from functools import partial
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.markdown import Markdown
from rich.text import Text

from outrider.surfaces.chat.board import Board
from outrider.surfaces.text import one_line

REFRESH_SECONDS = 0.1
MAX_TAIL_LINES = 6
SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_FENCE = re.compile(r"^ {0,3}(?:```|~~~)", re.MULTILINE)
_line = partial(Text, no_wrap=True, overflow="ellipsis")


class LiveBoard(Board):
    """Whole blocks of the answer stay on the screen; what moves is below them."""

    moves = True

    def __init__(self, *, shows_answer: bool) -> None:
        super().__init__(shows_answer=shows_answer)
        file = sys.stdout if shows_answer else sys.stderr
        self._console = Console(file=file, highlight=False, emoji=False)
        self._tail = ""
        self._ticks = 0
        self._timer: asyncio.TimerHandle | None = None
        self._live: Live | None = None
        self._mode: list[Any] | None = None

    def resume(self) -> None:
        """Show what moves; what is typed meanwhile is for the next prompt."""
        with suppress(termios.error):
            self._mode = termios.tcgetattr(0)
            quiet = [*self._mode[:3], self._mode[3] & ~termios.ECHO, *self._mode[4:]]
            termios.tcsetattr(0, termios.TCSANOW, quiet)
        self._live = Live(
            console=self._console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
            get_renderable=self._render,
        )
        self._live.start()
        self._tick()

    def pause(self) -> None:
        """Remove what moves."""
        with suppress(OSError, termios.error):  # a terminal that is gone must not cost the answer
            if self._timer is not None:
                self._timer.cancel()
            if self._live is not None:
                self._live.stop()
            if self._mode is not None:
                termios.tcsetattr(0, termios.TCSANOW, self._mode)

    def say(self, line: str, *, fits: bool = False) -> None:
        """Show a line of ours above what moves."""
        self._console.print((_line if fits else Text)(one_line(line), "dim"))

    def write(self, text: str) -> None:
        """Show a piece of the answer: as it is, until its block of Markdown is whole."""
        self._tail += text
        while "\n" in text and (end := _block_end(self._tail)):
            block, self._tail = self._tail[:end], self._tail[end:]
            self._print(block)

    def end_message(self) -> None:
        """Show the rest of a message."""
        block, self._tail = self._tail, ""
        self._print(block)

    def _print(self, block: str) -> None:
        if block.strip():
            self._console.print(Markdown(block, hyperlinks=False))
            self._console.print()

    def _tick(self) -> None:
        self._ticks += 1
        with suppress(OSError):
            if self._live is not None:
                self._live.refresh()
        self._timer = asyncio.get_running_loop().call_later(REFRESH_SECONDS, self._tick)

    def _render(self) -> Group:
        spinner = SPINNER[self._ticks % len(SPINNER)]
        rows = [*(row for key, row in self.rows.items() if key), self.rows[""]]
        shown = (_line(f"{spinner} {row.line()}", "bold") for row in rows)
        return Group(*map(_line, self._tail.splitlines()[-MAX_TAIL_LINES:]), *shown)


def _block_end(text: str) -> int:
    """Return where the first whole block of Markdown ends; 0 where none does yet."""
    at = text.find("\n\n")
    while at >= 0 and len(_FENCE.findall(text, 0, at)) % 2:
        at = text.find("\n\n", at + 2)
    return at + 2 if at >= 0 else 0
