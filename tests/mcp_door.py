"""An MCP client of bare pipes, for what a proper client would never send."""

import json
import select
import subprocess
from typing import Any

from cli_door import PATIENCE_SECONDS, Door

STATELESS = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


class RawClient:
    """A server, and lines to and from it; `seen` has every message that it sent."""

    def __init__(self, door: Door, env: dict[str, str] | None = None) -> None:
        self.process = door.start("mcp", env=env, stdin=subprocess.PIPE, bufsize=0)
        self.seen: list[dict[str, Any]] = []
        self._unread = b""
        self._number = 0

    def send_line(self, line: bytes) -> None:
        view = memoryview(line + b"\n")
        while view:
            view = view[self.process.stdin.write(view) :]

    def notify(self, method: str, **params: Any) -> None:
        self.send_line(json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode())

    def request(self, method: str, **params: Any) -> int:
        self._number += 1
        message = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        self.send_line(json.dumps(message).encode())
        return self._number

    def receive(self) -> dict[str, Any]:
        """Return the next message."""
        while b"\n" not in self._unread:
            ready, _, _ = select.select([self.process.stdout], [], [], PATIENCE_SECONDS)
            assert ready, f"the server says nothing more after {self.seen[-3:]}"
            data = self.process.stdout.read(1 << 20)
            assert data, f"the server has gone after {self.seen[-3:]}"
            self._unread += data
        line, _, self._unread = self._unread.partition(b"\n")
        self.seen.append(json.loads(line))
        return self.seen[-1]

    def wait_for(self, **entries: Any) -> dict[str, Any]:
        """Return the first message with these entries, also one that was seen already."""
        for message in self.seen:
            if entries.items() <= message.items():
                return message
        while not entries.items() <= (message := self.receive()).items():
            pass
        return message

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Return the whole answer to a request."""
        return self.wait_for(id=self.request(method, **params))

    def initialize(self, version: str = "2025-11-25", **capabilities: Any) -> dict[str, Any]:
        info = {"name": "raw", "version": "1"}
        params = {"protocolVersion": version, "capabilities": capabilities, "clientInfo": info}
        result = self.ask("initialize", **params)["result"]
        self.notify("notifications/initialized")
        return result

    def begin(self, name: str, arguments: dict[str, Any], **meta: Any) -> int:
        return self.request("tools/call", name=name, arguments=arguments, _meta=meta)

    def call(self, name: str, arguments: dict[str, Any], **meta: Any) -> dict[str, Any]:
        """Return the result of a tool call."""
        return self.wait_for(id=self.begin(name, arguments, **meta))["result"]

    def close(self) -> int:
        """Leave, and return the server's exit code."""
        self.process.stdin.close()
        self.process.stdout.close()
        return self.process.wait(PATIENCE_SECONDS)
