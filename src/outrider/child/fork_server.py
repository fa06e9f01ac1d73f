"""The fork server: it has imported and exercised all that a child needs, and forks one for each
request. It has one thread, no event loop and no caller's secrets, since every fork inherits them.

`python -m outrider.child.fork_server host FD PROVIDER` serves one host, until that lets go of it;
`… user LOCK_FD NAME MINUTES PROVIDER` serves a user's commands, by a socket in the folder that it
is started in.
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
from collections.abc import Sequence

from outrider.child.exhaustion import end_when_exhausted
from outrider.child.main import run_child
from outrider.child.rehearsal import load_provider, rehearse
from outrider.processes.guardian import Guardian
from outrider.processes.reaping import call_oneself, libc
from outrider.processes.surroundings import surroundings
from outrider.protocol import fork_messages
from outrider.protocol.errors import OutriderError
from outrider.protocol.fork_messages import MAX_PACKET_BYTES, READY, ChildEnds, StartRequest

SPARE_AFTER_MS = 20
"""How long no request must have come before a spare is made: making one delays requests."""
MAX_JOIN_SECONDS = 5.0
MAX_CLIENT_SECONDS = 5.0
LOOK_EVERY_SECONDS = 60.0
"""How often a user's server looks whether its socket can still be found."""
_BEGIN = b"begin"
_ENDS = len(ChildEnds._fields)


class ForkServerUnfit(OutriderError):
    """This process must not be forked; the message says why."""


def main(arguments: list[str]) -> None:
    """Warm up, then serve until nobody needs it."""
    match arguments:
        case ["host", descriptor, provider]:
            connection = socket.socket(fileno=int(descriptor))
            warm_up(provider)
            connection.send(READY)
            _Server(provider, connection).serve()
        case ["user", lock, path, minutes, provider]:
            warm_up(provider)
            _Server(provider, _Listener(path, int(lock), float(minutes) * 60)).serve()
        case _:
            sys.exit(__doc__)


def warm_up(provider: str) -> None:
    """Make this a process to fork from: everything is loaded and used once, one thread is left."""
    call_oneself("warm")
    end_when_exhausted()
    rehearse("grep", "read")
    libc()
    _load(provider)
    # The forks of this process end on their own; it doesn't wait for them.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)


def _load(provider: str) -> None:
    """Load a provider's models, and make sure that this process can be forked."""
    load_provider(provider)
    _join_threads()
    gc.collect()
    gc.freeze()


def _join_threads() -> None:
    """Wait until the kernel knows of no thread but this one; raises `ForkServerUnfit`."""
    give_up = time.monotonic() + MAX_JOIN_SECONDS
    while (threads := len(os.listdir("/proc/self/task"))) != 1:
        if time.monotonic() > give_up:
            raise ForkServerUnfit(f"{threads} threads are left after warming up")
        time.sleep(0.001)


class _Listener:
    """The socket where a user's commands find their fork server; others can't connect to it."""

    def __init__(self, path: str, lock: int, idle_seconds: float) -> None:
        self.lock = lock
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._path = path
        self._idle_seconds = idle_seconds
        staged = f"{path}.{os.getpid()}"
        os.fchmod(self.socket.fileno(), 0o600)  # before the file exists
        self.socket.bind(staged)
        self.socket.listen(128)
        # In one step, so that nobody meets a socket that doesn't listen yet.
        os.rename(staged, path)
        self._file = os.stat(path)
        self.renew()

    def renew(self) -> None:
        """Count the idle time from now."""
        self._until = time.monotonic() + self._idle_seconds

    def seconds_left(self) -> float:
        """Return how long to wait for the next command; 0 where none is expected any more."""
        # A newer server may have taken the path, or something has removed it.
        left = self._until - time.monotonic() if self._is_found() else 0.0
        return max(0.0, min(left, LOOK_EVERY_SECONDS))

    def accept(self) -> socket.socket | None:
        """Return a connection of this user's, and none of anybody else's."""
        connection, _ = self.socket.accept()
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        if struct.unpack("3i", credentials)[1] != os.getuid():
            connection.close()
            return None
        connection.settimeout(MAX_CLIENT_SECONDS)
        return connection

    def unlink(self) -> None:
        """Remove the files of the socket and its lock, unless they are a newer server's."""
        if self._is_found():
            os.unlink(self._path)
            os.unlink(f"{self._path}.lock")

    def _is_found(self) -> bool:
        with contextlib.suppress(OSError):
            return os.path.samestat(os.lstat(self._path), self._file)
        return False


