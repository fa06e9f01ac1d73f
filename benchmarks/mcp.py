"""The MCP server: how soon it gives its first answers, and what it takes when it is idle."""

import itertools
import json
import os
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.processes import resident_bytes

HELLO = (
    {
        "id": "hello",
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "benchmark", "version": "1"},
        },
    },
    {"method": "notifications/initialized"},
    {"id": "tools", "method": "tools/list"},
)
CALL = {"name": "subagent", "arguments": {"agent": "explorer", "task": "Where is main?"}}


class McpServer:
    """A server in a small project of its own, with the embedded model."""

    def __init__(self, python: str, folder: Path) -> None:
        (folder / "app.py").write_text("def main():\n    pass\n")
        kept = {"PATH": os.environ["PATH"], "HOME": str(folder), "OUTRIDER_MODEL": "embedded"}
        self.process = subprocess.Popen(
            [python, "-m", "outrider", "mcp"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=folder, env=kept,
        )  # fmt: skip

    def send(self, *messages: dict[str, Any]) -> None:
        """Send these messages."""
        assert self.process.stdin is not None
        for message in messages:
            self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.process.stdin.flush()

    def receive(self) -> dict[str, Any]:
        """Return the next message."""
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def close(self) -> None:
        """Leave, and wait for its end."""
        self.process.communicate()


def first_answers_seconds(python: str) -> float:
    """Return the time from the start to the answers of `initialize` and `tools/list`."""
    with tempfile.TemporaryDirectory() as folder:
        begun = time.monotonic()
        server = McpServer(python, Path(folder))
        server.send(*HELLO)
        answers = [server.receive()["id"] for _ in range(2)]
        taken = time.monotonic() - begun
        server.close()
    assert answers == ["hello", "tools"]
    return taken


def idle_memory(python: str, delegations: int) -> dict[str, Any]:
    """Return the resident memory of an idle server, and again after delegations, all at once."""
    with tempfile.TemporaryDirectory() as folder:
        server = McpServer(python, Path(folder))
        server.send(*HELLO)
        server.receive(), server.receive()
        time.sleep(3)  # until it has loaded what it loads when nobody waits
        before = resident_bytes(server.process.pid)
        # With a token, or a slow machine would get handles.
        call = {"method": "tools/call", "params": {**CALL, "_meta": {"progressToken": 1}}}
        server.send(*({"id": number, **call} for number in range(delegations)))
        answers = (server.receive() for _ in itertools.count())
        results = (answer["result"] for answer in answers if "result" in answer)
        failed = sum(result["isError"] for result in itertools.islice(results, delegations))
        time.sleep(3)
        after = resident_bytes(server.process.pid)
        server.close()
    return {"idle": before, "after": after, "delegations": delegations, "failed": failed}
