"""A cold child: `python -m outrider.child STATUS_FD TIMEOUT_MS`; brief in, events out."""

import sys
from _socket import socket

from outrider.processes.guardian import run_guarded


def _run_child(guardian: socket) -> None:
    """Run the child in the fork, where its imports cost nobody else's memory."""
    from outrider.child import exhaustion, main

    exhaustion.end_when_exhausted()
    main.run_child(guardian, is_cold=True)


if __name__ == "__main__":
    run_guarded(_run_child, lifeline=0, status=int(sys.argv[1]), timeout_ms=int(sys.argv[2]))
