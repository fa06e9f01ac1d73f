"""The live view of a run on a terminal: its last steps, the answer as it comes, and where it is."""

import asyncio
import os
import sys
import termios
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.segment import SegmentLines
from rich.text import Text

from outrider.delegation.preparation import Prepared
from outrider.surfaces.cli.views import View
from outrider.surfaces.markdown import Answer
from outrider.surfaces.text import one_line

REFRESH_SECONDS = 0.1
MAX_DRAWN = 4_000
"""How many characters of an unfinished answer are drawn: as many as a screen holds."""
SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
Drawn = tuple[str, str] | SegmentLines
_line = partial(Text, no_wrap=True, overflow="ellipsis")


class Moving:
    """Lines at the bottom of a terminal, drawn anew ten times a second; others go above them.

    `render` returns lines with their styles, or what else can be drawn; it is given a spinner.
    What is typed meanwhile is not shown.
    """

    def __init__(self, file: TextIO, render: Callable[[str], Sequence[Drawn]]) -> None:
        self.console = Console(file=file, highlight=False, emoji=False)
        self._render = render
        self._live: Live | None = None
        self._begun = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._mode: list[Any] | None = None

    def start(self) -> None:
        """Begin to draw."""
        self._begun = time.monotonic()
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
        """Remove the lines."""
        if self._timer is not None:
            self._timer.cancel()
        with suppress(OSError, termios.error):  # a terminal that is gone must not cost the answer
            if self._live is not None:
                self._live.stop()
                self._set_mode(self._mode)

    def say(self, line: str, *, fits: bool) -> None:
        """Print a line above, whole or only what fits."""
        self.console.print((_line if fits else Text)(line, "dim"))

    def _set_mode(self, mode: list[Any] | None) -> None:
        # A job in the background would be stopped for it.
        if mode is not None and os.tcgetpgrp(2) == os.getpgrp():
            termios.tcsetattr(2, termios.TCSANOW, mode)

    def _tick(self) -> None:
        with suppress(OSError):
            if self._live is not None:
                self._live.refresh()
        self._timer = asyncio.get_running_loop().call_later(REFRESH_SECONDS, self._tick)

    def _group(self) -> Group:
        ticks = int((time.monotonic() - self._begun) / REFRESH_SECONDS)
        drawn = self._render(SPINNER[ticks % len(SPINNER)])
        return Group(*(_line(*one) if isinstance(one, tuple) else one for one in drawn))


class LiveView(View):
    """A few moving lines on stderr while the run lasts; they disappear when it ends."""

    def __init__(self) -> None:
        super().__init__()
        self._moving = Moving(sys.stderr, self._render)
        self._drawn = ("", SegmentLines(()))
        self._is_running = False

    def started(self, prepared: Prepared, run_id: str) -> None:
        """Begin to show the run."""
        super().started(prepared, run_id)
        self._is_running = True
        self._moving.start()

    def tell(self, line: str) -> None:
        """Print how the run begins; what comes then is in the moving lines."""
        if not self._is_running:
            super().tell(line)

    def stopping(self) -> None:
        """Show that Ctrl-C has arrived."""
        self._name = "stopping"

    def close(self) -> None:
        """Remove the moving lines."""
        super().close()
        self._moving.stop()

    def _render(self, spinner: str) -> list[Drawn]:
        room = max(self._moving.console.height - 2, 0)
        steps = list(self.steps)[-room:] if room else []
        retry = one_line(self.retry())
        return [
            *((f"  {step}", "dim") for step in steps),
            *([self._answer(left)] if (left := room - len(steps) - 1) > 0 else []),
            *([(retry, "yellow")] if retry else []),
            (f"{spinner} {self.status()}", "bold"),
        ]

    def _answer(self, room: int) -> SegmentLines:
        """Return the last lines of what the model has written so far."""
        if self.text != self._drawn[0]:
            text, start = self.text, max(0, len(self.text) - MAX_DRAWN)
            start = text.find("\n", start) + 1 if start else 0
            fence = "```\n" if text.count("\n```", 0, start) % 2 else ""
            lines = self._moving.console.render_lines(Answer(fence + text[start:]), pad=False)
            self._drawn = text, SegmentLines(lines[-room:], new_lines=True)
        return self._drawn[1] if self.text else SegmentLines(())
