"""Follows one child over its four descriptors until it and everything it started are gone."""

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress

from outrider.processes.reaping import sweep_marked
from outrider.processes.shielding import ended, shielded
from outrider.runtimes.native.links import Links
from outrider.runtimes.runtime import ChildExit, Listener

CHUNK_BYTES = 1 << 18
MAX_STOP_SECONDS = 20.0
MAX_FORK_SECONDS = 30.0
"""How long a fork server may take to fork: many wait for it at once on a small machine."""
LOOK_EVERY_SECONDS = 0.5
"""How often we look whether the fork server that we wait for has been stopped."""
KILL_SIGNAL = 9


class Following:
    """Passes on what a child sends. Leaving `run`, however that happens, ends the child."""

    def __init__(
        self, links: Links, listener: Listener, mark: str, fork_server: int | None = None
    ) -> None:
        """`mark` is what the environment of everything that the child starts has in common."""
        self.is_stuck = False
        """Whether a fork server took the task and never forked."""
        self._links = links
        self._listener = listener
        self._mark = mark
        self._fork_server = fork_server
        self._status = b""
        self._started = False
        self._is_gone = False
        self._listening: set[int] = set()
        self._is_waiting_to_send = False
        self._loop = asyncio.get_running_loop()
        self._news: asyncio.Future[None] = self._loop.create_future()
        """Done when the child is gone, or when we have waited long enough."""
        self._timer = self._loop.call_later(
            LOOK_EVERY_SECONDS, self._look, self._loop.time() + MAX_FORK_SECONDS
        )

    async def run(self) -> ChildExit:
        """Return how the child ended."""
        try:
            self._listen()
            await self._news
        finally:
            self._timer.cancel()
            await self._end()
        return self._exit()

    def _listen(self) -> None:
        links = self._links
        self._listening |= {links.events, links.errors, links.status}
        self._listener.on_link(self._send)
        self._loop.add_reader(links.events, self._pass_on, links.events, self._listener.on_events)
        self._loop.add_reader(links.errors, self._pass_on, links.errors, self._listener.on_errors)
        self._loop.add_reader(links.status, self._on_status)
        self._send(b"")

    def _send(self, data: bytes) -> None:
        """Send more to the child, behind what it hasn't taken yet."""
        if self._links.lifeline.fileno() < 0:
            return  # the child was let go of meanwhile
        if not self._links.send(data):
            self._is_waiting_to_send = True
            self._loop.add_writer(self._links.lifeline, self._send, b"")
        elif self._is_waiting_to_send:
            self._stop_sending()

    def _stop_sending(self) -> None:
        self._is_waiting_to_send = False
        self._loop.remove_writer(self._links.lifeline)

    def _pass_on(self, descriptor: int, take: Callable[[bytes], None]) -> bool:
        """Hand over what is there now; return whether there was anything."""
        data = self._read(descriptor)
        if data:
            take(data)
        return bool(data)

    def _on_status(self) -> None:
        data = self._read(self._links.status)
        if data:
            self._status += data
            self._note_guardian()
        elif data is None and not self._is_gone:
            # What the child said last may still be in the socket.
            while self._pass_on(self._links.events, self._listener.on_events):
                pass
            self._is_gone = True
            self._wake()

    def _wake(self) -> None:
        if not self._news.done():
            self._news.set_result(None)

    def _note_guardian(self) -> None:
        """Note who guards the child: its id comes first of all, so the child was started."""
        first, end, _ = self._status.partition(b"\n")
        if end:
            self._links.guardian = int(first.removeprefix(b"pid "))
            self._started = True

    def _read(self, descriptor: int) -> bytes | None:
        """Return what is there now, empty for nothing yet, None where nothing more will come."""
        try:
            data = os.read(descriptor, CHUNK_BYTES)
        except BlockingIOError:
            return b""
        if data:
            return data
        self._stop_listening(descriptor)
        return None

    def _stop_listening(self, descriptor: int) -> None:
        if descriptor in self._listening:
            self._listening.remove(descriptor)
            self._loop.remove_reader(descriptor)

    @property
    def _is_nobody(self) -> bool:
        """Whether there is no process yet to wait for: the fork server has not forked."""
        return self._links.process is None and not self._started

    def _look(self, give_up: float) -> None:
        """Wait no longer for a fork server that takes too long, or that somebody has stopped."""
        self._on_status()  # this process may be the one that is late
        if not self._is_nobody:
            return
        if self._loop.time() < give_up and not _is_stopped(self._fork_server):
            self._timer = self._loop.call_later(LOOK_EVERY_SECONDS, self._look, give_up)
            return
        self.is_stuck = True
        self._wake()

    async def _end(self) -> None:
        """Let the guardian end what is left, and make sure that it does."""
        if self._is_waiting_to_send:
            self._stop_sending()
        self._links.stop()
        try:
            # A child begins only after we were told of it, and with its lifeline whole: so one
            # that we know nothing of now never will, and another can be started in its place.
            self._on_status()
            if not self._is_gone and not self._is_nobody:
                self._news = self._loop.create_future()
                self._timer = self._loop.call_later(MAX_STOP_SECONDS, self._wake)
                await ended({self._news})
        finally:
            self._timer.cancel()
            if not self._is_gone:
                self._links.kill()
            for descriptor in tuple(self._listening):
                self._stop_listening(descriptor)
            self._links.release()
            if self._guardian_was_killed:
                await shielded(asyncio.to_thread(sweep_marked, self._mark))

    @property
    def _guardian_was_killed(self) -> bool:
        """Whether the guardian is gone without a last word on how the child ended."""
        return self._status.startswith(b"pid") and self._status.count(b"\n") == 1

    def _exit(self) -> ChildExit:
        self.is_stuck = self.is_stuck and not self._started  # it forked at the last moment
        last = self._status.decode(errors="replace").splitlines()[-1:]
        kind, _, number = "".join(last).partition(" ")
        if kind == "signal":
            return ChildExit(self._started, int(number))
        if kind == "exit":
            return ChildExit(self._started, code=int(number))
        # The kernel ends the child of a guardian that was killed.
        return ChildExit(self._started, KILL_SIGNAL if self._guardian_was_killed else None)


def _is_stopped(pid: int | None) -> bool:
    """Whether a process does nothing until somebody lets it go on, as after SIGSTOP."""
    with suppress(OSError), open(f"/proc/{pid}/stat", "rb") as stat:
        return stat.read().rpartition(b") ")[2].startswith(b"T")
    return False
