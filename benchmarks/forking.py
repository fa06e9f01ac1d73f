"""A process as warm as Outrider's that forks once for each line on stdin, and does nothing else.

It answers with the seconds until the fork's first byte. This is the yardstick for a warm start:
nothing that forks such a process can be faster.
"""

import json
import os
import sys
import time

from outrider.child.fork_server import warm_up
from outrider.models.wires import Wire


def forked() -> float:
    """Return the seconds from before the fork until a byte from the fork has been read."""
    reader, writer = os.pipe()
    start = time.monotonic()
    pid = os.fork()
    if pid == 0:
        os.write(writer, b"x")
        os._exit(0)
    os.read(reader, 1)
    seconds = time.monotonic() - start
    os.waitpid(pid, 0)
    os.close(reader)
    os.close(writer)
    return seconds


def main() -> None:
    """Warm up as the warm process does, then fork whenever asked to."""
    warm_up(Wire.LEAN)
    forked()
    print(json.dumps({"ready": True}), flush=True)
    for _ in sys.stdin:
        print(json.dumps({"seconds": forked()}), flush=True)


if __name__ == "__main__":
    main()
