"""Starting a child, and holding on to it: its pipes, its lifeline, its end.

Dropping the lifeline is how a child is ended; the kernel drops it when this process dies.
"""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from outrider.protocol import jsonl
from outrider.protocol.brief import Brief, Start
from outrider.protocol.data import to_json
from outrider.protocol.masking import without_secrets

STRANGER_LIMIT_MS = 1_000
# -P: the working directory is hostile ground, and must not be searched for modules.
PYTHON = (sys.executable, "-P", "-m")


class LaunchFailed(Exception):
    """A child that could not be started."""


@dataclass(slots=True)
class Child:
    """A running child: what it says (`events`, `errors`), how it ended (`status`)."""

    lifeline: int
    events: int
    errors: int
    status: int
    start: memoryview
    process: "subprocess.Popen[bytes] | None" = None
    """The guardian, where it is ours to wait for; a warm child's isn't."""
    guardian: int | None = None
    _open: set[int] = field(default_factory=set[int])

    def __post_init__(self) -> None:
        self._open = {self.lifeline, self.events, self.errors, self.status}
        for descriptor in self._open:
            os.set_blocking(descriptor, False)

    def send_start(self) -> bool:
        """Write on with the brief as far as the pipe takes it; return whether it is all sent."""
        try:
            while self.start:
                self.start = self.start[os.write(self.lifeline, self.start) :]
        except BlockingIOError:
            return False
        except BrokenPipeError:
            self.start = memoryview(b"")
        return True

    def close(self, descriptor: int) -> None:
        """Close one of the child's pipes, once."""
        if descriptor in self._open:
            self._open.remove(descriptor)
            os.close(descriptor)

    def stop(self) -> None:
        """Drop the lifeline: the guardian ends the child, with SIGTERM and then with SIGKILL."""
        self.close(self.lifeline)

    def kill(self) -> None:
        """End the guardian itself, whose death the kernel turns into the child's."""
        if self.guardian is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.guardian, signal.SIGKILL)

    def release(self) -> None:
        """Let go of everything; called when the child's end is known, or can't be."""
        for descriptor in tuple(self._open):
            self.close(descriptor)
        if self.process is not None:
            self.process.wait()
        elif self.guardian is not None:
            _wait_for_stranger(self.guardian)


def _wait_for_stranger(pid: int) -> None:
    """Wait the moment that a process which has said its last word takes to be gone."""
    with suppress(OSError):
        descriptor = os.pidfd_open(pid)
        try:
            poller = select.poll()
            poller.register(descriptor, select.POLLIN)
            poller.poll(STRANGER_LIMIT_MS)
        finally:
            os.close(descriptor)


Hand = Callable[[tuple[int, int, int, int]], "subprocess.Popen[bytes] | None"]


def with_pipes(start: Start, hand_over: Hand) -> Child:
    """Return the child that `hand_over` starts, given its ends; raises `LaunchFailed`."""
    pipes: list[tuple[int, int]] = []
    try:
        pipes.extend(os.pipe() for _ in range(4))
    except OSError as error:
        _close(descriptor for pipe in pipes for descriptor in pipe)
        raise LaunchFailed(f"The child could not be started: {error}") from error
    (start_in, lifeline), (events, events_out), (errors, errors_out), (status, status_out) = pipes
    theirs = (start_in, events_out, errors_out, status_out)
    try:
        process = hand_over(theirs)
    except (OSError, ValueError) as error:
        _close((lifeline, events, errors, status))
        raise LaunchFailed(f"The child could not be started: {error}") from error
    finally:
        _close(theirs)
    data = memoryview(jsonl.encode(to_json(start)) + b"\n")
    return Child(lifeline, events, errors, status, data, process, process and process.pid)


def launch_cold(brief: Brief, env: Mapping[str, str]) -> Child:
    """Start a child in an interpreter of its own; raises `LaunchFailed`."""

    def hand_over(theirs: tuple[int, int, int, int]) -> "subprocess.Popen[bytes]":
        start_in, events_out, errors_out, status_out = theirs
        return subprocess.Popen(
            [*PYTHON, "outrider.child", str(status_out), str(brief.timeout_ms)],
            stdin=start_in,
            stdout=events_out,
            stderr=errors_out,
            cwd=brief.cwd,
            # Who can see the process can see these; the rest comes with the brief.
            env=without_secrets(env),
            pass_fds=(status_out,),
            start_new_session=True,
        )

    return with_pipes(Start(brief, dict(env)), hand_over)


def _close(descriptors: Iterable[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
