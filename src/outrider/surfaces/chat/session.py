"""A session of the main agent with a person in front of it, for `ask` and `chat`."""

import asyncio
import os
import signal
import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any

from outrider.delegation.main_session import Decision, MainSession
from outrider.delegation.perform import Caller
from outrider.delegation.preparation import Prepared
from outrider.protocol.changes import Changes
from outrider.protocol.data import as_object, member
from outrider.protocol.results import ToolResult
from outrider.settings.files import read_plain_file
from outrider.surfaces.terminal import output
from outrider.surfaces.terminal.asking import read_answer
from outrider.surfaces.terminal.progress import View
from outrider.surfaces.text import as_text, clean_line, quoted

MAX_SHOWN = 4_000
MAX_READ = 1 << 20
CHOICES = "Allow it? [o]nce, for the [s]ession, [N]o: "
ANSWERS: dict[str, Decision] = {"o": "once", "y": "once", "yes": "once", "s": "session"}


class ChatSession:
    """Turns of a session as a person sees, allows and stops them."""

    def __init__(
        self, given: Namespace, flags: Mapping[str, object], *, keeps_answer: bool = False
    ) -> None:
        self.view = View(keeps_answer=keeps_answer)
        caller = Caller(os.environ, flags=flags, on_start=self._on_start, one_shot=True)
        can_ask = sys.stdin.isatty() and sys.stderr.isatty()
        ask = partial(ask_permission, self.view, Path(given.cwd or ".")) if can_ask else None
        settle = self._settle if can_ask else None
        self.main = MainSession(caller, self.view.watch, given.cwd, given.allow_write, ask, settle)

    async def _settle(self, run_id: str) -> Changes:
        # Late: few subagents write.
        from outrider.surfaces.terminal.changes import ask_landing

        return await ask_landing(self.view, self.main.caller.flags, run_id)

    def _on_start(self, prepared: Prepared, run_id: str) -> None:
        if prepared.main_turn:
            self.view.show_start(prepared, run_id)

    async def turn(self, text: str, signals: Sequence[signal.Signals]) -> ToolResult:
        """Return how a turn ended. SIGINT stops the subagents, then the turn, then the program."""
        loop, interrupts = asyncio.get_running_loop(), 0

        def stop(number: signal.Signals) -> None:
            nonlocal interrupts
            if number == signal.SIGINT and self.main.stop_children():
                self.view.say("stopping the subagents; press Ctrl-C again to stop the turn")
                return
            interrupts += number == signal.SIGINT
            if interrupts > 1:
                raise KeyboardInterrupt
            self.main.stop()

        for number in signals:
            loop.add_signal_handler(number, stop, number)
        output.watch_reader(self.main.stop)
        try:
            with closing(self.view):
                return await self.main.turn(text)
        finally:
            for number in signals:
                loop.remove_signal_handler(number)


async def ask_permission(view: View, folder: Path, name: str, args: Any) -> Decision:
    """Return what the person says to a call, which they see whole or are told they don't."""
    shown = quoted(_shown(args, folder) or as_text(args), MAX_SHOWN)
    with view.pause():
        said = await read_answer(f"main wants to use {clean_line(name)}:\n{shown}\n{CHOICES}")
    return ANSWERS.get(said, "no")


def _shown(args: Any, folder: Path) -> str | None:
    """Return a call as people read it: a command as it is, a change of a file as a diff."""
    from outrider.tools.files.edit import diff_of

    match args:
        case {"command": str(command), **rest} if rest.keys() <= {"timeoutMs"}:
            return command
        case {"path": str(path), "content": str(content), **rest} if not rest:
            before = ""
            with suppress(OSError, ValueError):
                before = read_plain_file(folder / path, MAX_READ).decode()
            pairs = [(before, content)]
        case {"path": str(path), "edits": [*edits], **rest} if not rest:
            pairs = [(member(one, "oldText"), member(one, "newText")) for one in edits]
            if any(as_object(one).keys() != {"oldText", "newText"} for one in edits):
                return None  # it says more than a diff shows
        case _:
            return None
    lines = [(str(old).splitlines(), str(new).splitlines()) for old, new in pairs]
    diffs = [diff_of(old, new) or _replaced(old, new) for old, new in lines]
    return "\n".join([path, *(line for diff in diffs for line in diff)])


def _replaced(old: list[str], new: list[str]) -> list[str]:
    """Return all lines as replaced, where to compare them would take long."""
    return [*(f"-{line}" for line in old), *(f"+{line}" for line in new)] if old != new else []
