"""The four descriptors between a parent and its child, held by the parent.

Dropping the lifeline ends the child; the kernel drops it when this process dies. Events come over
sockets: unlike a pipe, a socket can't be opened through `/proc`, so no command that a child runs
can forge an event, or hold the lifeline for us.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import weakref
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field

from outrider.protocol.data import to_json
from outrider.protocol.errors import OutriderError

# -P: the working directory is hostile ground, and must not be searched for modules.
PYTHON = (sys.executable, "-P", "-m")


class StartFailed(OutriderError):
    """A child that could not be started."""


@dataclass(slots=True)
class Links:
    """A child as its parent holds it: `events` and `errors`, and `status` on how it ended."""

    lifeline: socket.socket
    events: int
    errors: int
    status: int
    unsent: memoryview
    """What the child hasn't taken yet: first the brief, later answers to its requests."""
    process: "subprocess.Popen[bytes] | None" = None
    """The guardian, where it is ours to wait for; that of a forked child isn't."""
    guardian: int | None = None
    _open: set[int] = field(default_factory=set[int])

    def __post_init__(self) -> None:
        self._open = {self.events, self.errors, self.status}
        for descriptor in self._open:
            os.set_blocking(descriptor, False)
        self.lifeline.setblocking(False)
        _lifelines.add(self.lifeline)

    def send(self, data: bytes) -> bool:
        """Send as much as fits now, `data` last; return whether all of it is sent."""
        if data:
            self.unsent = memoryview(bytes(self.unsent) + data)
        try:
            while self.unsent:
                self.unsent = self.unsent[self.lifeline.send(self.unsent) :]
        except BlockingIOError:
            return False
        except OSError:  # the child is gone, which its status tells
            self.unsent = memoryview(b"")
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
        """Close everything; called when the child's end is known, or can't be."""
        self.lifeline.close()
        while self._open:
            os.close(self._open.pop())
        if self.process is not None:
            self.process.wait()


_lifelines: "weakref.WeakSet[socket.socket]" = weakref.WeakSet()


def _drop_lifelines() -> None:
    """Drop all lifelines in a fork of this process: it must not keep our children alive."""
    for lifeline in _lifelines:
        lifeline.close()


os.register_at_fork(after_in_child=_drop_lifelines)

HandOver = Callable[[tuple[int, ...]], "subprocess.Popen[bytes] | None"]


def with_links(start: object, hand_over: HandOver) -> Links:
    """Return the links to the child that `hand_over` starts with their other ends.

    `start` is a dataclass that it reads first. Raises `StartFailed`.
    """
    import orjson

    try:
        data = memoryview(orjson.dumps(to_json(start)) + b"\n")
    except TypeError:
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
        raise StartFailed(f"The child could not be started: {error}") from error
    finally:
        _close(theirs for _, theirs in links)
    lifeline, events, errors, status = (ours for ours, _ in links)
    line = socket.socket(fileno=lifeline)
    return Links(line, events, errors, status, data, process, process and process.pid)


def _socket_pair() -> tuple[int, int]:
    """Return our end and the child's."""
    ours, theirs = socket.socketpair()
    return ours.detach(), theirs.detach()


def _close(descriptors: Iterable[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
