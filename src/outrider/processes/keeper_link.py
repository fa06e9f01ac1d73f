"""A link to a keeper: what is below it ends with this process, or when the link is closed."""

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from outrider.processes.threads import in_thread

KEEPER = Path(__file__).with_name("keeper.py")
END_SECONDS = 10.0
"""How long a keeper may take to end what is below it."""
_CHUNK = 65_536
_MAX_UNREAD = 1024 * 1024

Record = tuple[str, str, str, str]


class KeeperLink:
    """Starts a keeper, sends it lines, and hands on the records that come back."""

    def __init__(self, on_record: Callable[[Record], None], on_loss: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_record = on_record
        self._on_loss = on_loss
        self._received = b""
        self._keeper: subprocess.Popen[bytes] | None = None
        self.folder = tempfile.mkdtemp(prefix="outrider-shell-")
        """Private to the session, and gone with it."""
        self._lifeline, self._their_lifeline = socket.socketpair()
        self._report, self._their_report = os.pipe()
        self.output, self._their_output = os.pipe()
        """Where to read what the shell's commands print; does not block."""

    def start(self, command: list[str], cwd: Path, environment: Mapping[str, str]) -> None:
        """Start the keeper of a command; on a fault nothing is left open."""
        theirs = (self._their_lifeline.fileno(), self._their_report, self._their_output)
        arguments = [*map(str, theirs), self.folder, *command]
        try:
            self._keeper = subprocess.Popen(
                [sys.executable, "-I", "-S", str(KEEPER), *arguments],
                cwd=cwd,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=theirs,
                start_new_session=True,
            )
        except BaseException:
            self._close_ours()
            shutil.rmtree(self.folder, ignore_errors=True)
            raise
        finally:
            self._their_lifeline.close()
            os.close(self._their_report)
            os.close(self._their_output)
        os.set_blocking(self.output, False)
        os.set_blocking(self._report, False)
        self._lifeline.setblocking(False)
        self._loop.add_reader(self._lifeline, self._watch_lifeline)
        self._loop.add_reader(self._report, self._read_records)

    def send(self, line: str) -> None:
        """Tell the keeper what to do."""
        try:
            self._lifeline.send(f"{line}\n".encode())
        except OSError:
            self._lose()

    async def aclose(self) -> None:
        """End everything below the keeper, and the keeper."""
        self._loop.remove_reader(self._lifeline)
        self._loop.remove_reader(self._report)
        # To the keeper the end of its lifeline is the order to end everything.
        self._close_ours()
        if self._keeper is not None:
            await _ended(self._keeper)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _close_ours(self) -> None:
        self._lifeline.close()
        os.close(self._report)
        os.close(self.output)

    def _watch_lifeline(self) -> None:
        try:
            alive = bool(self._lifeline.recv(_CHUNK))
        except BlockingIOError:
            return
        except OSError:
            alive = False
        if not alive:
            self._lose()

    def _lose(self) -> None:
        self._loop.remove_reader(self._lifeline)
        if self._keeper is not None:
            # Someone killed it. It led the group that all of it belongs to, unless a command
            # left that on purpose; not waited for yet, its number is still its own.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._keeper.pid, signal.SIGKILL)
        self._on_loss()

    def _read_records(self) -> None:
        try:
            chunk = os.read(self._report, _CHUNK)
        except BlockingIOError:
            return
        if not chunk:
            self._loop.remove_reader(self._report)
        *fields, rest = (self._received + chunk).split(b"\0")
        whole = len(fields) // 4 * 4
        self._received = b"\0".join([*fields[whole:], rest])
        texts = [os.fsdecode(field) for field in fields[:whole]]
        try:
            for kind, first, second, third in zip(*[iter(texts)] * 4, strict=True):
                self._on_record((kind, first, second, third))
            forged = len(self._received) > _MAX_UNREAD
        except ValueError:
            forged = True
        if forged:  # a command found this pipe: nothing that comes through it can be trusted
            self._loop.remove_reader(self._report)
            self._on_loss()


async def _ended(keeper: subprocess.Popen[bytes]) -> None:
    wait = in_thread(keeper.wait)
    try:
        await wait(timeout=END_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(keeper.pid, signal.SIGKILL)
        await wait()
