"""The prompt of `chat`: history, completion, several lines, pastes of any size.

It imports nothing heavy: how soon it takes the first key is measured.
"""

import os
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.output.vt100 import Vt100_Output

from outrider.surfaces.cli import output

MAX_PASTE_SHOWN = 1_000
"""A longer paste stands in the prompt as a mark, and is sent whole."""
MAX_PATHS = 50
REPORTS = ("agents", "doctor", "modules", "logs", "activity", "lsp", "runs", "help")
COMMANDS = {
    "/toolkit": f"reports: {', '.join(REPORTS)}",
    "/show": "what a run said and did",
    "/help": "what can be typed here",
    "/exit": "leave; Ctrl-D does too",
}


class MaskedHistory(FileHistory):
    """Inputs of earlier sessions. They are written by `keep`, once they can be masked."""

    def store_string(self, string: str) -> None:
        """Write nothing yet."""

    def keep(self, text: str) -> None:
        """Write an input that is masked."""
        os.makedirs(os.path.dirname(self.filename), mode=0o700, exist_ok=True)
        os.close(os.open(self.filename, os.O_CREAT | os.O_WRONLY, 0o600))
        super().store_string(text)


class Words(Completer):
    """Completes commands, and behind `@` agents and paths."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.agents: tuple[str, ...] = ()
        self.runs: list[str] = []

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterator[Completion]:
        """Yield what the word before the cursor could become."""
        line = document.text_before_cursor[-1_000:]
        word, known = "", ()
        if line.startswith("/"):
            *before, word = line.split(" ")
            known = self._arguments(before)
        elif found := re.search(r"(?:^|\s)@(\S*)$", line):
            word, known = found[1], (*self.agents, *self._paths(found[1]))
        for one in known:
            if one.startswith(word):
                yield Completion(one, -len(word), display_meta=COMMANDS.get(one, ""))

    def _arguments(self, before: list[str]) -> Iterable[str]:
        match before:
            case []:
                return COMMANDS
            case ["/toolkit"]:
                return REPORTS
            case ["/toolkit", name, *_] if name in REPORTS:
                from outrider.surfaces.reports import parser_for

                return (*(self.agents if name == "agents" else ()), *parser_for(name).options)
            case ["/show"]:
                return reversed(self.runs)
            case _:
                return ()

    def _paths(self, word: str) -> Iterator[str]:
        folder, slash, name = word.rpartition("/")
        try:
            found = sorted(os.scandir(self._folder / folder), key=lambda one: one.name)
        except OSError:
            return
        is_hidden = not name.startswith(".")
        shown = [one for one in found if not (is_hidden and one.name.startswith("."))]
        for entry in [one for one in shown if one.name.startswith(name)][:MAX_PATHS]:
            if entry.name.isprintable():
                yield f"{folder}{slash}{entry.name}{'/' * entry.is_dir()}"


class Prompt:
    """Reads what a person types; on a dumb terminal, whole lines."""

    def __init__(self, folder: Path, history: Path) -> None:
        self.words = Words(folder)
        self.history = MaskedHistory(str(history))
        self.greeting = ""
        self._pastes: dict[str, str] = {}
        self._session = None if output.is_plain(sys.stdout) else self._made()

    async def read(self) -> str:
        """Return one input; raises `KeyboardInterrupt` and `EOFError` for Ctrl-C and Ctrl-D."""
        if self._session is None:
            from outrider.surfaces.chat.board import read_line

            if not (line := await read_line("> ")):
                raise EOFError
            return line
        text = await self._session.prompt_async()
        self.greeting = ""
        for mark, pasted in self._pastes.items():
            text = text.replace(mark, pasted)
        return text

    def wake(self, error: BaseException | None) -> None:
        """Show a prompt that waits anew, or let it end with an error."""
        app = self._session.app if self._session else None
        if app is None or not app.is_running or app.is_done:
            return
        if error is None:
            app.invalidate()
        else:
            app.exit(exception=error)

    def _made(self) -> PromptSession[str]:
        terminal = Vt100_Output.from_pty(sys.stdout, os.environ.get("TERM"))
        terminal.enable_cpr = False  # keys may come before its answer
        return PromptSession(
            lambda: f"{self.greeting}\n> " if self.greeting else "> ",
            multiline=True,
            prompt_continuation="  ",
            completer=self.words,
            history=self.history,
            key_bindings=self._keys(),
            include_default_pygments_style=False,
            output=terminal,
            enable_suspend=True,
            reserve_space_for_menu=4,
        )

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()

        @keys.add("enter")
        def send(event: KeyPressEvent) -> None:
            event.current_buffer.validate_and_handle()

        @keys.add("escape", "enter")
        @keys.add("c-j")
        def newline(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text("\n")

        @keys.add("c-c")
        def interrupt(event: KeyPressEvent) -> None:
            if not event.current_buffer.text:
                event.app.exit(exception=KeyboardInterrupt)
            event.current_buffer.reset()

        @keys.add(Keys.BracketedPaste)
        def paste(event: KeyPressEvent) -> None:
            text = event.data.replace("\r\n", "\n").replace("\r", "\n")
            if len(text) > MAX_PASTE_SHOWN:
                mark = f"[paste {len(self._pastes) + 1}: {len(text):,} characters]"
                self._pastes[mark], text = text, mark
            event.current_buffer.insert_text(text)

        return keys
