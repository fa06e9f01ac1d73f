"""A session of the main agent with a person in front of it, for `ask` and `chat`."""

import asyncio
import os
import signal
import sys
from argparse import Namespace
from collections.abc import Sequence

from outrider.delegation.briefing import hide_secrets
from outrider.delegation.main_session import MainSession
from outrider.delegation.perform import Caller
from outrider.delegation.preparation import Prepared
from outrider.protocol.results import ToolResult
from outrider.surfaces.chat.board import Board
from outrider.surfaces.cli.options import option_flags
from outrider.surfaces.cli.views import opening


class Conversation:
    """Turns of a session as a person sees and stops them."""

    def __init__(self, arguments: Namespace, *, shows_answer: bool) -> None:
        self.board = Board(shows_answer=shows_answer)
        flags = option_flags(arguments) | ({"model": arguments.model} if arguments.model else {})
        caller = Caller(os.environ, flags=flags, on_start=self._on_start, one_shot=True)
        decide = self.board.decide if sys.stdin.isatty() and sys.stderr.isatty() else None
        self.session = MainSession(
            caller, self.board.watch, arguments.cwd, arguments.allow_write, decide
        )

    def _on_start(self, prepared: Prepared, run_id: str) -> None:
        hide_secrets(prepared)
        if prepared.main and not prepared.main["history"]:
            warnings = (f"warning: {warning}." for warning in prepared.warnings)
            for line in (*warnings, opening(prepared, run_id)):
                self.board.say(line)

    async def turn(self, text: str, signals: Sequence[signal.Signals]) -> ToolResult:
        """Return how a turn ended, or was stopped by a signal.

        SIGINT stops the subagents first, the turn second, the program third.
        """
        loop, interrupts = asyncio.get_running_loop(), 0

        def stop(number: signal.Signals) -> None:
            nonlocal interrupts
            if number == signal.SIGINT and self.session.stop_children():
                self.board.say("stopping the subagents; Ctrl-C again stops the turn")
                return
            interrupts += number == signal.SIGINT
            if interrupts > 1:
                raise KeyboardInterrupt
            self.session.stop()

        caught = [one for one in signals if signal.getsignal(one) is not signal.SIG_IGN]  # nohup
        for number in caught:
            loop.add_signal_handler(number, stop, number)
        try:
            with self.board:
                return await self.session.turn(text)
        finally:
            for number in caught:
                loop.remove_signal_handler(number)
