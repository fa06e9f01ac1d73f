"""The fork server: it has imported and exercised all that a child needs, and forks one for each
request. It has one thread, no event loop and no caller's secrets, since every fork inherits them.

`python -m outrider.child.fork_server host FD LOADS` serves one host, until that lets go of it;
`… user LOCK_FD NAME MINUTES LOADS` serves a user's commands, by a socket in the folder that it is
started in. `LOADS` says what its children's models need.
"""

import _socket
import asyncio
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
from collections.abc import Callable, Sequence
from functools import cache

from outrider.child.exhaustion import end_when_exhausted
from outrider.child.main import Ready, run_child
from outrider.child.rehearsal import load_model, rehearse
from outrider.models.cost import remember_price
from outrider.processes import kernel
from outrider.processes.copied_pages import copy_pages, pages_written_by
from outrider.processes.guardian import Guardian, run_guarded
from outrider.processes.reaping import Watch, call_oneself, fork_bare, libc, reap
from outrider.processes.surroundings import surroundings
from outrider.processes.walls import Begun, code_paths
from outrider.protocol import fork_messages
from outrider.protocol.errors import OutriderError
from outrider.protocol.fork_messages import MAX_PACKET_BYTES, READY, ChildEnds, StartRequest

SPARE_AFTER_SECONDS = 0.02
"""How long no request must have come before a spare is made: making one delays requests."""
MAX_JOIN_SECONDS = 5.0
MAX_CLIENT_SECONDS = 5.0
LOOK_EVERY_SECONDS = 60.0
"""How often a user's server looks whether its socket can still be found."""
MAX_TOLD_BYTES = 1 << 17
REHEARSALS = 4
"""How often a task is rehearsed: Python rewrites code while it runs for the first few times."""
FILL_BYTES = 60_000
"""How much of each size is put between the objects that are there: what a fork makes then lies
together, on pages of its own, and not in gaps on pages that it would have to copy."""
_filling: list[bytes] = []
_BEGIN = b"begin"
_ENDS = len(ChildEnds._fields)


class ForkServerUnfit(OutriderError):
    """This process must not be forked; the message says why."""


def main(arguments: list[str]) -> None:
    """Warm up, then serve until nobody needs it."""
    match arguments:
        case ["host", descriptor, loads]:
            connection = socket.socket(fileno=int(descriptor))
            warm_up(loads)
            connection.send(READY)
            _Server(loads, connection).serve()
        case ["user", lock, path, minutes, loads]:
            warm_up(loads)
            _Server(loads, _Listener(path, int(lock), float(minutes) * 60)).serve()
        case _:
            sys.exit(__doc__)


