"""`outrider chat`: a prompt, and turns of the main agent between inputs."""

import asyncio
import os
import shutil
import signal
import sys
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from outrider.protocol.errors import Refusal
from outrider.protocol.outcomes import EXIT_CANCELLED
from outrider.settings.places import state_home
from outrider.surfaces.chat.prompt import COMMANDS, REPORTS, Prompt
from outrider.surfaces.cli import output

if TYPE_CHECKING:
    from outrider.surfaces.chat.conversation import Conversation

HELP = [
    *(f"{command:<10} {meaning}" for command, meaning in COMMANDS.items()),
    "@name      a file, a folder, or an agent to delegate to",
    "Alt-Enter  a new line; Ctrl-R searches in earlier inputs",
    "Ctrl-C     stops the subagents, then the turn, then the program",
]


async def run_chat(arguments: Namespace) -> int:
    """Return the exit code, when the person has left."""
    task = asyncio.ensure_future(Chat(arguments).run())
    for number in (signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    try:
        return await task
    except (KeyboardInterrupt, asyncio.CancelledError):
        return EXIT_CANCELLED


class Chat:
    """Takes inputs one after the other. All that is heavy is loaded while the first is typed."""

    def __init__(self, arguments: Namespace) -> None:
        folder, history = Path(arguments.cwd or "."), state_home(os.environ) / "chat-history"
        self._folder = folder
        self._prompt = Prompt(folder, history)
        self._loading = asyncio.ensure_future(asyncio.to_thread(_load, arguments))
        self._loading.add_done_callback(self._on_loaded)

    async def run(self) -> int:
        """Return the exit code, when the person has left."""
        while True:
            try:
                text = (await self._prompt.read()).strip()
            except EOFError:
                return 0
            conversation = await self._loading
            if text == "/exit":
                return 0
            if text:
                self._prompt.history.keep(conversation.masked(text))
                try:
                    await self._answer(conversation, text)
                except Refusal as refusal:
                    output.say(refusal.message)
            self._prompt.words.runs = conversation.runs

    def _on_loaded(self, loading: "asyncio.Future[Conversation]") -> None:
        if loading.cancelled():
            return
        if (error := loading.exception()) is None:
            self._prompt.words.agents = loading.result().agents
            self._prompt.greeting = loading.result().greeting
        self._prompt.wake(error)  # a refusal is told at once, not behind the first input

    async def _answer(self, conversation: "Conversation", text: str) -> None:
        match text.split():
            case ["/help"]:
                await _show("Help", HELP)
            case ["/show", run]:
                await _show(f"Run {run}", conversation.record(run))
            case ["/toolkit", name, *words] if name in REPORTS and conversation.has_toolkit:
                lines = await asyncio.to_thread(_report, name, words, self._folder)
                await _show(" ".join((name, *words)), lines)
            case [word, *_] if word.startswith("/") and word.count("/") == 1:
                output.say(f"{text[:80]!r} is no command here; /help lists them.")
            case _:
                await conversation.turn(text)


def _load(arguments: Namespace) -> "Conversation":
    from outrider.surfaces.chat.conversation import Conversation

    return Conversation(arguments)


def _report(name: str, words: list[str], folder: Path) -> list[str]:
    """Return the lines of a report on a folder, for this terminal; raises `Refusal`."""
    from outrider.surfaces.reports import parser_for, report

    parser = parser_for(name)
    if {"--help", "-h"} & set(words):
        return parser.format_help().splitlines()
    about = ("--cwd", str(folder)) if "--cwd" in parser.options else ()
    return report(name, [*words, *about]).lines(shutil.get_terminal_size().columns - 1)


async def _show(title: str, lines: list[str]) -> None:
    if output.is_plain(sys.stdout):
        output.write("\n".join(lines) + "\n")
        return output.flush()
    from outrider.surfaces.chat.panel import show_panel

    return await show_panel(title, lines)
