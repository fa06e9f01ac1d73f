"""pi: a node process for each task.

`print` is pi as a user calls it, `child` as a parent spawns it, and `subagents` a running pi with
pi-subagents, whose model delegates each task to a runner in the background, which is its default.
"""

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.peers.protocol import MODEL, Timed, output_of, serve

MODE = {
    "print": ["-p"],
    "child": [
        *("--mode", "json", "-p", "--no-session", "--no-extensions", "--no-skills"),
        *("--no-prompt-templates", "--no-context-files", "--tools", "read,grep,find,ls"),
    ],
}
LINE_LIMIT = 64 << 20
PROVIDER = ["--provider", "bench", "--model", MODEL]


def main() -> None:
    """Serve in the mode that the first argument names."""
    mode = sys.argv[1]
    pi = [os.environ["BENCH_NODE"], os.environ["BENCH_PI"]]
    write_models()
    os.chdir(os.environ["BENCH_PROJECT"])
    if mode == "subagents":
        extended = [*pi, *PROVIDER, "--no-session", "-e", os.environ["BENCH_PI_SUBAGENTS"]]
        parent = Parent([*extended, "--mode", "rpc"])

        async def offer(task: str) -> dict[str, Any]:
            await output_of([*extended, "-p", task])
            return {"tool": "subagent"}

        serve(parent.delegate, version=os.environ["BENCH_VERSION"], offer=offer)
    else:

        async def delegate(task: str) -> str:
            out = await output_of([*pi, *MODE[mode], *PROVIDER, task])
            return out if mode == "print" else _last_text(out)

        serve(delegate, version=os.environ["BENCH_VERSION"])


class Parent:
    """A pi that keeps running and delegates one task after another."""

    def __init__(self, command: list[str]) -> None:
        self._command = command
        self._process: asyncio.subprocess.Process | None = None

    async def delegate(self, task: str) -> Timed:
        """Return the answer, timed from the tool call until the parent gets the result."""
        if self._process is None:
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                limit=LINE_LIMIT,
            )
        assert self._process.stdin
        order = {"type": "prompt", "message": f"relay: {task}"}
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        start = await self._until(_is_call)
        end, told = await self._until(_is_notice)
        await self._until(lambda event: event["type"] == "agent_settled")
        return Timed(str(told["message"]["content"]), start[0], end)

    async def _until(self, wanted: Callable[[dict[str, Any]], bool]) -> tuple[float, Any]:
        """Return when the wanted event came, and the event."""
        assert self._process
        assert self._process.stdout
        while line := await self._process.stdout.readline():
            event = json.loads(line)
            if wanted(event):
                return time.monotonic(), event
        raise RuntimeError(f"pi ended with exit code {await self._process.wait()}")


def _is_call(event: dict[str, Any]) -> bool:
    return event["type"] == "tool_execution_start" and event["toolName"] == "subagent"


def _is_notice(event: dict[str, Any]) -> bool:
    message = event.get("message", {})
    return event["type"] == "message_end" and message.get("customType") == "subagent-notify"


def write_models() -> None:
    """Name the scripted model among the user's models of pi."""
    models = [{"id": MODEL}]
    provider = {
        "baseUrl": os.environ["OPENAI_BASE_URL"],
        "api": "openai-completions",
        "apiKey": "none",
        "models": models,
    }
    folder = Path(os.environ["HOME"]) / ".pi" / "agent"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "models.json").write_text(json.dumps({"providers": {"bench": provider}}))


def _last_text(events: str) -> str:
    """Return the text of the last message of the model."""
    for line in reversed(events.splitlines()):
        event = json.loads(line)
        message = event.get("message", {})
        if event["type"] == "message_end" and message.get("role") == "assistant":
            return "".join(part.get("text", "") for part in message["content"])
    return ""


if __name__ == "__main__":
    main()
