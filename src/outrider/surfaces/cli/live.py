"""The live view of a run on a terminal: its last steps, turns, tool calls, tokens and time."""

import asyncio
import sys
import termios
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from outrider.delegation.preparation import Prepared
from outrider.protocol.results import Streaming, ToolResult
from outrider.surfaces.cli.views import View, call_line, spent
from outrider.surfaces.text import count, one_line

REFRESH_SECONDS = 0.1
MAX_STEPS = 5
MAX_TEXT = 2_000
SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_line = partial(Text, no_wrap=True, overflow="ellipsis")


class Moving:
    """Lines at the bottom of a terminal, drawn anew ten times a second; others go above them.

    `render` returns the lines with their styles; it is given a spinner.
    """

    def __init__(self, file: TextIO, render: Callable[[str], list[tuple[str, str]]]) -> None:
        self.console = Console(file=file, highlight=False, emoji=False)
        self._render = render
        self._live: Live | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._mode: list[Any] | None = None
        self._begun = time.monotonic()

    def start(self) -> None:
        """Begin to draw; what is typed meanwhile isn't shown among the lines."""
        with suppress(termios.error):
            self._mode = termios.tcgetattr(0)
            quiet = [*self._mode[:3], self._mode[3] & ~termios.ECHO, *self._mode[4:]]
            termios.tcsetattr(0, termios.TCSANOW, quiet)
        self._live = Live(
            console=self.console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
            get_renderable=self._group,
        )
        self._begun = time.monotonic()
        self._live.start()
        self._tick()

    def stop(self) -> None:
        """Remove the lines."""
        if self._timer is not None:
            self._timer.cancel()
        with suppress(OSError):  # a terminal that is gone must not cost the answer
            if self._live is not None:
                self._live.stop()
        if self._mode is not None:
            with suppress(termios.error):
                termios.tcsetattr(0, termios.TCSANOW, self._mode)

    def say(self, line: str, *, fits: bool) -> None:
        """Print a line above, whole or only what fits."""
        self.console.print((_line if fits else Text)(line, "dim"))

    def show_markdown(self, block: str) -> None:
        """Print Markdown above. What looks like HTML is text: it is code more often."""
        from markdown_it import MarkdownIt
        from rich.markdown import Markdown

        shown = Markdown("", hyperlinks=False)
        parser = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"])
        shown.parsed = parser.parse(block)
        self.console.print(shown, "")

    def _tick(self) -> None:
        with suppress(OSError):
            if self._live is not None:
                self._live.refresh()
        self._timer = asyncio.get_running_loop().call_later(REFRESH_SECONDS, self._tick)

    def _group(self) -> Group:
        elapsed = time.monotonic() - self._begun
        spinner = SPINNER[int(elapsed / REFRESH_SECONDS) % len(SPINNER)]
        return Group(*(_line(text, style) for text, style in self._render(spinner)))


class LiveView(View):
    """A few moving lines on stderr while the run lasts; they disappear when it ends."""

    def __init__(self) -> None:
        self._moving = Moving(sys.stderr, self._render)
        self._steps = Steps()
        self._name = self._model = ""
        self._streaming = Streaming()
        self._begun = 0.0

    def started(self, prepared: Prepared, run_id: str) -> None:
        """Begin to show the run."""
        super().started(prepared, run_id)
        self._name, self._model = prepared.definition.name, prepared.choice.shown
        self._begun = time.monotonic()
        self._moving.start()

    def updated(self, result: ToolResult) -> None:
        """Take in a partial result; the next tick shows it."""
        streaming = result.details.streaming
        if streaming is not None:
            self._streaming, items = streaming, streaming.display_items
            # Text that is still being written is the last item.
            self._steps.take_in(items[:-1] if result.text else items, result.text)

    def stopping(self) -> None:
        """Show that Ctrl-C has arrived."""
        self._name = "stopping"

    def close(self) -> None:
        """Remove the moving lines."""
        self._moving.stop()

    def _render(self, spinner: str) -> list[tuple[str, str]]:
        steps = self._steps.last(min(MAX_STEPS, max(self._moving.console.height - 2, 0)))
        return [*((f"  {step}", "dim") for step in steps), (self._status(spinner), "bold")]

    def _status(self, spinner: str) -> str:
        elapsed = time.monotonic() - self._begun
        parts = [
            f"{spinner} {self._name}",
            f"{int(elapsed) // 60}:{int(elapsed) % 60:02}",
            f"turn {turns}" if (turns := self._streaming.turn_count) else "starting",
            count(self._steps.calls, "tool call"),
            spent(self._streaming.usage),
            self._model,
        ]
        return one_line(" · ".join(parts))


class Steps:
    """The last things that a run did, as lines, and how many tools it called."""

    def __init__(self) -> None:
        self.calls = 0
        self._lines: deque[str] = deque(maxlen=MAX_STEPS)
        self._last: dict[str, Any] | None = None
        self._text = ""

    def take_in(self, items: tuple[dict[str, Any], ...], text: str) -> None:
        """Take in the run's items; only those after the last known one are new."""
        # By identity, from the end: the list is bounded, so positions in it change.
        known = next((n for n in range(len(items), 0, -1) if items[n - 1] is self._last), 0)
        for item in items[known:]:
            if item.get("type") == "toolCall":
                self.calls += 1
                self._lines.append(call_line(str(item.get("name")), item.get("args")))
            self._last = item
        self._text = text[-MAX_TEXT:]

    def last(self, number: int) -> list[str]:
        """Return the last lines, ending with the newest line of the model's own text."""
        said = [line for line in self._text.splitlines() if line.strip()]
        lines = [*self._lines, *map(one_line, said[-1:])]
        return lines[-number:] if number else []
