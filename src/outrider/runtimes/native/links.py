"""A child over the four descriptors that its parent holds, until nothing of the child is left.

Dropping the lifeline ends the child; the kernel drops it when this process dies. Events come over
sockets: unlike a pipe, a socket can't be opened through `/proc`, so no command that a child runs
can forge an event, or hold the lifeline for us.
"""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import weakref
from collections.abc import Callable
from contextlib import suppress

from outrider.processes.reaping import sweep_marked
from outrider.processes.shielding import finish, wait_for_all
from outrider.protocol.brief import RUN_VARIABLE, Start
from outrider.protocol.data import to_json
from outrider.protocol.errors import OutriderError
from outrider.runtimes.runtime import ChildExit, Listener

CHUNK_BYTES = 1 << 18
MAX_STOP_SECONDS = 20.0
MAX_FORK_SECONDS = 30.0
"""How long a fork server may take to fork: many wait for it at once on a small machine."""
LOOK_EVERY_SECONDS = 0.5
"""How often we look whether the fork server that we wait for has been stopped."""
# -P: the working directory is hostile ground, and must not be searched for modules.
PYTHON = (sys.executable, "-P", "-m")


class StartFailed(OutriderError):
    """A child that could not be started."""


class Links:
    """A child as its parent holds it. Leaving `follow`, however that happens, ends the child."""

    def __init__(
        self, ours: list[int], unsent: bytes, process: "subprocess.Popen[bytes] | None"
    ) -> None:
        lifeline, *self._readable = ours
        self.is_stuck = False  # whether a fork server took the task and never forked
        self._lifeline = socket.socket(fileno=lifeline)
        self._unsent = memoryview(unsent)
        """What the child hasn't taken yet: first the brief, later answers to its requests."""
        self._awaited: set[int] = set()  # the descriptors that the loop watches for us
        self._process = process
        """The guardian, where it is ours to wait for; that of a forked child isn't."""
        self._status = b""
        self._loop = asyncio.get_running_loop()
        self._gone: asyncio.Future[None] = self._loop.create_future()
        self._lifeline.setblocking(False)
        for descriptor in self._readable:
            os.set_blocking(descriptor, False)
        _lifelines.add(self._lifeline)

    async def follow(
        self, listener: Listener, run_id: str, fork_server: int | None = None
    ) -> ChildExit:
        """Pass on what the child sends until all of it is gone; return how it ended."""
        events, errors, status = self._readable
        give_up = self._loop.time() + MAX_FORK_SECONDS
        try:
            listener.on_link(self._send)
            self._awaited.update(self._readable)
            self._loop.add_reader(events, self._pass_on, events, listener.on_events)
            self._loop.add_reader(errors, self._pass_on, errors, listener.on_errors)
            self._loop.add_reader(status, self._on_status, listener)
            self._send(b"")
            while not self._gone.done() and not self.is_stuck:
                seconds = LOOK_EVERY_SECONDS if self._is_nobody else None
                await asyncio.wait({self._gone}, timeout=seconds)
                self._on_status(listener)  # this process may be the one that is late
                late = self._loop.time() > give_up or _is_stopped(fork_server)
                self.is_stuck = late and self._is_nobody
        finally:
            await self._end(listener, run_id)
        return self._exit()

    def _send(self, data: bytes) -> None:
        """Send more to the child, behind what it hasn't taken yet."""
        if self._lifeline.fileno() < 0:
            return  # the child was let go of meanwhile
        if data:
            self._unsent = memoryview(bytes(self._unsent) + data)
        try:
            while self._unsent:
                self._unsent = self._unsent[self._lifeline.send(self._unsent) :]
        except BlockingIOError:
            self._loop.add_writer(self._lifeline.fileno(), self._send, b"")
            self._awaited.add(self._lifeline.fileno())
            return
        except OSError:  # the child is gone, which its status tells
            self._unsent = memoryview(b"")
        self._let_go(self._lifeline.fileno())

    def _pass_on(self, descriptor: int, take: Callable[[bytes], None]) -> bool:
        """Hand over what is there now; return whether there was anything."""
        data = self._read(descriptor)
        if data:
            take(data)
        return bool(data)

    def _on_status(self, listener: Listener) -> None:
        data = self._read(self._readable[-1])
        self._status += data or b""
        if data is None and not self._gone.done():
            # What the child said last may still be in the socket.
            while self._pass_on(self._readable[0], listener.on_events):
                pass
            self._gone.set_result(None)

    def _read(self, descriptor: int) -> bytes | None:
        """Return what is there now, empty for nothing yet, None where nothing more will come."""
        try:
            data = os.read(descriptor, CHUNK_BYTES)
        except BlockingIOError:
            return b""
        if data:
            return data
        self._let_go(descriptor)
        return None

    def _let_go(self, descriptor: int) -> None:
        """Have the loop watch a descriptor no more; to ask that twice would be slow."""
        if descriptor in self._awaited:
            self._awaited.remove(descriptor)
            is_read = descriptor in self._readable
            (self._loop.remove_reader if is_read else self._loop.remove_writer)(descriptor)

    @property
    def _told(self) -> list[str]:
        """What the guardian said: its id, before the child begins, and how the child ended."""
        return self._status.decode(errors="replace").split("\n")[:-1]

    @property
    def _is_nobody(self) -> bool:
        """Whether there is no process yet to wait for: the fork server has not forked."""
        return self._process is None and not self._told

    async def _end(self, listener: Listener, run_id: str) -> None:
        """Let the guardian end what is left, and make sure that it does."""
        self._let_go(self._lifeline.fileno())
        with suppress(OSError):
            # Closing alone says nothing as long as some fork of this process holds a copy.
            self._lifeline.shutdown(socket.SHUT_RDWR)
        self._lifeline.close()
        try:
            # A child begins only after we were told of it, and with its lifeline whole: so one
            # that we know nothing of now never will, and another can be started in its place.
            if self._is_nobody:
                self._on_status(listener)
            if not self._is_nobody:
                await wait_for_all({self._gone}, MAX_STOP_SECONDS)
        finally:
            if not self._gone.done():
                self._kill()
            for descriptor in self._readable:
                self._let_go(descriptor)
                os.close(descriptor)
            if self._process is not None:
                self._process.wait()
            if len(self._told) == 1:  # the guardian was killed, and ended nothing
                await finish(asyncio.to_thread(sweep_marked, RUN_VARIABLE, run_id))

    def _kill(self) -> None:
        """End the guardian itself, whose death the kernel turns into the child's."""
        guardians = [int(line.removeprefix("pid ")) for line in self._told[:1]]
        for guardian in [self._process.pid] if self._process else guardians:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(guardian, signal.SIGKILL)

    def _exit(self) -> ChildExit:
        if not self._told:
            return ChildExit(started=False)
        self.is_stuck = False  # it may have forked at the last moment
        kind, _, number = self._told[-1].partition(" ")
        if kind == "exit":
            return ChildExit(started=True, code=int(number))
        # The kernel ends the child of a guardian that was killed.
        return ChildExit(started=True, signal=int(number) if kind == "signal" else signal.SIGKILL)


