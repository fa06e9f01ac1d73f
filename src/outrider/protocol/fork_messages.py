"""What a fork server and its clients say to each other, in the packets of a Unix socket.

A fork server sends `READY` once it can fork. A client then sends a `StartRequest` together with
the four ends that a child gets, in the order of `ChildEnds`; nothing is answered: the child tells
the rest. A fork server with other surroundings than the client's closes the ends. `STATUS` is
answered with JSON, `STOP` with `STOPPED`.
"""

import json
import time
from typing import NamedTuple

from outrider.protocol.data import from_json, frozen, to_json

READY = b"ready"
STATUS = b"status"
STOP = b"stop"
STOPPED = b"stopped"
MAX_PACKET_BYTES = 4096


class ChildEnds(NamedTuple):
    """The descriptors of a child and its guardian; the first three become 0, 1 and 2."""

    start: int
    """Brings the brief. It is the lifeline too: the child is ended when its other end closes."""
    events: int
    errors: int
    status: int  # the guardian's: it tells its process id first, and how the child ended at last


@frozen
class StartRequest:
    """Asks for a child, with the caller's surroundings.

    `deadline_ms` is when the run must be over, on the clock of `time.monotonic`: the whole system
    has that in common. `model` is the one that will be asked. A child that `only_reads` may have
    begun its walls before it was asked for.
    """

    deadline_ms: int
    surroundings: str
    model: str = ""
    only_reads: bool = False

    def ms_left(self) -> int:
        return max(0, self.deadline_ms - round(time.monotonic() * 1000))

    def to_bytes(self) -> bytes:
        # Not with orjson: a command loads that while its child starts.
        return json.dumps(to_json(self)).encode()

    @classmethod
    def from_bytes(cls, packet: bytes) -> "StartRequest | None":
        """Return the request in a packet; None where it is something else."""
        try:
            return from_json(cls, json.loads(packet))
        except ValueError:
            return None
