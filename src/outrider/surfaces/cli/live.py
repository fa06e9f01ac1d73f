"""The live view of a run on a terminal: its last steps, its turns, tool calls, tokens and time."""

import asyncio
import json
import sys
import time
from collections import deque
from contextlib import suppress
from types import TracebackType
from typing import Any, Self, cast

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from outrider.delegation.preparation import Prepared
from outrider.protocol.results import ToolResult
from outrider.protocol.usage import Usage
from outrider.surfaces.cli import output
from outrider.surfaces.cli.text import count, one_line
from outrider.surfaces.cli.views import opening, spent

REFRESH_SECONDS = 0.1
STEPS_SHOWN = 5
MAX_TEXT = 2_000
SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
# What says most about a call, in this order; else all of its arguments are shown.
TELLING = ("path", "pattern", "command", "url", "query")


class LiveView:
    """A few moving lines on stderr while the run lasts; they are gone when it ends."""

    def __init__(self) -> None:
        self._console = Console(file=sys.stderr, highlight=False, emoji=False)
        self._steps = Steps()
        self._name = self._model = ""
        self._turns = 0
        self._usage = Usage()
        self._begun = 0.0
        self._stopping = False
        self._timer: asyncio.TimerHandle | None = None
        self._live = Live(
            console=self._console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
            get_renderable=self._render,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
        # The terminal may be gone, and that is no reason to lose the answer.
        with suppress(OSError):
            self._live.stop()

    def started(self, prepared: Prepared, run_id: str) -> None:
        """Begin to show the run."""
        output.say(opening(prepared, run_id))
        self._name, self._model = prepared.definition.name, prepared.choice.model
        self._begun = time.monotonic()
        self._live.start()
        self._tick()

    def updated(self, result: ToolResult) -> None:
        """Take in how far the run has come; it is shown with the next tick."""
        streaming = result.details.streaming
        if streaming is not None:
            self._turns, self._usage = streaming.turn_count, streaming.usage
            items = streaming.display_items
            # Where there is text under way, it is the last item.
            self._steps.take_in(items[:-1] if result.text else items, result.text)

    def stopping(self) -> None:
        """Show that Ctrl-C has arrived."""
        self._stopping = True

    def _tick(self) -> None:
        with suppress(OSError):
            self._live.refresh()
        self._timer = asyncio.get_running_loop().call_later(REFRESH_SECONDS, self._tick)

    def _render(self) -> Group:
        room = max(self._console.height - 2, 0)
        steps = self._steps.shown(min(STEPS_SHOWN, room))
        lines = [_line(f"  {step}", "dim") for step in steps]
        return Group(*lines, _line(self._status(), "bold"))

    def _status(self) -> str:
        elapsed = time.monotonic() - self._begun
        spinner = SPINNER[int(elapsed / REFRESH_SECONDS) % len(SPINNER)]
        parts = [
            f"{spinner} {'stopping' if self._stopping else self._name}",
            f"{int(elapsed) // 60}:{int(elapsed) % 60:02}",
            f"turn {self._turns}" if self._turns else "starting",
            count(self._steps.calls, "tool call"),
            spent(self._usage),
            self._model,
        ]
        return one_line(" · ".join(parts))


def _line(text: str, style: str) -> Text:
    return Text(text, style=style, no_wrap=True, overflow="ellipsis")


class Steps:
    """The last things that a run did, as lines; counts its tool calls."""

    def __init__(self) -> None:
        self.calls = 0
        self._lines: deque[str] = deque(maxlen=STEPS_SHOWN)
        self._last: dict[str, Any] | None = None
        self._text = ""

    def take_in(self, items: tuple[dict[str, Any], ...], text: str) -> None:
        """Take in the run's items, of which only those behind the last known one are new."""
        for item in items[self._known(items) :]:
            if item.get("type") == "toolCall":
                self.calls += 1
                self._lines.append(call_line(str(item.get("name")), item.get("args")))
            self._last = item
        self._text = text[-MAX_TEXT:]

    def _known(self, items: tuple[dict[str, Any], ...]) -> int:
        # By identity, from the end: the list is bounded, so places in it mean nothing.
        for place in range(len(items), 0, -1):
            if items[place - 1] is self._last:
                return place
        return 0

    def shown(self, most: int) -> list[str]:
        """Return the last lines, the newest of the model's own text among them."""
        said = next((line for line in reversed(self._text.splitlines()) if line.strip()), "")
        lines = [*self._lines, one_line(said)] if said else list(self._lines)
        return lines[-most:] if most else []


def call_line(name: str, args: object) -> str:
    """Return a tool call as one line: `grep idleTimeout`."""
    told: object = ""
    if isinstance(args, dict):
        values = cast("dict[str, object]", args)
        told = next((values[key] for key in TELLING if key in values), values or "")
    text = told if isinstance(told, str) else json.dumps(told, ensure_ascii=False, default=str)
    return one_line(f"{name} {text[:500]}")
