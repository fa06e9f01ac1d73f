"""The command as users run it, away from the settings and runs of whoever runs the tests."""

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from conftest import MEASURING

COMMAND = [sys.executable, "-m", "outrider"]
PATIENCE_SECONDS = 60


@dataclass(frozen=True)
class Ended:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def error_code(self) -> str:
        return self.json["details"]["error"]["code"]


class Door:
    """A home, a project and a way to run the command in them.

    Its children start cold, or from the fork server in `runtime`.
    """

    def __init__(self, place: Path, runtime: Path | None = None) -> None:
        self.home = place / "home"
        self.project = place / "project"
        self.runs = self.home / ".local/state/outrider/runs"
        self._runtime = runtime
        self._started: list[subprocess.Popen[bytes]] = []
        for folder in (self.home, self.project / ".git"):
            folder.mkdir(parents=True)

    def environment(self, env: Mapping[str, str] | None = None) -> dict[str, str]:
        base = {"PATH": os.environ["PATH"], "HOME": str(self.home), "LANG": "C.UTF-8"}
        if self._runtime is None:
            base["OUTRIDER_WARM__KEEP_MINUTES"] = "0"  # nothing may stay behind
        else:
            base["XDG_RUNTIME_DIR"] = str(self._runtime)
        return {**base, **MEASURING, **(env or {})}

    def start(
        self, *arguments: str, env: Mapping[str, str] | None = None, **options: Any
    ) -> subprocess.Popen[bytes]:
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE}
        process = subprocess.Popen(
            [*COMMAND, *arguments],
            cwd=self.project,
            env=self.environment(env),
            # A test run in the background ignores Ctrl-C, and its children would with it.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            **{**streams, "stderr": subprocess.PIPE, **options},
        )
        self._started.append(process)
        return process

    def close(self) -> None:
        """End what a failed test has left."""
        for process in self._started:
            with process:
                process.kill()

    def run(
        self, *arguments: str, stdin: bytes = b"", env: Mapping[str, str] | None = None
    ) -> Ended:
        process = self.start(*arguments, env=env, stdin=subprocess.PIPE)
        out, err = process.communicate(stdin, timeout=PATIENCE_SECONDS)
        return Ended(process.returncode, out.decode(), err.decode())

    def shell(self, script: str) -> Ended:
        """Run a shell script, whose `$0` is the interpreter."""
        done = subprocess.run(
            ["sh", "-c", script, sys.executable],
            cwd=self.project,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PATIENCE_SECONDS,
        )
        return Ended(done.returncode, done.stdout.decode(), done.stderr.decode())

    def terminal(
        self, *arguments: str, env: Mapping[str, str] | None = None, columns: int = 100, **opts: Any
    ) -> "Terminal":
        terminal = Terminal(self, arguments, env or {}, columns, **opts)
        self._started.append(terminal.process)
        return terminal

    def output_file(self) -> Path | None:
        return next(self.runs.glob("*/output.md"), None)

    def wait_for_output(self, text: str) -> None:
        """Return when the run under way has said `text`."""

        def said() -> bool:
            path = self.output_file()
            return path is not None and text in path.read_text()

        wait_until(said)

    def write_agent(self, name: str, *lines: str, body: str = "You help.") -> Path:
        path = self.project / ".outrider/agents" / f"{name}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(["---", f"name: {name}", *lines, "---", body]))
        return path

    def write_config(self, config: Any) -> Path:
        path = self.home / ".config/outrider/config.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(config if isinstance(config, str) else json.dumps(config))
        return path

    def processes(self) -> list[psutil.Process]:
        """All processes that were started, however indirectly, by this door's commands."""
        return [process for process in psutil.process_iter() if self._is_ours(process)]

    def _is_ours(self, process: psutil.Process) -> bool:
        try:
            # A fork shows the environment of its fork server, but works in its own folder.
            cwd, home = process.cwd(), process.environ().get("HOME")
            # A fork server that had to be replaced, because the code changed, is meant to stay.
            stays = self._runtime is not None and "outrider.child.fork_server" in process.cmdline()
        except psutil.Error:
            return False
        return cwd == str(self.project) or (home == str(self.home) and not stays)

    def assert_nothing_left(self) -> None:
        try:
            wait_until(lambda: not self.processes())
        except AssertionError:
            left = [one.as_dict(["pid", "ppid", "status", "cmdline"]) for one in self.processes()]
            raise AssertionError(f"these processes are left: {left}") from None


def wait_until(reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not reached():
        assert time.monotonic() < deadline, "what the test waits for doesn't come about"
        time.sleep(0.01)


class Terminal:
    """A command in a pseudo-terminal; `screen` is all that it wrote there."""

    def __init__(
        self,
        door: Door,
        arguments: tuple[str, ...],
        env: Mapping[str, str],
        columns: int,
        stdout: int | None = None,
        term: str = "xterm-256color",
        program: Sequence[str] = COMMAND,
    ) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))

        def take_terminal() -> None:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.setsid()
            fcntl.ioctl(slave, termios.TIOCSCTTY, 0)

        self.process = subprocess.Popen(
            [*program, *arguments],
            cwd=door.project,
            env={**door.environment(env), "TERM": term},
            stdin=slave,
            stdout=slave if stdout is None else stdout,
            stderr=slave,
            preexec_fn=take_terminal,
        )
        os.close(slave)
        self.raw = ""

    @property
    def screen(self) -> str:
        """What was written, without the sequences that only move and colour."""
        return re.sub(r"\x1b\[[?0-9;]*[A-Za-z]", "", self.raw)

    def see(self, pattern: str) -> None:
        """Return as soon as `pattern` has been on the screen."""
        while not re.search(pattern, self.screen):
            assert self._read(), f"{pattern!r} never came: {self.raw[-2000:]}"

    def type(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def hang_up(self) -> None:
        """Close the terminal's window."""
        os.close(self._master)

    def end(self) -> int:
        """Read on to the end, and return the exit code."""
        while self._read():
            pass
        os.close(self._master)
        return self.process.wait(PATIENCE_SECONDS)

    def _read(self) -> bool:
        ready, _, _ = select.select([self._master], [], [], PATIENCE_SECONDS)
        assert ready, f"nothing happens on the terminal any more: {self.raw[-2000:]}"
        try:
            data = os.read(self._master, 65536)
        except OSError:  # the other side is closed
            return False
        self.raw += data.decode(errors="replace")
        return bool(data)
