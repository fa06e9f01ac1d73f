"""Starting a child, and holding on to it: what it says, its lifeline, its end.

Dropping the lifeline is how a child is ended; the kernel drops it when this process dies. What a
child says comes over sockets: unlike a pipe, a socket can't be opened by way of `/proc`, so no
command that a child runs can put words into its mouth, or hold its lifeline for us.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import weakref
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from outrider.masking import without_secrets
from outrider.protocol.brief import Brief, Start
from outrider.protocol.data import to_json

# -P: the working directory is hostile ground, and must not be searched for modules.
PYTHON = (sys.executable, "-P", "-m")


class LaunchFailed(Exception):
    """A child that could not be started."""


@dataclass(slots=True)
class Child:
    """A running child: what it says (`events`, `errors`), how it ended (`status`)."""

    lifeline: socket.socket
    events: int
    errors: int
    status: int
    start: memoryview
    process: "subprocess.Popen[bytes] | None" = None
    """The guardian, where it is ours to wait for; a warm child's isn't."""
    guardian: int | None = None
    _open: set[int] = field(default_factory=set[int])

    def __post_init__(self) -> None:
        self._open = {self.events, self.errors, self.status}
        for descriptor in self._open:
            os.set_blocking(descriptor, False)
        self.lifeline.setblocking(False)
        _lifelines.add(self.lifeline)

    def send_start(self) -> bool:
        """Write on with the brief as far as the line takes it; return whether it is all sent."""
        try:
            while self.start:
                self.start = self.start[self.lifeline.send(self.start) :]
        except BlockingIOError:
            return False
        except OSError:  # the child is gone, which its status tells
            self.start = memoryview(b"")
        return True

    def stop(self) -> None:
        """Drop the lifeline: the guardian ends the child, with SIGTERM and then with SIGKILL."""
        with suppress(OSError):
            # Closing alone says nothing as long as some fork of this process holds a copy.
            self.lifeline.shutdown(socket.SHUT_RDWR)
        self.lifeline.close()

    def kill(self) -> None:
        """End the guardian itself, whose death the kernel turns into the child's."""
        if self.guardian is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.guardian, signal.SIGKILL)

    def release(self) -> None:
        """Let go of everything; called when the child's end is known, or can't be."""
        self.lifeline.close()
        while self._open:
            os.close(self._open.pop())
        if self.process is not None:
            self.process.wait()


_lifelines: "weakref.WeakSet[socket.socket]" = weakref.WeakSet()


def _let_go_of_lifelines() -> None:
    """In a fork of this process: its children are not the fork's to keep alive."""
    for lifeline in _lifelines:
        lifeline.close()


os.register_at_fork(after_in_child=_let_go_of_lifelines)

Hand = Callable[[tuple[int, ...]], "subprocess.Popen[bytes] | None"]


def with_links(start: Start, hand_over: Hand) -> Child:
    """Return the child that `hand_over` starts, given its ends; raises `LaunchFailed`."""
    # JSON in ASCII keeps what is no Unicode: a folder's name, or a variable, can be any bytes.
    data = memoryview(json.dumps(to_json(start)).encode() + b"\n")
    links: list[tuple[int, int]] = []
    try:
        links += [_socket_pair()]
        links += [_socket_pair()]
        links += [os.pipe()]  # stderr: what a tool's own processes open as `/dev/stderr`
        links += [_socket_pair()]
        process = hand_over(tuple(theirs for _, theirs in links))
    except (OSError, ValueError) as error:
        _close(ours for ours, _ in links)
        raise LaunchFailed(f"The child could not be started: {error}") from error
    finally:
        _close(theirs for _, theirs in links)
    lifeline, events, errors, status = (ours for ours, _ in links)
    line = socket.socket(fileno=lifeline)
    return Child(line, events, errors, status, data, process, process and process.pid)


def _socket_pair() -> tuple[int, int]:
    """Return our end and the child's."""
    ours, theirs = socket.socketpair()
    return ours.detach(), theirs.detach()


def launch_cold(brief: Brief, env: Mapping[str, str]) -> Child:
    """Start a child in an interpreter of its own; raises `LaunchFailed`."""

    def hand_over(theirs: tuple[int, ...]) -> "subprocess.Popen[bytes]":
        start_in, events_out, errors_out, status_out = theirs
        # Begun where we are: in the task's folder, a relative PYTHONPATH would lead into that.
        return subprocess.Popen(
            [*PYTHON, "outrider.child", str(status_out), str(brief.timeout_ms)],
            stdin=start_in,
            stdout=events_out,
            stderr=errors_out,
            # Who can see the process can see these; the rest comes with the brief.
            env=without_secrets(env),
            pass_fds=(status_out,),
            start_new_session=True,
        )

    return with_links(Start(brief, dict(env)), hand_over)


def _close(descriptors: Iterable[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
