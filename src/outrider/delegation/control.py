"""The socket in a run's folder, by which whoever supervises it is told something, or to stop.

The folder is the user's alone, the kernel says who connects, and what other users send isn't
read. A confined child sees no run's folder. Nothing here can go stale: a socket without a process
refuses, and whether a run is alive is asked of the lock on its transcript.
"""

import asyncio
import os
import socket
import struct
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from outrider.protocol import jsonl
from outrider.protocol.data import as_object
from outrider.records.runs import is_running

SOCKET = "control.sock"
MAX_LINE_BYTES = 16 << 20
RETRY_SECONDS = 0.02
"""How soon a run that is running is asked again: its socket opens when its child is started."""

_stream = partial(asyncio.open_unix_connection, limit=MAX_LINE_BYTES)
Json = dict[str, Any]
Answer = Callable[[Json], Json]


class ControlSocket:
    """Answers what is asked about one run, until it has ended."""

    def __init__(self, folder: Path, answer: Answer) -> None:
        self._path = folder / SOCKET
        self._answer = answer
        self._loop = asyncio.get_running_loop()
        self._talks: set[asyncio.Future[None]] = set()
        self._socket = socket.socket(socket.AF_UNIX)
        # When the child has been started: it needn't wait for this.
        self._opening = self._loop.call_later(0, self._open)

    def _open(self) -> None:
        try:
            self._path.unlink(missing_ok=True)  # of a process that was killed; the lock is ours
            with _address(self._path.parent) as address:
                self._socket.bind(address)
            os.chmod(self._path, 0o600)
            self._socket.listen()
            self._socket.setblocking(False)
            self._loop.add_reader(self._socket, self._accept)
        except OSError:  # a full disk, say: a run that nobody can talk to goes on all the same
            self._socket.close()

    def close(self) -> None:
        """Answer nobody any more."""
        self._opening.cancel()
        if self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket)
            self._socket.close()
            with suppress(OSError):
                self._path.unlink()
        for talk in self._talks:
            talk.cancel()

    def _accept(self) -> None:
        with suppress(OSError):
            connection, _ = self._socket.accept()
            talk = asyncio.ensure_future(self._talk(connection))
            self._talks.add(talk)
            talk.add_done_callback(self._talks.discard)

    async def _talk(self, connection: socket.socket) -> None:
        reader, writer = await _stream(sock=connection)
        with closing(writer), suppress(OSError, ValueError):
            if _is_own(connection):
                question = as_object(jsonl.decode(await reader.readline()))
                writer.write(jsonl.encode(self._answer(question)) + b"\n")


async def ask_run(folder: Path, question: Mapping[str, Any]) -> Json | None:
    """Return what the supervisor of a run answers; None where the run has ended.

    It may have no socket yet, or none any more because it lands: it is waited for.
    """
    while is_running(folder):
        connection = socket.socket(socket.AF_UNIX)
        connection.setblocking(False)  # one that is stopped accepts nobody
        try:
            with _address(folder) as address:
                connection.connect(address)
        except OSError:
            connection.close()
            await asyncio.sleep(RETRY_SECONDS)
            continue
        # From here on it isn't tried again: what is told must not be told twice.
        reader, writer = await _stream(sock=connection)
        with closing(writer), suppress(OSError, ValueError):  # of a process that is ending
            writer.write(jsonl.encode(question) + b"\n")
            return as_object(jsonl.decode(await reader.readline()))
        break
    return None


def _is_own(connection: socket.socket) -> bool:
    """Whether a process of this user is at the other end."""
    if sys.platform != "linux":
        return True  # the folder's permissions see to it
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return struct.unpack("3i", credentials)[1] == os.getuid()


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
