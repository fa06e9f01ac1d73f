"""A command in a real terminal: tmux draws its screen, and types, pastes and resizes."""

import itertools
import os
import re
import shlex
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

from cli_door import COMMAND, PATIENCE_SECONDS, Door
from conftest import needs
from outrider.surfaces.text import width

_numbers = itertools.count()


class Screen:
    """A window of tmux with one command in it."""

    def __init__(
        self,
        door: Door,
        *arguments: str,
        env: Mapping[str, str] | None = None,
        columns: int = 100,
        term: str | None = None,
        program: Sequence[str] = COMMAND,
    ) -> None:
        needs("tmux")
        # Of its own: the server of an earlier screen may still be on its way out.
        self._socket = str(door.home / f"tmux-{next(_numbers)}")
        settings = Path(door.home / "tmux.conf")
        settings.write_text("set -g history-limit 5000\nset -g scroll-on-clear off\n")
        self._ended = door.home / "exit-code"
        self._ended.unlink(missing_ok=True)
        given = {**door.environment(env), "TERM": term or "screen-256color"}
        command = shlex.join(
            ["env", "-i", *(f"{key}={value}" for key, value in given.items()), *program, *arguments]
        )
        size = ("-x", str(columns), "-y", "30")
        place = ("-c", str(door.project))
        # A shell around it, which Ctrl-C doesn't end, tells how it ended.
        told = f"code=$?; trap '' INT; echo $code > {shlex.quote(str(self._ended))}"
        shell = f"trap : INT; {command}; {told}; exec sleep 60"
        self._tmux("-f", str(settings), "new-session", "-d", *size, *place, shell)

    def _tmux(self, *arguments: str, stdin: bytes | None = None) -> str:
        env = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
        command = ["tmux", "-S", self._socket, *arguments]
        return subprocess.run(
            command, env=env, input=stdin, capture_output=True, check=True
        ).stdout.decode()

    @property
    def screen(self) -> str:
        """What is on the screen now."""
        return self._tmux("capture-pane", "-p")

    @property
    def all(self) -> str:
        """What is on the screen and above it, with the lines that the terminal broke made whole."""
        return self._tmux("capture-pane", "-p", "-J", "-S", "-")

    @property
    def widest(self) -> int:
        """How many columns the widest line had when it was written, before a terminal breaks it.

        Remarks of the command are no part of what is drawn: they are as long as they are.
        """
        lines = (line.rstrip() for line in self.all.splitlines())
        return max(width(line) for line in lines if not line.startswith("outrider: "))

    @property
    def coloured(self) -> str:
        return self._tmux("capture-pane", "-p", "-e", "-S", "-")

    @property
    def pid(self) -> int:
        shell = psutil.Process(int(self._tmux("display-message", "-p", "#{pane_pid}")))
        return shell.children()[0].pid

    def see(self, pattern: str) -> None:
        """Return as soon as `pattern` is there."""
        self._wait(lambda: re.search(pattern, self.all), pattern)

    def see_now(self, pattern: str) -> None:
        """Return as soon as `pattern` is on the screen itself."""
        self._wait(lambda: re.search(pattern, self.screen), pattern)

    def see_gone(self, pattern: str) -> None:
        self._wait(lambda: not re.search(pattern, self.screen), f"no {pattern}")

    def _wait(self, reached, what: str) -> None:
        give_up = time.monotonic() + PATIENCE_SECONDS
        while not reached():
            assert time.monotonic() < give_up, f"{what!r} never came:\n{self.all[-3000:]}"
            time.sleep(0.02)

    def type(self, text: str, *keys: str) -> None:
        """Type a text, then keys by their names in tmux."""
        if text:
            self._tmux("send-keys", "-l", text)
        for key in keys:
            self._tmux("send-keys", key)

    def enter(self, text: str) -> None:
        """Type a line and send it."""
        self.type(text, "Enter")

    def paste(self, text: str) -> None:
        """Paste as a terminal does that marks pastes."""
        self._tmux("load-buffer", "-", stdin=text.encode())
        self._tmux("paste-buffer", "-p", "-r", "-d")

    def resize(self, columns: int, rows: int) -> None:
        self._tmux("resize-window", "-x", str(columns), "-y", str(rows))

    def interrupt(self) -> int:
        """Press Ctrl-C until the end, since two at once may count as one; return the exit code."""

        def pressed() -> bool:
            self.type("", "C-c")
            time.sleep(0.1)
            return self._ended.exists()

        self._wait(pressed, "the command's end")
        return self.end()

    def end(self) -> int:
        """Wait for the end, and return the exit code."""
        self._wait(lambda: self._ended.exists() and self._ended.read_text(), "the command's end")
        return int(self._ended.read_text())

    def close(self) -> None:
        subprocess.run(["tmux", "-S", self._socket, "kill-server"], capture_output=True)
