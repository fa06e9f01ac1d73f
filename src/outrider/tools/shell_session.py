"""A persistent shell whose end ends everything it started.

What a command prints can't be taken for an answer of the shell: they come through separate pipes.
"""

import asyncio
import contextlib
import fcntl
import os
import shutil
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from outrider.processes.keeper_link import KeeperLink, Record
from outrider.tools.shell_output import OutputBuffer
from outrider.tools.shell_script import shell_command

ANSWER_SECONDS = 30.0
"""How long the keeper and a new shell may take for what they do at once."""
_CHUNK = 65_536
_QUIET = {"TERM": "dumb", "PAGER": "cat", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0"}
_UNWANTED = {"BASH_ENV", "ENV", "PROMPT_COMMAND", "SHELLOPTS", "BASHOPTS"}

ValueT = TypeVar("ValueT")


@dataclass(frozen=True, slots=True)
class Background:
    """A process that a command left running."""

    pid: int
    command: str


@dataclass(frozen=True, slots=True)
class ShellResult:
    """What came of one command."""

    output: str
    exit_code: int | None
    """None where the command was ended at its timeout."""
    cwd: str
    background: tuple[Background, ...]
    background_count: int
    restarted: bool
    """Whether the shell was lost: only its directory and its exported variables remain."""


class ShellEnded(Exception):
    """The shell is gone for good, and what it ran with it."""


@dataclass(frozen=True, slots=True)
class _Ending:
    exit_code: int
    gone: bool


class ShellSession:
    """One shell, one command at a time."""

    def __init__(self, cwd: Path, environment: Mapping[str, str]) -> None:
        self._loop = asyncio.get_running_loop()
        self._calls = 0
        self._cwd = str(cwd)
        self._ready = asyncio.Event()
        self._ending: asyncio.Future[_Ending] | None = None
        self._listing: asyncio.Future[tuple[int, str]] | None = None
        self._alive = True
        kept = {name: value for name, value in environment.items() if name not in _UNWANTED}
        program = shell_program(kept.get("PATH"))
        self._link = KeeperLink(self._on_record, self._on_loss)
        self._link.start(shell_command(program, self._link.folder), cwd, {**kept, **_QUIET})
        self._link.send("start")

    @property
    def alive(self) -> bool:
        """Whether another command can be run."""
        return self._alive

    async def run(self, command: str, timeout_ms: int) -> ShellResult:
        """Return what a command came to; one that is cancelled takes the shell with it."""
        output = OutputBuffer()
        try:
            await self._until_ready()
            with self._reading(output):
                ending = await self._ended(command, timeout_ms / 1000)
                await self._until_ready()
                count, background = await self._background()
            self._drain(output)
        except BaseException:
            self._alive = False
            raise
        return ShellResult(
            output=output.text(),
            exit_code=ending.exit_code if ending else None,
            cwd=self._cwd,
            background=background,
            background_count=count,
            restarted=ending is None or ending.gone,
        )

    async def aclose(self) -> None:
        """End the shell and whatever it started."""
        self._alive = False
        await self._link.aclose()

    async def _until_ready(self) -> None:
        async with asyncio.timeout(ANSWER_SECONDS):
            await self._ready.wait()
        if not self._alive:
            raise ShellEnded("the shell was ended from outside")

    async def _ended(self, command: str, seconds: float) -> _Ending | None:
        try:
            with open(os.path.join(self._link.folder, "command"), "wb") as file:  # noqa: ASYNC230  # small
                file.write(command.encode())
        except FileNotFoundError:  # `rm -rf /tmp/*`
            raise ShellEnded("the shell's own folder was removed") from None
        self._calls += 1
        self._ending = self._loop.create_future()
        self._link.send(f"run {self._calls}")
        try:
            done, _ = await asyncio.wait({self._ending}, timeout=seconds)
            if done:
                return self._ending.result()
            self._link.send("stop")
            async with asyncio.timeout(ANSWER_SECONDS):
                await self._ending
            return None
        finally:
            self._ending = None

    async def _background(self) -> tuple[int, tuple[Background, ...]]:
        self._listing = self._loop.create_future()
        self._link.send("list")
        async with asyncio.timeout(ANSWER_SECONDS):
            count, lines = await self._listing
        pairs = [line.split(" ", 1) for line in lines.splitlines()]
        return count, tuple(Background(int(pid), text) for pid, text in pairs)

    @contextlib.contextmanager
    def _reading(self, output: OutputBuffer) -> Generator[None]:
        # Between commands nobody reads: a process that floods its output then has to wait.
        self._loop.add_reader(self._link.output, self._read, output)
        try:
            yield
        finally:
            self._loop.remove_reader(self._link.output)

    def _read(self, output: OutputBuffer) -> int:
        try:
            chunk = os.read(self._link.output, _CHUNK)
        except BlockingIOError:
            return 0
        output.add(chunk)
        return len(chunk)

    def _drain(self, output: OutputBuffer) -> None:
        """Take what the command left in the pipe, which is no more than the pipe holds."""
        left = _pipe_capacity(self._link.output)
        while left > 0 and (taken := self._read(output)):
            left -= taken

    def _on_loss(self) -> None:
        self._alive = False
        self._ready.set()
        for waiting in (self._ending, self._listing):
            if waiting is not None and not waiting.done():
                waiting.set_exception(ShellEnded("the shell was ended from outside"))

    def _on_record(self, record: Record) -> None:
        kind, first, second, third = record
        if kind == "ready":
            self._cwd = third
            self._ready.set()
        elif kind == "done" and first == str(self._calls):
            self._cwd = third
            _settle(self._ending, _Ending(int(second), gone=False))
        elif kind == "gone":
            self._ready.clear()
            self._link.send("start")
            _settle(self._ending, _Ending(int(second), gone=True))
        elif kind == "processes":
            _settle(self._listing, (int(first), second))


def shell_program(path: str | None) -> str:
    """Return the shell to use: bash, or else sh."""
    for name in ("bash", "sh"):
        found = shutil.which(name, path=path) or shutil.which(name, path=os.defpath)
        if found:
            return found
    raise FileNotFoundError("neither bash nor sh was found on PATH")


def _settle(waiting: asyncio.Future[ValueT] | None, value: ValueT) -> None:
    if waiting is not None and not waiting.done():
        waiting.set_result(value)


def _pipe_capacity(descriptor: int) -> int:
    ask: int | None = getattr(fcntl, "F_GETPIPE_SZ", None)
    return fcntl.fcntl(descriptor, ask) if ask is not None else _CHUNK
