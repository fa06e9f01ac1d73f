"""What a person sees of a session at work: the answer, the subagents, and questions to them."""

import asyncio
import os
import re
import sys
import termios
from contextlib import suppress
from typing import Any, Self

from outrider.delegation.main_session import Decision
from outrider.protocol import events
from outrider.protocol.data import from_json
from outrider.protocol.results import ToolResult
from outrider.protocol.usage import Usage
from outrider.schemas.values import is_object
from outrider.surfaces.cli import output
from outrider.surfaces.cli.views import Row, spent, summary
from outrider.surfaces.text import as_text, clean, count, one_line

MAX_SHOWN = 4_000
MAX_TAIL_LINES = 6
CHOICES = "Allow it? [o]nce, for this [s]ession, [N]o: "
ANSWERS: dict[str, Decision] = {"o": "once", "y": "once", "yes": "once", "s": "session"}
_FENCE = re.compile(r" {0,3}(?:```|~~~)")


class Board:
    """Shows a session: rows that move, or plain lines for a pipe, a log or a dumb terminal."""

    def __init__(self, *, shows_answer: bool) -> None:
        self._shows_answer = shows_answer
        self._rows: dict[str, Row] = {}
        self._block: list[str] = []
        self._line = ""
        self._is_fenced = False
        self._moving = None
        if not output.is_plain(sys.stderr):
            from outrider.surfaces.cli.live import Moving

            self._moving = Moving(sys.stdout if shows_answer else sys.stderr, self._render)

    def __enter__(self) -> Self:
        self._rows = {"": Row("main")}
        if self._moving is not None:
            self._moving.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end_message()
        if self._moving is not None:
            self._moving.stop()

    def say(self, line: str, *, fits: bool = False) -> None:
        """Show a line of ours, whole or only what fits."""
        if self._moving is None:
            output.say(line)
        else:
            self._moving.say(one_line(line), fits=fits)

    def watch(self, key: str, news: str | events.Event | ToolResult) -> None:
        """Take in what happens in a session."""
        match news:
            case str():
                self._rows[key] = Row(news)
                if self._moving is None:
                    self.say(f"{news} begins")
            case ToolResult(details=details) if details.streaming is not None:
                self._rows[key].streaming = details.streaming
            case ToolResult():
                self._rows.pop(key, None)
                self.end(news)
            case events.MessageUpdateEvent(delta=delta) if self._shows_answer:
                self._write(clean(delta))
            case events.MessageEndEvent():
                self._end_message()
            case events.RetryEvent(message=message, delay_ms=delay):
                self.say(f"{message} Again in {delay / 1000:.1f} s.")
            case events.DroppedEvent(ids=ids):
                left = count(len(ids), "old tool result")
                self.say(f"the model's window is nearly full: from here on it goes without {left}.")
            case _:
                pass

    def end(self, result: ToolResult) -> None:
        """Show how a run ended and what it took, and apart from that what its subagents took."""
        run, run_id = result.result, result.details.run_id or ""
        if run is None:
            self.say(result.text)
        else:
            self.say(f"{run.agent} {run_id}: {' · '.join(summary(run, run_id))}", fits=True)
        if children := result.details.delegations:
            used = sum((from_json(Usage, one["usage"]) for one in children), Usage())
            self.say(f"beside that, {count(len(children), 'subagent')}: {spent(used)}")

    def _write(self, text: str) -> None:
        """Show a piece of the answer: as it is, until its block of Markdown is whole."""
        if self._moving is None:
            print(text, end="", flush=True)
        *lines, self._line = (self._line + text).split("\n")
        for line in lines:
            self._block.append(line)
            self._is_fenced ^= _FENCE.match(line) is not None
            if not line.strip() and not self._is_fenced:
                self._end_block()

    def _end_message(self) -> None:
        if self._line and self._moving is None:
            print(flush=True)
        self._block.append(self._line)
        self._line, self._is_fenced = "", False
        self._end_block()

    def _end_block(self) -> None:
        block, self._block = "\n".join(self._block), []
        if block.strip() and self._moving is not None:
            self._moving.show_markdown(block)

    def _render(self, spinner: str) -> list[tuple[str, str]]:
        tail = [*self._block, self._line][-MAX_TAIL_LINES:]
        rows = [*(row for key, row in self._rows.items() if key), self._rows[""]]
        said = [(line, "") for line in tail if line]
        return [*said, *((f"{spinner} {row.line()}", "bold") for row in rows)]

    async def decide(self, name: str, args: Any) -> Decision:
        """Return what the person says to a call, which they see whole or are told they don't."""
        command = args.get("command") if is_object(args) else None
        text = clean(command if isinstance(command, str) else as_text(args))
        more = len(text) - MAX_SHOWN
        hidden = f"\n[{more:,} MORE CHARACTERS ARE NOT SHOWN]" if more > 0 else ""
        # Indented, so that no line of a call looks like one of ours.
        shown = f"{text[:MAX_SHOWN]}{hidden}".replace("\n", "\n  ")
        if self._moving is not None:
            self._moving.stop()
        try:
            with suppress(termios.error):  # what was typed before they saw it is no answer
                termios.tcflush(0, termios.TCIFLUSH)
            said = await read_line(f"main wants to use {one_line(name)}:\n  {shown}\n{CHOICES}")
            return ANSWERS.get(said.strip().lower(), "no")
        finally:
            if self._moving is not None:
                self._moving.start()


async def read_line(question: str) -> str:
    """Return the line that a person types after the question."""
    print(question, end="", file=sys.stderr, flush=True)
    loop, typed = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(0, typed.set)
    try:
        await typed.wait()
        return os.read(0, 4096).decode(errors="replace")
    finally:
        loop.remove_reader(0)
