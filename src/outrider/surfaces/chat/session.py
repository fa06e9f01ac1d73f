"""A session of the main agent with a person in front of it, for `ask` and `chat`."""

import asyncio
import os
import signal
import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

from outrider.delegation.main_session import MainSession
from outrider.delegation.perform import Caller
from outrider.delegation.preparation import Prepared
from outrider.protocol.changes import Changes
from outrider.protocol.results import ToolResult
from outrider.surfaces.chat.permission import ask_permission
from outrider.surfaces.terminal import output
from outrider.surfaces.terminal.progress import View


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
        from outrider.surfaces.terminal.landing_question import (
            ask_landing,  # late: few subagents write
        )

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
