"""The socket in a run's folder, on which whoever supervises the run answers: state, tell, stop.

The folder is the user's alone, the kernel says who connects, and what other users send isn't
read. A confined child sees no run's folder. Nothing here can go stale: a socket without a process
refuses, and whether a run is alive is asked of the lock on its transcript.
"""

import asyncio
import os
import socket
import struct
import sys
from collections.abc import Callable, Coroutine, Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from outrider.processes.shielding import wait_for_all
from outrider.protocol import jsonl
from outrider.protocol.data import as_object
from outrider.records.runs import is_running

SOCKET = "control.sock"
MAX_REQUEST_BYTES = 16 << 20
MAX_GOODBYE_SECONDS = 1.0
"""How long the last answers may take to be written when the run has ended."""
RETRY_SECONDS = 0.02
"""How soon a run that is running is asked again: its socket opens when its child is started."""

Json = dict[str, Any]
Answer = Callable[[Json], Coroutine[Any, Any, Json]]


class ControlSocket:
    """Answers what is asked about one run, from when its child was started until it has ended."""

    def __init__(self, folder: Path, answer: Answer) -> None:
        self._folder = folder
        self._answer = answer
        self._loop = asyncio.get_running_loop()
        self._socket: socket.socket | None = None
        self._talks: set[asyncio.Future[None]] = set()
        self._asked: set[asyncio.Future[None]] = set()
        """Those of the talks in which there is a question to answer."""
        # Not now: the child is started first.
        self._opening = self._loop.call_soon(self._open)

    async def close(self) -> None:
        """Answer nobody any more; what was asked before is still answered."""
        self._opening.cancel()
        if self._socket is not None:
            self._loop.remove_reader(self._socket)
            self._socket.close()
            with suppress(OSError):
                os.unlink(self._folder / SOCKET)
        if self._asked:
            await wait_for_all(self._asked, MAX_GOODBYE_SECONDS)
        for talk in self._talks:
            talk.cancel()

    def _open(self) -> None:
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | _CLOSE_ON_EXEC)
        try:
            with suppress(FileNotFoundError):  # of a process that was killed; the lock is ours
                os.unlink(self._folder / SOCKET)
            with _address(self._folder) as address:
                listening.bind(address)
            os.chmod(self._folder / SOCKET, 0o600)
            listening.listen()
            listening.setblocking(False)
        except OSError:  # a full disk, say: a run that nobody can talk to goes on all the same
            listening.close()
            return
        self._socket = listening
        self._loop.add_reader(listening, self._accept, listening)

    def _accept(self, listening: socket.socket) -> None:
        with suppress(OSError):
            connection, _ = listening.accept()
            if _is_own(connection):
                talk = asyncio.ensure_future(self._talk(connection))
                self._talks.add(talk)
                talk.add_done_callback(self._talks.discard)
            else:
                connection.close()

    async def _talk(self, connection: socket.socket) -> None:
        """Answer one question."""
        limit = MAX_REQUEST_BYTES
        reader, writer = await asyncio.open_unix_connection(sock=connection, limit=limit)
        this = asyncio.current_task()
        assert this is not None
        try:
            with suppress(OSError, ValueError):
                question = as_object(jsonl.decode(await reader.readline()))
                self._asked.add(this)
                writer.write(jsonl.encode(await self._answer(question)) + b"\n")
                await writer.drain()
        finally:
            self._asked.discard(this)
            writer.close()


async def ask_run(folder: Path, question: Mapping[str, Any]) -> Json | None:
    """Return what the supervisor of a run answers; None where the run has ended."""
    while is_running(folder):
        try:
            connection = _connected(folder)
        except OSError:
            await asyncio.sleep(RETRY_SECONDS)
            continue
        # From here on it isn't tried again: what is told must not be told twice.
        reader, writer = await asyncio.open_unix_connection(sock=connection)
        try:
            writer.write(jsonl.encode(question) + b"\n")
            return as_object(jsonl.decode(await reader.readline()))
        except (OSError, ValueError):  # the process has ended, or is ending
            return None
        finally:
            writer.close()
    return None


_CLOSE_ON_EXEC = getattr(socket, "SOCK_CLOEXEC", 0)


def _is_own(connection: socket.socket) -> bool:
    """Whether a process of this user is at the other end."""
    if sys.platform != "linux":
        return True  # the folder's permissions see to it
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return struct.unpack("3i", credentials)[1] == os.getuid()


def _connected(folder: Path) -> socket.socket:
    """Return a connection to a run's supervisor; raises `OSError`."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | _CLOSE_ON_EXEC)
    try:
        connection.setblocking(False)  # one that is stopped accepts nobody
        with _address(folder) as address:
            connection.connect(address)
    except OSError:
        connection.close()
        raise
    return connection


@contextmanager
def _address(folder: Path) -> Generator[str]:
    """Yield the address of a run's socket; the kernel takes no path of more than 107 bytes."""
    if sys.platform != "linux":
        yield str(folder / SOCKET)
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}/{SOCKET}"
    finally:
        os.close(descriptor)
