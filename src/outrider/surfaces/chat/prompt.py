"""The prompt of `chat`. It imports nothing heavy: how soon it takes the first key is measured."""

import asyncio
import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from glob import escape, glob
from pathlib import Path
from typing import Any

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.key_binding.bindings.named_commands import get_by_name
from prompt_toolkit.keys import Keys
from prompt_toolkit.output.vt100 import Vt100_Output

from outrider.surfaces.reports import REPORTS, parser_for
from outrider.surfaces.terminal import output

MAX_PASTE_SHOWN = 1_000  # a longer paste stands in the prompt as a mark, and is sent whole
MAX_PATHS = 50
MAX_HISTORY_BYTES = 1 << 20
LEAVING = "press Ctrl-C again to leave"
COMMANDS = {
    "/toolkit": f"reports: {', '.join(REPORTS)}",
    "/show": "what a run did and said",
    "/runs": "what is running, and what ran",
    "/watch": "follow a run, or all that run; Ctrl-C leaves it alone",
    "/tell": "tell a running child something: /tell RUN MESSAGE",
    "/stop": "stop a run",
    "/help": "this list",
    "/exit": "leave; so does Ctrl-D",
}
HELP = {
    **COMMANDS,
    "@name": "a file, a folder or an agent to delegate to",
    "Alt-Enter": "a new line; Ctrl-R searches the history",
    "Ctrl-C": "stops the subagents, then the turn, then the program",
}


class MaskedHistory(FileHistory):
    """Inputs of earlier sessions: masked, private, and of bounded size."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._path = path
        self.pastes: dict[str, str] = {}

    def store_string(self, string: str) -> None:
        """Write an input, whole; the older half goes when there is too much."""
        from outrider.masking import Masker, secret_environment_values

        masker, path = Masker(secrets=secret_environment_values(os.environ)), self._path
        with suppress(OSError):  # a disk that is full must not end the session
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.touch(0o600)
            if path.stat().st_size > MAX_HISTORY_BYTES:
                newer = path.read_bytes()[-MAX_HISTORY_BYTES // 2 :]
                path.write_bytes(b"".join(newer.partition(b"\n# ")[1:]))
            super().store_string(masker.text(self.whole(string)))

    def whole(self, text: str) -> str:
        """Return an input with what was pasted in place of its marks."""
        for mark, pasted in self.pastes.items():
            text = text.replace(mark, pasted)
        return text


class Words(Completer):
    """Completes commands, and behind `@` agents and paths."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.agents: tuple[str, ...] = ()
        self.runs: list[str] = []

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterator[Completion]:
        line = document.text_before_cursor[-1_000:]
        *before, word = re.split(r"\s", line)
        known: Iterable[str] = ()
        if line.startswith("/"):
            known = self._arguments(before)
        elif word.startswith("@"):
            word = word[1:]
            known = (*self.agents, *self._paths(word))
        for one in known:
            if one.startswith(word):
                yield Completion(one, -len(word), display_meta=COMMANDS.get(one, ""))

    def _arguments(self, before: list[str]) -> Iterable[str]:
        if before[:1] == ["/toolkit"] and before[1:2] and before[1] in REPORTS:
            agents = self.agents if before[1] == "agents" else ()
            return (*agents, *parser_for(before[1]).options)
        known = {"": COMMANDS, "/toolkit": REPORTS}
        of_runs = dict.fromkeys(("/show", "/watch", "/tell", "/stop"), self.runs[::-1])
        return (known | of_runs).get(" ".join(before), ())

    def _paths(self, word: str) -> list[str]:
        found = sorted(glob(f"{escape(word)}*", root_dir=self._folder))[:MAX_PATHS]
        return [f"{one}{'/' * (self._folder / one).is_dir()}" for one in found if one.isprintable()]


class Prompt:
    """Reads what a person types; on a dumb terminal, whole lines."""

    def __init__(self, folder: Path, history: Path) -> None:
        self.words = Words(folder)
        self.greeting = ""
        self._history = MaskedHistory(history)
        self._session = None if output.is_plain(sys.stdout) else self._new_session()

    async def read(self) -> str:
        """Return one input; raises `KeyboardInterrupt` and `EOFError` for Ctrl-C and Ctrl-D."""
        if self._session is None:
            from outrider.surfaces.terminal.asking import read_line

            line, self.greeting = await read_line(self._lead()), ""
            if not line:
                raise EOFError
            return line
        text = await self._session.prompt_async()
        self.greeting = ""
        return self._history.whole(text)

    def _lead(self) -> str:
        return f"{self.greeting}\n> " if self.greeting else "> "

    def wake(self, loading: "asyncio.Future[Any]") -> None:
        """Draw a prompt anew that waits; an error is told at once, not behind the first input."""
        app = self._session.app if self._session else None
        if app is not None and app.is_running and not app.is_done and not loading.cancelled():
            app.invalidate()
            if error := loading.exception():
                app.exit(exception=error)

    def _new_session(self) -> PromptSession[str]:
        terminal = Vt100_Output.from_pty(sys.stdout, os.environ.get("TERM"))
        terminal.enable_cpr = False  # keys may come before its answer
        return PromptSession(
            self._lead,
            multiline=True,
            prompt_continuation="  ",
            completer=self.words,
            history=self._history,
            key_bindings=self._keys(),
            include_default_pygments_style=False,
            output=terminal,
            enable_suspend=True,
            reserve_space_for_menu=4,
        )

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()

        keys.add("enter")(get_by_name("accept-line"))

        @keys.add("escape", "enter")
        @keys.add("c-j")
        def newline(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text("\n")

        @keys.add("c-c")
        def interrupt(event: KeyPressEvent) -> None:
            if not event.current_buffer.text and self.greeting == LEAVING:
                event.app.exit(exception=KeyboardInterrupt)
            self.greeting = "" if event.current_buffer.text else LEAVING
            event.current_buffer.reset()

        @keys.add(Keys.BracketedPaste)
        def paste(event: KeyPressEvent) -> None:
            text = event.data.replace("\r\n", "\n").replace("\r", "\n")
            if len(text) > MAX_PASTE_SHOWN:
                pastes = self._history.pastes
                mark = f"[paste {len(pastes) + 1}: {len(text):,} characters]"
                pastes[mark], text = text, mark
            event.current_buffer.insert_text(text)

        return keys
