"""The seam: what runs one task and yields its events, whoever is at the other end.

Supervision, collecting and concluding know this interface and nothing below it: no descriptors, no
processes. Cold start and fork server are its first implementation (`native`).
"""

from collections.abc import Callable, Mapping
from typing import Protocol

from outrider.protocol.brief import Brief
from outrider.protocol.data import frozen


@frozen
class ChildExit:
    """How a child ended. `started` is false where its task was never begun."""

    started: bool
    signal: int | None = None  # the signal that killed it, where one did
    reason: str = ""  # why it was not started, in words
    code: int | None = None  # its exit code, where it ended by itself


class Listener(Protocol):
    """Takes what a child sends, as it comes."""

    def on_link(self, send: Callable[[bytes], None]) -> None:
        """Take the way to the child, by which its requests are answered."""

    def on_events(self, data: bytes) -> None:
        """Take bytes of events: JSON objects, one a line, cut anywhere."""

    def on_errors(self, data: bytes) -> None:
        """Take bytes of anything else that it printed."""


class Runtime(Protocol):
    """Runs tasks."""

    async def run(
        self, brief: Brief, environment: Mapping[str, str], listener: Listener
    ) -> ChildExit:
        """Run one task and return when the child and everything it started are gone.

        Cancelling ends the child; the call returns only after that. A task is never begun twice.
        """
        ...