def warm_up(loads: str) -> None:
    """Make this a process to fork from: everything is loaded and used once, one thread is left."""
    call_oneself("warm")
    end_when_exhausted()
    for _ in range(REHEARSALS):
        rehearse(loads, "grep", "read")
    libc()
    code_paths()
    if kernel.IS_LINUX:
        kernel.mapped_ids()
    # asyncio asks for these with each handler, and Python makes an object of each anew.
    signal.valid_signals = cache(signal.valid_signals)
    signal.valid_signals()
    load_model(loads)
    _join_threads()
    gc.collect()
    _filling.extend(bytes(size) for size in range(16, 480, 16) for _ in range(FILL_BYTES // size))
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
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.descriptors = self.socket.fileno(), lock
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

    def __init__(self, loads: str, source: socket.socket | _Listener) -> None:
        """Serve the one host at the other end of a socket, or all who come to a listener."""
        self._loads = loads
        self._watch = Watch()
        self._listener = source if isinstance(source, _Listener) else None
        self._connections: dict[int, socket.socket] = {}
        if isinstance(source, _Listener):
            self._watch.hold(source.socket.fileno(), select.POLLIN)
        else:
            self._connect(source)
        self._mounts = os.open("/proc/self/mountinfo", os.O_RDONLY)
        self._watch.hold(self._mounts, select.POLLPRI)
        self._spare: socket.socket | None = None
        self._pages = b""
        self._started = time.time()
        self._served = 0
        self._stopped = False
        self._surroundings = surroundings()

    def serve(self) -> None:
        """Serve until the host lets go, or nobody has come for a while, or somebody says stop."""
        while not self._stopped and self._is_needed():
            signals, ready = self._watch.wait(self._seconds())
            if self._mounts in ready:
                self._drop_spare()
            for descriptor in ready - {self._mounts}:
                with contextlib.suppress(OSError):  # a client that has gone, no descriptor left
                    self._on_ready(descriptor)
            if signals:
                reap(lambda _pid, _status: None)
                self._stopped |= any(one != signal.SIGCHLD for one in signals)
            elif not ready and self._spare is None:
                with contextlib.suppress(OSError):
                    self._spare = self._make_spare()
        if self._listener is not None:
            self._listener.unlink()

    def _drop_spare(self) -> None:
        """End a spare: it has begun its walls, and what is mounted by now isn't behind them."""
        if self._spare:
            self._spare.close()
        self._spare = None

    def _is_needed(self) -> bool:
        if self._listener is None:
            return bool(self._connections)
        return self._listener.seconds_left() > 0

    def _seconds(self) -> float | None:
        """Return how long to wait for the next request."""
        limits = [] if self._spare else [SPARE_AFTER_SECONDS]
        limits += [self._listener.seconds_left()] if self._listener else []
        return min(limits, default=None)

    def _on_ready(self, descriptor: int) -> None:
        if descriptor in self._connections:
            self._receive(self._connections[descriptor])
        elif self._listener is not None and (connection := self._listener.accept()):
            self._connect(connection)

    def _connect(self, connection: socket.socket) -> None:
        self._connections[connection.fileno()] = connection
        self._watch.hold(connection.fileno(), select.POLLIN)

    def _receive(self, connection: socket.socket) -> None:
        try:
            packet, ends, _, _ = socket.recv_fds(connection, MAX_PACKET_BYTES, _ENDS)
        except OSError:
            packet, ends = b"", []
        if not packet:
            del self._connections[connection.fileno()]
            self._watch.let_go(connection.fileno())
            connection.close()
        elif packet == fork_messages.STATUS:
            told = {"pid": os.getpid(), "loads": self._loads, "startedAt": self._started}
            connection.send(json.dumps({**told, "served": self._served}).encode())
        elif packet == fork_messages.STOP:
            self._stopped = True
            connection.send(fork_messages.STOPPED)
        elif request := StartRequest.from_bytes(packet):
            self._serve(request, ends)
        for end in ends:
            os.close(end)

    def _serve(self, request: StartRequest, ends: list[int]) -> None:
        """Start a child; where that can't be, the caller sees its ends close."""
        if request.surroundings != self._surroundings or len(ends) != _ENDS:
            return
        if self._listener is not None:
            self._listener.renew()
        self._served += 1
        remember_price(request.model)
        with contextlib.suppress(OSError):
            if not self._give_to_spare(request, ends):
                self._fork(lambda: _guard(self._watch, request, ChildEnds(*ends)))

    def _give_to_spare(self, request: StartRequest, ends: list[int]) -> bool:
        """Give the request to the spare, if it is ready; return whether it has it."""
        if not request.only_reads:
            return False
        spare, self._spare = self._spare, None
        with contextlib.suppress(OSError), spare or contextlib.nullcontext():
            if spare and (told := spare.recv(MAX_TOLD_BYTES, socket.MSG_DONTWAIT)):
                self._pages = told.removeprefix(READY) or self._pages
                socket.send_fds(spare, [request.to_bytes()], ends)
                return True
        return False

    def _make_spare(self) -> socket.socket:
        """Fork a guardian and a child that wait for a request; return the link to them."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            given = (self._watch, theirs, self._loads, self._pages)
            self._fork(lambda: _guard_spare(*given), ours.fileno())
        return ours

    def _fork(self, guard: Callable[[], object], *held: int) -> None:
        """Run a guardian in a fork without what the server holds; raises `OSError`."""
        if fork_bare() == 0:
            try:
                os.setsid()
                listening = self._listener.descriptors if self._listener else ()
                spare = (self._spare.fileno(),) if self._spare else ()
                for descriptor in (*held, *spare, *listening, *self._connections, self._mounts):
                    os.close(descriptor)
                self._watch.renew()
                guard()
            finally:
                os._exit(1)


def _guard(watch: Watch, request: StartRequest, ends: ChildEnds) -> None:
    """Start a child that has its ends, and guard it."""
    _take_standard(ends[:3])
    limit_ms = request.ms_left()
    run_guarded(run_child, lifeline=0, status=ends.status, timeout_ms=limit_ms, watch=watch)


def _guard_spare(watch: Watch, server: socket.socket, loads: str, pages: bytes) -> None:
    """Fork a child that waits for its ends, and guard it once it is given them.

    It begins its walls, and takes up the memory that a task without tools needs: the pages that an
    earlier one told, or else those of a rehearsal, which it tells. `server` brings the ends with
    the request, once; where it closes instead, both processes end.
    """
    call_oneself("spare")

    def wait(given: _socket.socket) -> None:
        call_oneself("spare")
        link = socket.socket(fileno=given.detach())
        begun = Begun(link)
        told = b"" if copy_pages(pages) else pages_written_by(lambda: rehearse(loads))
        ready = Ready(asyncio.new_event_loop(), begun)
        server.send(READY + (told if len(told) < MAX_TOLD_BYTES else b""))
        server.close()
        _, ends, _, _ = socket.recv_fds(link, 16, 3)
        if link.recv(16) == _BEGIN:
            _take_standard(ends)
            run_child(link, ready)

    guardian = Guardian(wait, watch)
    packet, received, _, _ = socket.recv_fds(server, MAX_PACKET_BYTES, _ENDS)
    request = StartRequest.from_bytes(packet)
    if request is None or len(received) != _ENDS:
        os._exit(0)  # with which the kernel ends the child
    server.close()
    ends = ChildEnds(*received)
    # The child is announced when it has its ends, and begins after that: until then the parent
    # can give the task to another child.
    sent = struct.pack("3i", *ends[:3])
    guardian.link.sendmsg([READY], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, sent)])
    os.write(ends.status, f"pid {os.getpid()}\n".encode())
    guardian.link.send(_BEGIN)
    for descriptor in (ends.events, ends.errors):
        os.close(descriptor)
    guardian.guard(ends.start, ends.status, request.ms_left())


def _take_standard(ends: Sequence[int]) -> None:
    for standard, end in enumerate(ends):
        os.dup2(end, standard)
        os.close(end)


if __name__ == "__main__":
    main(sys.argv[1:])
