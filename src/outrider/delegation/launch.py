"""Starting a child, and holding on to it: its pipes, its lifeline, its end.

Dropping the lifeline is how a child is ended; the kernel drops it when this process dies.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from outrider.protocol import jsonl
from outrider.protocol.brief import Brief
from outrider.protocol.data import to_json


class LaunchFailed(Exception):
    """A child that could not be started."""


@dataclass(slots=True)
class Child:
    """A running child: what it says (`events`, `errors`), how it ended (`status`)."""

    process: subprocess.Popen[bytes]
    lifeline: int
    events: int
    errors: int
    status: int
    brief: memoryview
    _open: set[int] = field(default_factory=set[int])

    def __post_init__(self) -> None:
        self._open = {self.lifeline, self.events, self.errors, self.status}
        for descriptor in self._open:
            os.set_blocking(descriptor, False)

    def send_brief(self) -> bool:
        """Write on with the brief as far as the pipe takes it; return whether it is all sent."""
        try:
            while self.brief:
                self.brief = self.brief[os.write(self.lifeline, self.brief) :]
        except BlockingIOError:
            return False
        except BrokenPipeError:
            self.brief = memoryview(b"")
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
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def release(self) -> None:
        """Let go of everything; called when the child's end is known, or can't be."""
        for descriptor in tuple(self._open):
            self.close(descriptor)
        self.process.wait()


def launch(brief: Brief, env: Mapping[str, str]) -> Child:
    """Start a cold child with its brief; raises `LaunchFailed`."""
    try:
        pipes = [os.pipe() for _ in range(4)]
    except OSError as error:
        raise LaunchFailed(f"The child could not be started: {error}") from error
    (brief_in, lifeline), (events, events_out), (errors, errors_out), (status, status_out) = pipes
    ours, theirs = (
        (lifeline, events, errors, status),
        (brief_in, events_out, errors_out, status_out),
    )
    # -P: the working directory is hostile ground, and must not be searched for modules.
    command = [sys.executable, "-P", "-m", "outrider.child", str(status_out), str(brief.timeout_ms)]
    try:
        process = subprocess.Popen(
            command,
            stdin=brief_in,
            stdout=events_out,
            stderr=errors_out,
            cwd=brief.cwd,
            env=dict(env),
            pass_fds=(status_out,),
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        _close_all(ours)
        raise LaunchFailed(f"The child could not be started: {error}") from error
    finally:
        _close_all(theirs)
    data = memoryview(jsonl.encode(to_json(brief)) + b"\n")
    return Child(process, lifeline, events, errors, status, data)


def _close_all(descriptors: Iterable[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
