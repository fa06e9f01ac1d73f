"""The prompt of `chat`: history, completion, several lines, pastes of any size.

It imports nothing heavy: how soon it takes the first key is measured.
"""

import os
import re
import sys
from collections.abc import Iterator
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
COMMANDS = {
    "/toolkit": "reports: agents, doctor, modules, logs, activity, lsp, runs, help",
    "/show": "what a run said and did",
    "/help": "what can be typed here",
    "/exit": "leave; Ctrl-D does too",
}
REPORTS = ("agents", "doctor", "modules", "logs", "activity", "lsp", "runs", "help")


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
        if line.startswith("/"):
            *before, word = line.split(" ")
            yield from _matching(word, self._arguments(before), COMMANDS)
        elif found := re.search(r"(?:^|\s)@(\S*)$", line):
            yield from _matching(found[1], (*self.agents, *self._paths(found[1])), {})

    def _arguments(self, before: list[str]) -> tuple[str, ...]:
        match before:
            case []:
                return tuple(COMMANDS)
            case ["/toolkit"]:
                return REPORTS
            case ["/toolkit", "agents"]:
                return self.agents
            case ["/show"] | ["/toolkit", "runs"]:
                return tuple(reversed(self.runs))
            case _:
                return ()

    def _paths(self, word: str) -> Iterator[str]:
        folder, _, name = word.rpartition("/")
        try:
            entries = list(os.scandir(self._folder / folder))
        except OSError:
            return
        shown = [one for one in entries if one.name.startswith(name) and one.name.isprintable()]
        plain = (one for one in shown if name.startswith(".") or not one.name.startswith("."))
        for entry in sorted(plain, key=lambda one: one.name)[:MAX_PATHS]:
            yield f"{folder}/{entry.name}".lstrip("/") + ("/" if entry.is_dir() else "")


def _matching(word: str, known: tuple[str, ...], meanings: dict[str, str]) -> Iterator[Completion]:
    for one in known:
        if one.startswith(word):
            yield Completion(one, -len(word), display_meta=meanings.get(one, ""))


async def _read_plainly() -> str:
    from outrider.surfaces.chat.board import read_line

    if not (line := await read_line("> ")):
        raise EOFError
    return line


def _output() -> Vt100_Output:
    """Return the terminal. It isn't asked where the cursor is: keys may come before its answer."""
    terminal = Vt100_Output.from_pty(sys.stdout, os.environ.get("TERM"))
    terminal.enable_cpr = False
    return terminal


class Prompt:
    """Reads what a person types."""

    def __init__(self, folder: Path, history: Path) -> None:
        self.words = Words(folder)
        self.history = MaskedHistory(str(history))
        self.greeting = ""
        self._pastes: dict[str, str] = {}
        self._session = None if output.is_plain(sys.stdout) else self._made()

    def _made(self) -> PromptSession[str]:
        return PromptSession(
            lambda: f"{self.greeting}\n> " if self.greeting else "> ",
            multiline=True,
            prompt_continuation="  ",
            completer=self.words,
            history=self.history,
            key_bindings=self._keys(),
            include_default_pygments_style=False,
            output=_output(),
            enable_suspend=True,
            reserve_space_for_menu=4,
        )

    def wake(self, error: BaseException | None) -> None:
        """Show a prompt that waits anew, or let it end with an error."""
        app = self._session.app if self._session else None
        if app is not None and app.is_running and not app.is_done:
            if error is not None:
                app.exit(exception=error)
            else:
                app.invalidate()

    async def read(self) -> str:
        """Return one input; raises `KeyboardInterrupt` and `EOFError` for Ctrl-C and Ctrl-D."""
        if self._session is None:
            return await _read_plainly()
        text = await self._session.prompt_async()
        self.greeting = ""
        for mark, pasted in self._pastes.items():
            text = text.replace(mark, pasted)
        return text

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
            if event.current_buffer.text:
                event.current_buffer.reset()
            else:
                event.app.exit(exception=KeyboardInterrupt)

        @keys.add(Keys.BracketedPaste)
        def paste(event: KeyPressEvent) -> None:
            text = event.data.replace("\r\n", "\n").replace("\r", "\n")
            if len(text) > MAX_PASTE_SHOWN:
                mark = f"[paste {len(self._pastes) + 1}: {len(text):,} characters]"
                self._pastes[mark], text = text, mark
            event.current_buffer.insert_text(text)

        return keys
