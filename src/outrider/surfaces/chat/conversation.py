"""The session behind `chat`: its turns, and what Ctrl-C stops in them."""

import asyncio
import os
import signal
from argparse import Namespace

from outrider.delegation.session_history import recorded_events
from outrider.protocol.results import ToolResult
from outrider.records.runs import OUTPUT, SESSION, find_run
from outrider.settings.places import runs_folder
from outrider.surfaces.chat.board import board
from outrider.surfaces.cli.ask import main_session
from outrider.surfaces.text import as_text, clean, one_line


class Conversation:
    """One session of the main agent, with a person in front of it."""

    def __init__(self, arguments: Namespace) -> None:
        """Begin or resume the session that the arguments ask for; raises `Refusal`."""
        self._board = board(shows_answer=True)
        self._session = main_session(arguments, self._board)
        project = self._session.project()
        self.agents = tuple(project.discovery.agents)
        self.has_toolkit = project.config.commands.enabled
        self.masked = project.masker.text
        self.runs: list[str] = []
        self.greeting = ""
        if arguments.resume or arguments.go_on:
            run = self._session.resume(arguments.resume)
            self.greeting = f"session {run.id} goes on: {one_line(str(run.opening.get('task')))}"

    async def turn(self, text: str) -> None:
        """Show one turn, until its end or until Ctrl-C has stopped it."""
        loop, turn = asyncio.get_running_loop(), asyncio.ensure_future(self._shown(text))
        is_stopping = False

        def interrupt() -> None:
            nonlocal is_stopping
            if self._session.stop_children():
                self._board.say("stopping the subagents; Ctrl-C again stops the turn")
            elif is_stopping:
                turn.cancel()
            else:
                is_stopping = True
                self._session.stop()

        loop.add_signal_handler(signal.SIGINT, interrupt)
        try:
            result = await turn
        finally:
            loop.remove_signal_handler(signal.SIGINT)
        self.runs += [one["runId"] for one in result.details.delegations or ()]
        self._board.end(result)

    async def _shown(self, text: str) -> ToolResult:
        with self._board:
            return await self._session.turn(text)

    def record(self, name: str) -> list[str]:
        """Return the lines of a run's record: its task, its steps, then what it said."""
        run = find_run(runs_folder(os.environ), name)
        lines = [f"{run.id} · {run.state} · {as_text(run.opening.get('task'))}"]
        for event in recorded_events(run.folder / SESSION):
            if event.get("type") == "tool_start":
                lines.append(f"· {event.get('name')} {as_text(event.get('args'))}")
        output = run.folder / OUTPUT
        said = output.read_text(errors="replace") if output.exists() else "[no output]"
        return [*map(one_line, lines), "", *clean(said).splitlines()]
