"""`outrider chat`: a prompt, and turns of the main agent between inputs."""

import asyncio
import os
import shutil
import signal
import sys
from argparse import Namespace
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from prompt_toolkit.application import Application
from prompt_toolkit.filters import has_focus
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout import HSplit, Layout, Window
from prompt_toolkit.layout.controls import FormattedTextControl
from prompt_toolkit.widgets import SearchToolbar, TextArea

from outrider.processes.threads import in_thread
from outrider.protocol.errors import Refusal
from outrider.protocol.exit_codes import EXIT_CANCELLED
from outrider.settings.places import state_home
from outrider.surfaces.chat.prompt import HELP, Prompt
from outrider.surfaces.reports import REPORTS, parser_for, report
from outrider.surfaces.terminal import output
from outrider.surfaces.text import clean_line

if TYPE_CHECKING:
    from outrider.surfaces.chat.session import ChatSession


async def run_chat(arguments: Namespace, flags: Mapping[str, object]) -> int:
    """Return the exit code, when the person has left."""
    task = asyncio.ensure_future(Chat(arguments, flags).run())
    for number in (signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    try:
        with suppress(EOFError):
            await task
    except asyncio.CancelledError:
        return EXIT_CANCELLED
    return 0


class Chat:
    """Takes inputs one after the other. All that is heavy is loaded while the first is typed."""

    def __init__(self, arguments: Namespace, flags: Mapping[str, object]) -> None:
        self._arguments, self._flags = arguments, flags
        self._folder = Path(arguments.cwd or ".")
        self._has_toolkit = True
        self._prompt = Prompt(self._folder, state_home(os.environ) / "chat-history")
        self._loading = asyncio.ensure_future(asyncio.to_thread(self._load))
        self._loading.add_done_callback(self._prompt.wake)

    async def run(self) -> None:
        """Return when the person has left; raises `EOFError` too."""
        if output.is_plain(sys.stdout):  # nothing that is written can be drawn anew later
            await asyncio.wait({self._loading})
        while (text := (await self._prompt.read()).strip()) != "/exit":
            session = await self._loading
            try:
                await self._answer(session, text)
            except Refusal as refusal:
                output.say(refusal.message)

    def _load(self) -> "ChatSession":
        """Return the session that the arguments ask for; raises `Refusal`."""
        from outrider.surfaces.chat.session import ChatSession

        session = ChatSession(self._arguments, self._flags, keeps_answer=True)
        project = session.main.project()
        self._has_toolkit = project.config.commands.enabled
        self._prompt.words.agents = tuple(project.discovery.agents)
        resumed = ""
        if self._arguments.resume or self._arguments.go_on:
            run = session.main.resume(self._arguments.resume)
            task = clean_line(str(run.opening.get("task")))
            resumed = f"continuing session {run.id}: {task}\n"
        choice = project.choice()
        where = f"{choice.shown} ({choice.reason}) in {project.folder}"
        self._prompt.greeting = f"{resumed}{clean_line(where)} · /help lists the commands"
        return session

    async def _answer(self, session: "ChatSession", text: str) -> None:
        loop = asyncio.get_running_loop()
        match text.split():
            case []:
                pass
            case ["/help"]:
                await _show("Help", [f"{word:<10} {meaning}" for word, meaning in HELP.items()])
            case ["/show", run]:
                from outrider.surfaces.transcript import run_lines

                await _show(f"Run {run}", run_lines(run))
            case ["/runs", *words]:
                await _show("Runs", await in_thread(_report)("runs", words, self._folder))
            case [("/watch" | "/tell" | "/stop") as word, *words]:
                await _run_here(word[1:], text.split(None, 2)[1:] if word == "/tell" else words)
            case ["/toolkit"] if self._has_toolkit:
                await _show("Toolkit", _report("help", [], self._folder))
            case ["/toolkit", name, *words] if name in REPORTS and self._has_toolkit:
                making = asyncio.ensure_future(in_thread(_report)(name, words, self._folder))
                loop.add_signal_handler(signal.SIGINT, making.cancel)
                await asyncio.wait({making})
                loop.remove_signal_handler(signal.SIGINT)
                if making.cancelled():
                    output.end_line()  # behind the terminal's own ^C
                else:
                    await _show(" ".join((name, *words)), making.result())
            case [word, *_] if word.startswith("/") and word.count("/") == 1:
                output.say(f"{text[:80]!r} is not a command; /help lists them.")
            case _:
                result = await session.turn(text, [signal.SIGINT])
                runs = [one["runId"] for one in result.details.delegations or ()]
                self._prompt.words.runs += runs
                session.view.end(result)


async def _run_here(command: str, words: list[str]) -> None:
    """Run a command of ours in this terminal. Ctrl-C ends that command alone."""
    running = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "outrider", command, *words)
    )
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, lambda: None)  # the terminal sends it to both
    try:
        await running.wait()
    finally:
        loop.remove_signal_handler(signal.SIGINT)


def _report(name: str, words: list[str], folder: Path) -> list[str]:
    """Return the lines of a report on a folder, for this terminal; raises `Refusal`."""
    parser = parser_for(name)
    if {"--help", "-h"} & set(words):
        return parser.format_help().splitlines()
    about = ("--cwd", str(folder)) if "--cwd" in parser.options else ()
    return report(name, [*words, *about]).lines(shutil.get_terminal_size().columns - 1)


async def _show(title: str, lines: list[str]) -> None:
    """Show clean lines on the whole screen, to scroll and to search, until the person leaves."""
    if output.is_plain(sys.stdout):
        output.write_clean("\n".join(lines) + "\n")
        output.flush()
        return
    search, keys = SearchToolbar(ignore_case=True), KeyBindings()
    text = TextArea(
        "\n".join(lines), read_only=True, scrollbar=True, search_field=search, wrap_lines=False
    )

    @keys.add("q", filter=has_focus(text))
    @keys.add("c-c")
    @keys.add("c-d")
    def close(event: KeyPressEvent) -> None:
        event.app.exit()

    head = FormattedTextControl(f" {title} · / search · n next · q close")
    body = HSplit([Window(head, height=1, style="reverse"), text, search])
    await Application[None](Layout(body, text), key_bindings=keys, full_screen=True).run_async()
