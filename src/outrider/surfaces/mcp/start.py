"""The beginning of `outrider mcp`: the first answers, with nothing loaded that they don't need."""

import os
from pathlib import Path

from outrider.surfaces.asyncio_loading import load_asyncio
from outrider.surfaces.mcp.handshake import ClientSession, greet
from outrider.surfaces.mcp.offer import Offer


def main() -> int:
    """Serve the client at stdin and stdout until it leaves, and return the exit code."""
    stdout = os.dup(1)
    os.dup2(2, 1)  # what a library prints must not get between the messages
    offer = Offer(Path.cwd())
    session = ClientSession(offer.describe, offer.tools)
    try:
        pending = greet(session, 0, stdout)
        if pending is not None:
            load_asyncio()
            from asyncio import run

            from outrider.surfaces.mcp.server import McpServer

            run(McpServer(session, offer, stdout).serve(pending))
    except (KeyboardInterrupt, BrokenPipeError):
        pass
    return 0
