"""The warm process: it has imported and exercised all that a child needs, and forks one for each
request. It has one thread, no event loop and no caller's secrets, for every fork inherits it all.

`python -m outrider.child.fork_server host FD PROVIDER` serves one host, until that lets go of it;
`… user LOCK_FD PATH MINUTES PROVIDER` serves a user's commands.
"""

import contextlib
import gc
import json
import os
import select
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable
from typing import NoReturn

from outrider.processes.guardian import BEGIN, call_oneself, libc, run_guarded, run_spare

READY = b"ready"
PIPES = 4
SPARE_AFTER_MS = 20
"""How long nobody must have come before a spare child is made: before, it would be in the way."""
MAX_BYTES = 4096
MAX_JOIN_SECONDS = 5.0


class Unfit(Exception):
    """Why this process must not be forked."""


def main(arguments: list[str]) -> None:
    """Warm up, then serve until nobody needs it."""
    match arguments:
        case ["host", descriptor, provider]:
            connection = socket.socket(fileno=int(descriptor))
            warm_up(provider)
            connection.send(READY)
            _Server(provider, connections=[connection]).serve()
        case ["user", lock, path, minutes, provider]:
            warm_up(provider)
            idle_seconds = float(minutes) * 60
            _Server(
                provider, path, _listen(path), lock=int(lock), idle_seconds=idle_seconds
            ).serve()
        case _:
            sys.exit(__doc__)


def warm_up(provider: str) -> None:
    """Become a process to fork from: all is loaded and done once, and one thread is left."""
    call_oneself("warm")
    from outrider.child.rehearsal import rehearse

    rehearse()
    libc()
    _load(provider)
    # The forks of this process end on their own; nobody waits for them here.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)


def _load(provider: str) -> None:
    """Make ready for a provider's models, and see to it that this process can be forked."""
    from outrider.child.rehearsal import load_provider

    load_provider(provider)
    _join_threads()
    gc.collect()
    gc.freeze()


def _join_threads() -> None:
    """Wait until no thread but this one is left, to the kernel's knowledge; raises `Unfit`."""
    give_up = time.monotonic() + MAX_JOIN_SECONDS
    while (threads := len(os.listdir("/proc/self/task"))) != 1:
        if time.monotonic() > give_up:
            raise Unfit(f"{threads} threads are left after warming up")
        time.sleep(0.001)


