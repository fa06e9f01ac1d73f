"""No child outlives its parent or its deadline, nor does anything it started.

A guardian process stands between the parent and the child. It holds a lifeline, whose other end
only the parent has: when the kernel closes that, because the parent let go or died, the guardian
ends the child. As the subreaper it inherits whatever the child's tools leave behind, even what
fled into a session of its own, and ends that too. This module imports little: a guardian stays in
memory for as long as its child runs.
"""

import contextlib
import os
import select
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    import ctypes

TERMINATE_GRACE_SECONDS = 5.0
MAX_SWEEP_SECONDS = 5.0
MAX_POLL_MS = 3_600_000
BEGIN = b"begin"
_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36


def run_guarded(child: Callable[[], None], *, lifeline: int, status: int, timeout_ms: int) -> None:
    """Fork, run `child` in the fork, and in the guardian exit once it and all it started ended.

    The socket `status` gets `pid 7` with the guardian's id first of all, and how the child ended at
    the end: `exit 0`, or `signal 9`.
    """
    os.write(status, f"pid {os.getpid()}\n".encode())
    try:
        pid, wakeup = _fork(child, not_the_childs=(status,))
    except OSError as error:
        os.write(2, f"There is no room for another process: {error}\n".encode())
        os.write(status, b"exit 1\n")
        os._exit(1)
    os.dup2(2, 1)  # the events' pipe is the child's alone
    _guard(pid, wakeup, lifeline, status, timeout_ms)


def run_spare(child: Callable[[socket.socket], None], orders: socket.socket) -> None:
    """Fork a child that waits for its pipes, and guard it from when it is given them.

    `orders` brings the pipes, with the time limit, once; where it closes instead, both end.
    """
    call_oneself("spare")
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid, wakeup = _fork(lambda: child(theirs), not_the_childs=(ours.fileno(),))
    theirs.close()
    message, pipes, _, _ = socket.recv_fds(orders, 64, 4)
    if len(pipes) != 4:
        os.killpg(pid, signal.SIGKILL)
        os._exit(0)
    orders.close()
    start, events, errors, status = pipes
    # Only when the child has them is it said to be there, and only then it begins: until then
    # another one can do the task.
    socket.send_fds(ours, [b"go"], [start, events, errors])
    os.write(status, f"pid {os.getpid()}\n".encode())
    ours.send(BEGIN)
    for pipe in (events, errors, ours.fileno()):
        os.close(pipe)
    _guard(pid, wakeup, start, status, int(message.split()[1]))


def call_oneself(name: str) -> None:
    """Tell people who look at the processes what this one is for."""
    with contextlib.suppress(OSError), open("/proc/self/comm", "w") as own:
        own.write(f"outrider-{name}")


def _fork(child: Callable[[], None], *, not_the_childs: tuple[int, ...]) -> tuple[int, int]:
    """Run `child` in a fork that dies with this process; return its id, and what wakes us."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    guardian = os.getpid()
    wakeup = _signals_to_socket()
    pid = os.fork()
    if pid == 0:
        try:
            _become_child(guardian, (*wakeup, *not_the_childs))
            call_oneself("child")
            child()
        except Exception:
            traceback.print_exc()
        finally:
            os._exit(1)
    with contextlib.suppress(OSError):
        os.setpgid(pid, pid)
    return pid, wakeup[0]


def _guard(pid: int, wakeup: int, lifeline: int, status: int, timeout_ms: int) -> NoReturn:
    call_oneself("guard")
    # A backstop behind the parent's own deadline, for a parent that is stopped or stuck.
    deadline = time.monotonic() + timeout_ms / 1000 + TERMINATE_GRACE_SECONDS
    ended = _Guardian(pid, lifeline, wakeup, deadline).watch()
    kind, number = _kind_of(ended)
    os.write(status, f"{kind} {number}\n".encode())
    os.close(status)  # a fork of a big process takes milliseconds to be taken down
    os._exit(0)


def _become_child(guardian: int, not_ours: tuple[int, ...]) -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.set_wakeup_fd(-1)
    for descriptor in not_ours:
        os.close(descriptor)
    os.setpgid(0, 0)
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != guardian:  # it died before the line above took effect
        os._exit(1)


def _signals_to_socket() -> tuple[int, int]:
    """Return two ends: the first wakes the guardian's poll at each of the signals it minds."""
    # A host's thread may block signals, which all that it starts would inherit.
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    # A socket, for a pipe could be opened by way of `/proc`, and signals be feigned.
    reader, writer = (end.detach() for end in socket.socketpair())
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, _wake)
    return reader, writer


