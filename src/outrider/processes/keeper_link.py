"""A link to a keeper: what is below it ends with this process, or when the link is closed."""

import asyncio
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from outrider.processes.cell_start import NO_CELL, small_python
from outrider.processes.keeper import ANSWER_FIELDS
from outrider.processes.reaping import is_broken
from outrider.processes.threads import in_thread
from outrider.protocol.data import frozen

MAX_END_SECONDS = 10.0
"""How long a keeper may take to end what is below it."""


@frozen
class CommandResult:
    """The result of one command."""

    exit_code: int | None
    """None where the command was ended at its timeout."""
    restarted: bool
    """Whether the shell was lost: only its directory and its exported variables remain."""
    tried_network: bool
    """Whether it tried to reach a network that isn't there."""
    cwd: str
    background: tuple[tuple[int, str], ...]
    """Processes that were left running: their ids and command lines."""
    lacks: tuple[str, ...] = ()
    """What the kernel didn't grant to its cell."""
    output: str = ""


class KeeperLink:
    """Starts a keeper, tells it what to do, and takes its answers."""

    def __init__(
        self,
        command: list[str],
        folder: str,
        cwd: Path,
        environment: Mapping[str, str],
        cell: Sequence[str] = NO_CELL,
    ) -> None:
        """Start a keeper of a shell, which removes the folder when it ends.

        `cell` describes what it and all below it are confined to.
        """
        self._folder = folder
        self._received = b""
        self._lifeline, lifeline = socket.socketpair()
        self.output, output = os.pipe()
        """What the shell's commands print can be read here; doesn't block."""
        theirs = (lifeline.fileno(), output)
        try:
            self._keeper = subprocess.Popen(
                [*small_python("keeper"), *map(str, theirs), *cell, folder, *command],
                cwd=cwd,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=theirs,
                start_new_session=True,
            )
        except BaseException:
            self._close()
            shutil.rmtree(folder, ignore_errors=True)
            raise
        finally:
            lifeline.close()
            os.close(output)
        os.set_blocking(self.output, False)
        self._lifeline.setblocking(False)

    @property
    def alive(self) -> bool:
        """Whether the keeper is there."""
        return not is_broken(self._lifeline.fileno())

    def send(self, order: bytes) -> None:
        """Tell the keeper what to do."""
        with suppress(OSError):  # it is gone, which the answer tells
            self._lifeline.send(order)

    async def answer(self) -> CommandResult:
        """Return the keeper's next answer; raises `ConnectionError` where it is gone."""
        loop = asyncio.get_running_loop()
        while self._received.count(b"\0") < ANSWER_FIELDS:
            chunk = await loop.sock_recv(self._lifeline, 65_536)
            if not chunk:
                raise ConnectionError("the keeper is gone")
            self._received += chunk
        code, restarted, tried, cwd, lines, lacks, _ = self._received.split(b"\0")
        self._received = b""
        processes = (line.split(" ", 1) for line in lines.decode().splitlines())
        background = tuple((int(pid), line) for pid, line in processes)
        return CommandResult(
            int(code),
            bool(restarted),
            bool(tried),
            os.fsdecode(cwd),
            background,
            tuple(lacks.decode().splitlines()),
        )

    async def aclose(self) -> None:
        """End the keeper and everything below it."""
        if not self.alive:
            # Somebody killed it. All processes below it are in its group, unless a command left
            # that on purpose. It hasn't been waited for, so its id is still its own.
            self._kill()
        self._close()  # a broken lifeline tells the keeper to end everything
        wait = in_thread(self._keeper.wait)
        try:
            await wait(timeout=MAX_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._kill()
            await wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._keeper.pid, signal.SIGKILL)

    def _close(self) -> None:
        self._lifeline.close()
        os.close(self.output)
