"""A session of the main agent with a person in front of it, for `ask` and `chat`."""

import asyncio
import os
import signal
import sys
import termios
from argparse import Namespace
from collections.abc import Sequence
from contextlib import closing, suppress
from typing import Any

from outrider.delegation.briefing import hide_secrets
from outrider.delegation.main_session import Decision, MainSession
from outrider.delegation.perform import Caller
from outrider.delegation.preparation import Prepared
from outrider.protocol.results import ToolResult
from outrider.schemas.values import is_object
from outrider.surfaces.cli import output
from outrider.surfaces.cli.inputs import typed_line
from outrider.surfaces.cli.options import option_flags
from outrider.surfaces.cli.views import View
from outrider.surfaces.text import as_text, clean_line, quoted

MAX_SHOWN = 4_000
CHOICES = "Allow it? [o]nce, for this [s]ession, [N]o: "
ANSWERS: dict[str, Decision] = {"o": "once", "y": "once", "yes": "once", "s": "session"}


class Conversation:
    """Turns of a session as a person sees, allows and stops them."""

    def __init__(self, arguments: Namespace, *, keeps_answer: bool = False) -> None:
        self.view = View(keeps_answer=keeps_answer)
        flags = option_flags(arguments) | ({"model": arguments.model} if arguments.model else {})
        caller = Caller(os.environ, flags=flags, on_start=self._on_start, one_shot=True)
        ask = self.decide if sys.stdin.isatty() and sys.stderr.isatty() else None
        may, watch = arguments.allow_write, self.view.watch
        self.session = MainSession(caller, watch, arguments.cwd, may, ask)

    def _on_start(self, prepared: Prepared, run_id: str) -> None:
        hide_secrets(prepared)
        if prepared.main:
            self.view.started(prepared, run_id)

    async def turn(self, text: str, signals: Sequence[signal.Signals]) -> ToolResult:
        """Return how a turn ended, or was stopped by a signal.

        SIGINT stops the subagents first, the turn second, the program third.
        """
        loop, interrupts = asyncio.get_running_loop(), 0

        def stop(number: signal.Signals) -> None:
            nonlocal interrupts
            if number == signal.SIGINT and self.session.stop_children():
                self.view.say("stopping the subagents; Ctrl-C again stops the turn")
                return
            interrupts += number == signal.SIGINT
            if interrupts > 1:
                raise KeyboardInterrupt
            self.session.stop()

        for number in signals:
            loop.add_signal_handler(number, stop, number)
        output.when_reader_gone(self.session.stop)
        try:
            with closing(self.view):
                return await self.session.turn(text)
        finally:
            for number in signals:
                loop.remove_signal_handler(number)

    async def decide(self, name: str, args: Any) -> Decision:
        """Return what the person says to a call, which they see whole or are told they don't."""
        command = args.get("command") if is_object(args) else None
        shown = quoted(command if isinstance(command, str) else as_text(args), MAX_SHOWN)
        with self.view.paused():
            with suppress(termios.error):  # what was typed before they saw it is no answer
                termios.tcflush(0, termios.TCIFLUSH)
            said = await typed_line(f"main wants to use {clean_line(name)}:\n{shown}\n{CHOICES}")
        return ANSWERS.get(said.strip().lower(), "no")