def _wake(_number: int, _frame: object) -> None:
    """Do nothing: that the handler exists is what sends the signal's number to the socket."""


class _Guardian:
    """Waits for the child's end, and brings it about when the lifeline or a signal says so."""

    def __init__(self, child: int, lifeline: int, wakeup: int, deadline: float) -> None:
        self._child = child
        self._lifeline = lifeline
        self._wakeup = wakeup
        self._deadline = deadline
        self._status: int | None = None
        self._kill_at: float | None = None

    def watch(self) -> int:
        """Return the child's wait status, once nothing of it is left."""
        poller = select.poll()
        poller.register(self._lifeline, 0)  # asks for nothing, so wakes at the hang-up alone
        poller.register(self._wakeup, select.POLLIN)
        while self._status is None:
            self._step(poller)
        self._sweep()
        return self._status

    def _step(self, poller: select.poll) -> None:
        until = self._deadline if self._kill_at is None else self._kill_at
        left_ms = max(0.0, until - time.monotonic()) * 1000
        ready = dict(poller.poll(min(left_ms, MAX_POLL_MS)))  # the kernel counts in 31 bits
        signals = self._read_signals() if self._wakeup in ready else b""
        if self._lifeline in ready:
            poller.unregister(self._lifeline)
        self._reap(os.WNOHANG)
        asked = self._lifeline in ready or any(n != signal.SIGCHLD for n in signals)
        if self._kill_at is not None and time.monotonic() >= self._kill_at:
            self._signal(signal.SIGKILL)
            self._kill_at = time.monotonic() + TERMINATE_GRACE_SECONDS
        elif self._kill_at is None and (asked or time.monotonic() >= self._deadline):
            self._signal(signal.SIGTERM)
            self._kill_at = time.monotonic() + TERMINATE_GRACE_SECONDS

    def _read_signals(self) -> bytes:
        try:
            return os.read(self._wakeup, 4096)
        except BlockingIOError:
            return b""

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._child, number)

    def _reap(self, options: int) -> bool:
        """Collect the dead; return whether any process of ours is left."""
        while True:
            try:
                pid, status = os.waitpid(-1, options)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self._child:
                self._status = status

    def _sweep(self) -> None:
        """End what the child left behind: its group first, then all that came to us as orphans."""
        self._signal(signal.SIGKILL)
        give_up = time.monotonic() + MAX_SWEEP_SECONDS
        while self._reap(os.WNOHANG) and time.monotonic() < give_up:
            for pid in _children_of_this_process():
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.002)


def _children_of_this_process() -> list[int]:
    try:
        with open(f"/proc/self/task/{os.getpid()}/children") as children:
            return [int(pid) for pid in children.read().split()]
    except OSError:
        return []


def _kind_of(status: int) -> tuple[str, int]:
    if os.WIFSIGNALED(status):
        return "signal", os.WTERMSIG(status)
    return "exit", os.waitstatus_to_exitcode(status)


def seal() -> None:
    """Let no process of this user look into this one, or take its descriptors; root's still can."""
    _prctl(_PR_SET_DUMPABLE, 0)


def _prctl(option: int, value: int) -> None:
    """Ask Linux's kernel; elsewhere the process group is all there is."""
    if sys.platform == "linux":
        libc().prctl(option, value, 0, 0, 0)


@cache
def libc() -> "ctypes.CDLL":
    """Return the C library; a warm process asks for it, so that its forks find it loaded."""
    import ctypes

    return ctypes.CDLL(None, use_errno=True)