def _is_stopped(pid: int | None) -> bool:
    """Whether a process does nothing until somebody lets it go on, as after SIGSTOP."""
    with suppress(OSError), open(f"/proc/{pid}/stat", "rb") as stat:
        return stat.read().rpartition(b") ")[2].startswith(b"T")
    return False


_lifelines: "weakref.WeakSet[socket.socket]" = weakref.WeakSet()


def _drop_lifelines() -> None:
    """Drop all lifelines in a fork of this process: it must not keep our children alive."""
    for lifeline in _lifelines:
        lifeline.close()


os.register_at_fork(after_in_child=_drop_lifelines)

HandOver = Callable[[tuple[int, ...]], "subprocess.Popen[bytes] | None"]


def start_line(start: Start) -> bytes:
    """Return what a child of our own reads first."""
    # In ASCII it keeps what is no Unicode: a folder's name, or a variable, can be any bytes.
    return json.dumps(to_json(start)).encode() + b"\n"


def with_links(data: bytes, hand_over: HandOver) -> Links:
    """Return the links to the child that `hand_over` starts with their other ends.

    `data` is what it reads first. Raises `StartFailed`.
    """
    ours: list[int] = []
    theirs: list[int] = []
    try:
        for is_pipe in (False, False, True, False):
            # stderr is a pipe, since a tool's own processes open it as `/dev/stderr`.
            pair = os.pipe() if is_pipe else [one.detach() for one in socket.socketpair()]
            ours.append(pair[0])
            theirs.append(pair[1])
        process = hand_over(tuple(theirs))
    except (OSError, ValueError) as error:
        for descriptor in ours:
            os.close(descriptor)
        raise StartFailed(f"The child could not be started: {error}") from error
    finally:
        for descriptor in theirs:
            os.close(descriptor)
    return Links(ours, data, process)