def _listen(path: str) -> socket.socket:
    """Return a socket at `path` that only this user can connect to."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    staged = f"{path}.{os.getpid()}"
    old_mask = os.umask(0o177)
    try:
        listener.bind(staged)
    finally:
        os.umask(old_mask)
    listener.listen(128)
    # In one step, so that nobody meets a socket that doesn't listen yet.
    os.rename(staged, path)
    return listener


class _Server:
    """Takes requests one after the other; each is answered with a fork."""

    def __init__(
        self,
        provider: str,
        path: str | None = None,
        listener: socket.socket | None = None,
        *,
        connections: list[socket.socket] | None = None,
        lock: int | None = None,
        idle_seconds: float | None = None,
    ) -> None:
        self._loaded = {provider}
        self._asked = {provider}
        self._connections = {one.fileno(): one for one in connections or ()}
        self._listener = listener
        self._lock = lock
        self._spare: socket.socket | None = None
        self._idle_seconds = idle_seconds
        self._started = time.time()
        self._served = 0
        self._until = self._next_end()
        self._path = path
        self._identity = _identity(self._path)

    def serve(self) -> None:
        """Serve until the host lets go, or nobody has come for a while, or somebody says stop."""
        with contextlib.suppress(KeyboardInterrupt):
            while self._connections or self._is_wanted():
                ready = self._ready()
                for descriptor in ready:
                    self._on_ready(descriptor)
                if not ready and self._spare is None:
                    self._learn()
                    self._make_spare()
        self._take_down()

    def _is_wanted(self) -> bool:
        # A newer one may have taken the path: then nobody can find this one any more.
        return (
            self._listener is not None
            and time.monotonic() < self._until
            and _identity(self._path) == self._identity
        )

    def _next_end(self) -> float:
        return time.monotonic() + (self._idle_seconds or 0)

    def _ready(self) -> list[int]:
        poller = select.poll()
        for descriptor in self._connections:
            poller.register(descriptor, select.POLLIN)
        wait_ms = None if self._spare else SPARE_AFTER_MS
        if self._listener is not None:
            poller.register(self._listener, select.POLLIN)
            left_ms = max(0.0, min(self._until - time.monotonic(), 60.0)) * 1000
            wait_ms = min(left_ms, wait_ms or left_ms)
        return [descriptor for descriptor, _ in poller.poll(wait_ms)]

    def _on_ready(self, descriptor: int) -> None:
        if self._listener is not None and descriptor == self._listener.fileno():
            connection, _ = self._listener.accept()
            if _peer_uid(connection) == os.getuid():
                connection.settimeout(5)
                self._connections[connection.fileno()] = connection
            else:
                connection.close()
            return
        connection = self._connections[descriptor]
        try:
            message, pipes, _, _ = socket.recv_fds(connection, MAX_BYTES, PIPES)
        except OSError:
            message, pipes = b"", []
        if not message:
            del self._connections[descriptor]
            connection.close()
        else:
            self._answer(connection, message, pipes)
        self._until = self._next_end()

    def _answer(self, connection: socket.socket, message: bytes, pipes: list[int]) -> None:
        words = message.split(maxsplit=2)
        if words[0] == b"start" and len(pipes) == PIPES:
            self._served += 1
            self._asked.update(word.decode(errors="replace") for word in words[2:])
            if not self._hand_over(message, pipes):
                self._fork(pipes, int(words[1]))
        elif words[0] == b"status":
            told = {"pid": os.getpid(), "startedAt": self._started, "served": self._served}
            connection.send(json.dumps(told).encode())
        elif words[0] == b"stop":
            connection.send(b"stopped")
            self._until = 0
            self._take_down()
            sys.exit(0)
        for pipe in pipes:
            os.close(pipe)

    def _hand_over(self, message: bytes, pipes: list[int]) -> bool:
        """Give the pipes to the spare child, if there is one and it is ready."""
        spare, self._spare = self._spare, None
        if spare is None:
            return False
        with spare, contextlib.suppress(OSError):
            if spare.recv(16, socket.MSG_DONTWAIT) == READY:
                socket.send_fds(spare, [message], pipes)
                return True
        return False

    def _learn(self) -> None:
        """Load a provider that was asked for since: the next child finds it loaded.

        One that leaves a thread behind ends this process, and children start cold.
        """
        for provider in sorted(self._asked - self._loaded)[:1]:  # who comes meanwhile must wait
            self._loaded.add(provider)
            _load(provider)

    def _make_spare(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, contextlib.suppress(OSError):
            if os.fork() == 0:
                ours.close()
                self._leave_server()
                _in_guardian(lambda: run_spare(_wait_as_spare(theirs), theirs))
        self._spare = ours

    def _fork(self, pipes: list[int], timeout_ms: int) -> None:
        with contextlib.suppress(OSError):  # no room for another: the caller sees its pipes close
            if os.fork() == 0:
                self._leave_server()
                _in_guardian(lambda: _run_at_once(pipes, timeout_ms))

    def _leave_server(self) -> None:
        """Let go, in a fork, of all that only the server may hold."""
        os.setsid()
        for connection in (*self._connections.values(), self._listener, self._spare):
            if connection is not None:
                connection.close()
        if self._lock is not None:
            os.close(self._lock)

    def _take_down(self) -> None:
        if self._path is not None and _identity(self._path) == self._identity:
            with contextlib.suppress(OSError):
                os.unlink(self._path)


def _in_guardian(guard: Callable[[], None]) -> NoReturn:
    try:
        guard()
    finally:
        os._exit(1)


def _run_at_once(pipes: list[int], timeout_ms: int) -> None:
    from outrider.child.main import run_child

    _take_pipes(pipes[:3])
    run_guarded(run_child, lifeline=0, status=pipes[3], timeout_ms=timeout_ms)


def _wait_as_spare(server: socket.socket) -> Callable[[socket.socket], None]:
    """Return what a spare child does: take on its memory in a rehearsal, then wait for its task."""

    def wait(guardian: socket.socket) -> None:
        from outrider.child.main import run_child
        from outrider.child.rehearsal import rehearse

        call_oneself("spare")
        rehearse()
        server.send(READY)
        server.close()
        _, pipes, _, _ = socket.recv_fds(guardian, 16, 3)
        begins = guardian.recv(16) == BEGIN
        guardian.close()
        if begins:
            call_oneself("child")
            _take_pipes(pipes)
            run_child()

    return wait


def _take_pipes(pipes: list[int]) -> None:
    for standard, pipe in enumerate(pipes):
        os.dup2(pipe, standard)
        os.close(pipe)


def _identity(path: str | None) -> tuple[int, int] | None:
    try:
        found = os.stat(path) if path is not None else None
    except OSError:
        return None
    return (found.st_dev, found.st_ino) if found else None


def _peer_uid(connection: socket.socket) -> int:
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return struct.unpack("3i", credentials)[1]


if __name__ == "__main__":
    main(sys.argv[1:])
