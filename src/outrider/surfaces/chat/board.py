"""What a person sees of a session at work: the answer, the subagents, and questions to them."""

import asyncio
import os
import sys
import termios
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Self

from outrider.delegation.main_session import Decision
from outrider.protocol import events
from outrider.protocol.data import from_json
from outrider.protocol.results import ToolResult
from outrider.protocol.usage import Usage
from outrider.schemas.values import is_object
from outrider.surfaces.cli import output
from outrider.surfaces.cli.views import spent, summary
from outrider.surfaces.text import as_text, clean, count, one_line

MAX_SHOWN = 4_000
CHOICES = "Allow it? [o]nce, for this [s]ession, [N]o: "
ANSWERS: dict[str, Decision] = {"o": "once", "y": "once", "yes": "once", "s": "session"}
MAIN_ARGUMENTS = ("path", "pattern", "command", "agent", "query", "url")


@dataclass(slots=True)
class Row:
    """One agent at work, and how far it is."""

    name: str
    turn: int = 0
    tool: str = ""
    usage: Usage = field(default_factory=Usage)
    begun: float = field(default_factory=time.monotonic)

    def take(self, event: object) -> None:
        """Take in what it does now."""
        match event:
            case events.TurnStartEvent(turn=turn):
                self.turn, self.tool = turn, ""
            case events.ToolStartEvent(name=name, args=args):
                known = args if is_object(args) else {}
                shown = next((known[key] for key in MAIN_ARGUMENTS if key in known), "")
                self.tool = f"{name} {as_text(shown)[:200]}"
            case events.TurnEndEvent(usage=usage):
                self.usage = usage
            case _:
                pass

    def line(self) -> str:
        """Return what it does, its tokens and its time."""
        seconds = int(time.monotonic() - self.begun)
        turn = f"turn {self.turn}" if self.turn else "starting"
        parts = (self.name, turn, self.tool, spent(self.usage))
        return one_line(" · ".join([*filter(None, parts), f"{seconds // 60}:{seconds % 60:02}"]))


class Board:
    """Shows a session in plain lines: for a pipe, a log or a dumb terminal."""

    moves = False

    def __init__(self, *, shows_answer: bool = False) -> None:
        self.rows: dict[str, Row] = {}
        self._shows_answer = shows_answer

    def __enter__(self) -> Self:
        self.rows = {"": Row("main")}
        self.resume()
        return self

    def __exit__(self, *_: object) -> None:
        self.end_message()
        self.pause()

    def resume(self) -> None:
        """Begin to move."""

    def pause(self) -> None:
        """Leave the terminal as it was."""

    def say(self, line: str, *, fits: bool = False) -> None:
        """Show a line of ours, whole or only what fits."""
        output.say(line)

    def write(self, text: str) -> None:
        """Show a piece of the answer, which is clean."""
        print(text, end="", flush=True)

    def end_message(self) -> None:
        """Show the rest of a message."""
        if self._shows_answer:
            print(flush=True)

    def watch(self, key: str, news: str | events.Event | ToolResult) -> None:
        """Take in what happens in a session."""
        match news:
            case str():
                self.rows[key] = Row(news)
                if not self.moves:
                    self.say(f"{news} begins")
            case ToolResult():
                self.rows.pop(key, None)
                self.end(news)
            case _:
                self.rows[key].take(news)
                if not key:
                    self._tell(news)

    def _tell(self, event: events.Event) -> None:
        match event:
            case events.MessageUpdateEvent(delta=delta) if self._shows_answer:
                self.write(clean(delta))
            case events.MessageEndEvent():
                self.end_message()
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

    async def decide(self, name: str, args: Any) -> Decision:
        """Return what the person says to a call, which they see whole or are told they don't."""
        command = args.get("command") if is_object(args) else None
        text = clean(command if isinstance(command, str) else as_text(args))
        more = len(text) - MAX_SHOWN
        hidden = f"\n[{more:,} MORE CHARACTERS ARE NOT SHOWN]" if more > 0 else ""
        self.pause()
        try:
            with suppress(termios.error):  # what was typed before they saw it is no answer
                termios.tcflush(0, termios.TCIFLUSH)
            # Indented, so that no line of a call looks like one of ours.
            shown = f"{text[:MAX_SHOWN]}{hidden}".replace("\n", "\n  ")
            asked = f"main wants to use {one_line(name)}:\n  {shown}\n{CHOICES}"
            return ANSWERS.get((await read_line(asked)).strip().lower(), "no")
        finally:
            self.resume()


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


def board(*, shows_answer: bool) -> Board:
    """Return what fits the terminal."""
    if output.is_plain(sys.stderr) or "utf" not in sys.stderr.encoding.lower():
        return Board(shows_answer=shows_answer)
    from outrider.surfaces.chat.live_board import LiveBoard

    return LiveBoard(shows_answer=shows_answer)
