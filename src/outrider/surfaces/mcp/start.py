"""The beginning of `outrider mcp`: the first answers, with nothing loaded that they don't need."""

import os
from pathlib import Path

from outrider.surfaces.mcp.offer import Listing
from outrider.surfaces.mcp.wire import Session, greeted


def main() -> int:
    """Serve the client at stdin and stdout until it leaves, and return the exit code."""
    stdout = os.dup(1)
    os.dup2(2, 1)  # what a library prints must not get between the messages
    listing = Listing(Path.cwd())
    session = Session(listing.describe, listing.tools)
    try:
        pending = greeted(session, 0, stdout)
        from outrider.surfaces.mcp.server import run

        run(session, listing, pending, stdout)
    except (KeyboardInterrupt, BrokenPipeError):
        pass
    return 0