class _Server:
    """Takes requests one after the other, and answers each with a fork."""

    def __init__(self, provider: str, source: socket.socket | _Listener) -> None:
        """Serve the one host at the other end of a socket, or all who come to a listener."""
        self._listener = source if isinstance(source, _Listener) else None
        self._connections = {} if isinstance(source, _Listener) else {source.fileno(): source}
        self._spare: socket.socket | None = None
        self._loaded = {provider}
        self._asked = {provider}
        self._started = time.time()
        self._served = 0
        self._stopped = False
        self._surroundings = surroundings()

    def serve(self) -> None:
        """Serve until the host lets go, or nobody has come for a while, or somebody says stop."""
        while not self._stopped and self._is_needed():
            ready = self._ready()
            for descriptor in ready:
                with contextlib.suppress(OSError):  # a client that has gone, no descriptor left
                    self._on_ready(descriptor)
            if not ready and self._spare is None:
                self._learn()
                with contextlib.suppress(OSError):
                    self._spare = self._fork(rehearsed=True)
        if self._listener is not None:
            self._listener.unlink()

    def _is_needed(self) -> bool:
        if self._listener is None:
            return bool(self._connections)
        return self._listener.seconds_left() > 0

    def _ready(self) -> list[int]:
        poller = select.poll()
        for descriptor in self._connections:
            poller.register(descriptor, select.POLLIN)
        limits_ms: list[float] = [] if self._spare else [SPARE_AFTER_MS]
        if self._listener is not None:
            poller.register(self._listener.socket, select.POLLIN)
            limits_ms.append(self._listener.seconds_left() * 1000)
        return [descriptor for descriptor, _ in poller.poll(min(limits_ms, default=None))]

    def _on_ready(self, descriptor: int) -> None:
        if descriptor in self._connections:
            self._receive(self._connections[descriptor])
        elif self._listener is not None and (connection := self._listener.accept()):
            self._connections[connection.fileno()] = connection

    def _receive(self, connection: socket.socket) -> None:
        try:
            packet, ends, _, _ = socket.recv_fds(connection, MAX_PACKET_BYTES, _ENDS)
        except OSError:
            packet, ends = b"", []
        if not packet:
            del self._connections[connection.fileno()]
            connection.close()
        elif packet == fork_messages.STATUS:
            told = {"pid": os.getpid(), "startedAt": self._started, "served": self._served}
            connection.send(json.dumps(told).encode())
        elif packet == fork_messages.STOP:
            self._stopped = True
            connection.send(fork_messages.STOPPED)
        elif request := StartRequest.from_bytes(packet):
            self._serve(request, ends)
        for end in ends:
            os.close(end)

    def _serve(self, request: StartRequest, ends: list[int]) -> None:
        """Start a child; where that can't be, the caller sees its ends close."""
        if request.surroundings != self._surroundings:
            return
        if self._listener is not None:
            self._listener.renew()
        self._served += 1
        self._asked.add(request.provider)
        with contextlib.suppress(OSError), self._waiting_child(ends) as child:
            socket.send_fds(child, [request.to_bytes()], ends)

    def _waiting_child(self, ends: list[int]) -> socket.socket:
        """Return the link to a child that waits for its request: the spare, if it is ready."""
        spare, self._spare = self._spare, None
        if spare is not None:
            with contextlib.suppress(OSError):
                if spare.recv(16, socket.MSG_DONTWAIT) == READY:
                    return spare
            spare.close()
        return self._fork(rehearsed=False, held=ends)

    def _learn(self) -> None:
        """Load a provider that was asked for since, so that the next child finds it loaded.

        One that leaves a thread behind ends this process, and children start cold.
        """
        for provider in sorted(self._asked - self._loaded)[:1]:  # one only: requests may wait
            self._loaded.add(provider)
            _load(provider)

    def _fork(self, *, rehearsed: bool, held: Sequence[int] = ()) -> socket.socket:
        """Fork a guardian and a child that wait for a request; return the link to them.

        They get their ends with the request: those that the server holds now are closed.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, contextlib.suppress(OSError):  # no room: then the link is broken
            if os.fork() == 0:
                try:
                    for descriptor in (*held, ours.detach()):
                        os.close(descriptor)
                    self._leave()
                    _guard(theirs, rehearsed=rehearsed)
                finally:
                    os._exit(1)
        return ours

    def _leave(self) -> None:
        """Let go, in a fork, of everything that only the server may hold."""
        os.setsid()
        for connection in self._connections.values():
            connection.close()
        if self._listener is not None:
            self._listener.socket.close()
            os.close(self._listener.lock)


def _guard(server: socket.socket, *, rehearsed: bool) -> None:
    """Fork a child that waits for its ends, and guard it once it is given them.

    `server` brings them with the request, once; where it closes instead, both processes end.
    """
    call_oneself("spare")
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    def wait() -> None:
        if rehearsed:
            call_oneself("spare")
            rehearse("read")  # takes up the memory that a task needs
            server.send(READY)
        server.close()
        _wait_and_run(theirs)

    guardian = Guardian(wait, not_the_childs=ours.fileno())
    theirs.close()
    packet, received, _, _ = socket.recv_fds(server, MAX_PACKET_BYTES, _ENDS)
    request = StartRequest.from_bytes(packet)
    if request is None or len(received) != _ENDS:
        os._exit(0)  # with which the kernel ends the child
    server.close()
    ends = ChildEnds(*received)
    # The child is announced when it has its ends, and begins after that: until then the parent
    # can give the task to another child.
    socket.send_fds(ours, [READY], ends[:3])
    os.write(ends.status, f"pid {os.getpid()}\n".encode())
    ours.send(_BEGIN)
    for descriptor in (ends.events, ends.errors, ours.fileno()):
        os.close(descriptor)
    left_ms = request.deadline_ms - round(time.monotonic() * 1000)
    guardian.guard(ends.start, ends.status, max(0, left_ms))


def _wait_and_run(guardian: socket.socket) -> None:
    _, ends, _, _ = socket.recv_fds(guardian, 16, 3)
    if guardian.recv(16) != _BEGIN:
        return
    guardian.close()
    for standard, end in enumerate(ends):
        os.dup2(end, standard)
        os.close(end)
    run_child()


if __name__ == "__main__":
    main(sys.argv[1:])
