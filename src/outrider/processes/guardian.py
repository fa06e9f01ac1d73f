"""No child outlives its parent or its deadline, nor does anything it started.

A guardian process stands between the parent and the child. It holds a lifeline whose other end
only the parent has: when the kernel closes that, because the parent let go or died, the guardian
ends the child. As the subreaper it inherits what the child's tools leave behind, even in another
session, and ends that too.
"""

import os
import select
import signal
import sys
import time
from _socket import AF_UNIX, SOCK_SEQPACKET, SOCK_STREAM, socketpair
from collections.abc import Callable
from contextlib import suppress

from outrider.processes import kernel
from outrider.processes.reaping import (
    HAS_PROC,
    Watch,
    become_subreaper,
    call_oneself,
    fork,
    is_ending,
    reap,
    started_by,
    sweep,
)

TYPE_CHECKING = False  # typing's own would stay in the memory of each guardian
if TYPE_CHECKING:
    from _socket import socket
    from typing import NoReturn

TERMINATE_GRACE_SECONDS = 5.0
MAX_END_SECONDS = 0.05
"""How long we look for a child's end that has said it is done; after that the kernel tells it."""
DONE = b"done"
_HEARD_BYTES = 64
_MESSAGES = SOCK_SEQPACKET if sys.platform == "linux" else SOCK_STREAM


def run_guarded(
    child: "Callable[[socket], None]",
    *,
    lifeline: int,
    status: int,
    timeout_ms: int,
    name: str = "guard",
    watch: Watch | None = None,
) -> "NoReturn":
    """Fork, run `child` in the fork, and in the guardian exit once it and all it started ended.

    The socket `status` gets `pid 7` with the guardian's id first, and at the end how the child
    ended: `exit 0` or `signal 9`.
    """
    os.write(status, f"pid {os.getpid()}\n".encode())
    try:
        guardian = Guardian(child, watch or Watch(), not_the_childs=status)
    except OSError as error:
        os.write(2, f"Can't start another process: {error}\n".encode())
        os.write(status, b"exit 1\n")
        os._exit(1)
    os.dup2(2, 1)  # only the child writes events
    guardian.guard(lifeline, status, timeout_ms, name)


class Guardian:
    """Forks a child, waits for its end, and brings that about when there is a reason to."""

    def __init__(
        self, child: "Callable[[socket], None]", watch: Watch, *, not_the_childs: int = -1
    ) -> None:
        """Fork, and run `child` in the fork without a descriptor that is not the child's.

        It is given a link to this guardian, which maps ids for its walls, and hears there that it
        is `DONE` and exits.
        """
        self.link, theirs = socketpair(AF_UNIX, _MESSAGES)

        def run() -> None:
            self.link.close()
            if not_the_childs >= 0:
                os.close(not_the_childs)
            os.setpgid(0, 0)
            call_oneself("child")
            child(theirs)

        become_subreaper()
        self._ending, self._has_left_nothing = "", False
        self._watch = watch
        self._child = fork(run, watch)
        theirs.close()
        with suppress(OSError):
            os.setpgid(self._child, self._child)

    def guard(self, lifeline: int, status: int, timeout_ms: int, name: str = "guard") -> "NoReturn":
        """Exit once nothing of the child is left, and tell `status` how it ended."""
        call_oneself(name)
        self._watch.hold(lifeline)
        self._watch.hold(self.link.fileno(), select.POLLIN)
        # A backstop behind the parent's own deadline, for a parent that is stopped or stuck.
        self._wait(timeout_ms / 1000 + TERMINATE_GRACE_SECONDS, lifeline)
        self._watch.let_go(lifeline)
        number = signal.SIGTERM
        while not self._ending:
            self._signal(number)
            self._wait(TERMINATE_GRACE_SECONDS)
            number = signal.SIGKILL
        if self._has_left_nothing:
            self._tell(status)
            os.waitpid(self._child, 0)
        self._signal(signal.SIGKILL)
        sweep(self._on_end)
        if not self._has_left_nothing:
            self._tell(status)
        os._exit(0)

    def _tell(self, status: int) -> None:
        os.write(status, f"{self._ending}\n".encode())
        os.close(status)  # a fork of a big process takes milliseconds to be taken down

    def _wait(self, seconds: float, lifeline: int | None = None) -> None:
        """Wait for the child's end, or until the lifeline or a signal asks for it."""
        until = time.monotonic() + seconds
        asked = False
        while not self._ending and not asked and (left := until - time.monotonic()) > 0:
            signals, ready = self._watch.wait(left)
            reap(self._on_end)
            if self.link.fileno() in ready and not self._ending:
                self._hear()
            if lifeline is not None:
                asked = lifeline in ready or any(one != signal.SIGCHLD for one in signals)

    def _hear(self) -> None:
        """Take what the child says. Descriptors that come with it are closed with our own end."""
        said = b""
        with suppress(OSError):
            said = self.link.recvmsg(_HEARD_BYTES, _HEARD_BYTES)[0]
        if not said:
            self._watch.let_go(self.link.fileno())
        elif said == kernel.MAP:
            with suppress(OSError):
                kernel.map_ids(self._child)
                said = kernel.MAPPED
            with suppress(OSError):
                self.link.send(said)
        elif said == DONE and self._ends() and self._is_all():
            self._ending, self._has_left_nothing = "exit 0", True

    def _ends(self) -> bool:
        """Return whether the child can do nothing any more, with all of its threads.

        The kernel takes milliseconds to take down its memory, for which nobody has to wait.
        """
        until = time.monotonic() + (MAX_END_SECONDS if HAS_PROC else 0)
        while not (ends := is_ending(self._child)) and time.monotonic() < until:
            time.sleep(0.0001)
        return ends

    def _is_all(self) -> bool:
        """Return whether nothing that the child has started is left."""
        # In this order: what loses its parent in between is ours, and seen there.
        return started_by(self._child) == [] and started_by(os.getpid()) == [self._child]

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._child, number)

    def _on_end(self, pid: int, status: int) -> None:
        if pid == self._child:
            killed = os.WIFSIGNALED(status)
            number = os.WTERMSIG(status) if killed else os.waitstatus_to_exitcode(status)
            self._ending = f"{'signal' if killed else 'exit'} {number}"
