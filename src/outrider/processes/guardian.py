"""No child outlives its parent or its deadline, nor does anything it started.

A guardian process stands between the parent and the child. It holds a lifeline whose other end
only the parent has: when the kernel closes that, because the parent let go or died, the guardian
ends the child. As the subreaper it inherits what the child's tools leave behind, even in another
session, and ends that too.
"""

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress

from outrider.processes.reaping import Watch, become_subreaper, call_oneself, fork, reap, sweep

TYPE_CHECKING = False  # typing's own would stay in the memory of each guardian
if TYPE_CHECKING:
    from typing import NoReturn

TERMINATE_GRACE_SECONDS = 5.0


def run_guarded(
    child: Callable[[], None],
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

    def __init__(self, child: Callable[[], None], watch: Watch, *, not_the_childs: int) -> None:
        """Fork, and run `child` in the fork without a descriptor that is not the child's."""

        def run() -> None:
            os.close(not_the_childs)
            os.setpgid(0, 0)
            call_oneself("child")
            child()

        become_subreaper()
        self._ending = ""
        self._watch = watch
        self._child = fork(run, watch)
        with suppress(OSError):
            os.setpgid(self._child, self._child)

    def guard(self, lifeline: int, status: int, timeout_ms: int, name: str = "guard") -> "NoReturn":
        """Exit once nothing of the child is left, and tell `status` how it ended."""
        call_oneself(name)
        self._watch.hold(lifeline)
        # A backstop behind the parent's own deadline, for a parent that is stopped or stuck.
        self._wait(timeout_ms / 1000 + TERMINATE_GRACE_SECONDS, lifeline)
        self._watch.let_go(lifeline)
        number = signal.SIGTERM
        while not self._ending:
            self._signal(number)
            self._wait(TERMINATE_GRACE_SECONDS)
            number = signal.SIGKILL
        self._signal(signal.SIGKILL)
        sweep(self._on_end)
        os.write(status, f"{self._ending}\n".encode())
        os.close(status)  # a fork of a big process takes milliseconds to be taken down
        os._exit(0)

    def _wait(self, seconds: float, lifeline: int | None = None) -> None:
        """Wait for the child's end, or until the lifeline or a signal asks for it."""
        until = time.monotonic() + seconds
        asked = False
        while not self._ending and not asked and (left := until - time.monotonic()) > 0:
            signals, ready = self._watch.wait(left)
            reap(self._on_end)
            if lifeline is not None:
                asked = lifeline in ready or any(one != signal.SIGCHLD for one in signals)

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._child, number)

    def _on_end(self, pid: int, status: int) -> None:
        if pid == self._child:
            killed = os.WIFSIGNALED(status)
            number = os.WTERMSIG(status) if killed else os.waitstatus_to_exitcode(status)
            self._ending = f"{'signal' if killed else 'exit'} {number}"
