"""pi: a node process for each task; `print` as a user calls it, `child` as a parent spawns it."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from benchmarks.peers.protocol import MODEL, serve

MODE = {
    "print": ["-p"],
    "child": [
        *("--mode", "json", "-p", "--no-session", "--no-extensions", "--no-skills"),
        *("--no-prompt-templates", "--no-context-files", "--tools", "read,grep,find,ls"),
    ],
}
PROVIDER = ["--provider", "bench", "--model", MODEL]


def main() -> None:
    """Serve in the mode that the first argument names."""
    mode = sys.argv[1]
    pi = [os.environ["BENCH_NODE"], os.environ["BENCH_PI"]]
    _write_models()
    os.chdir(os.environ["BENCH_PROJECT"])

    async def delegate(task: str) -> str:
        out = await _output([*pi, *MODE[mode], *PROVIDER, task])
        return out if mode == "print" else _last_text(out)

    async def offer(task: str) -> dict[str, Any]:
        extension = os.environ.get("BENCH_PI_SUBAGENTS")
        if mode == "print" or not extension:
            return {"tool": None}
        await _output([*pi, *MODE["print"], "--no-session", *PROVIDER, "-e", extension, task])
        return {"tool": "subagent"}

    serve(delegate, version=os.environ["BENCH_PI_VERSION"], offer=offer)


def _write_models() -> None:
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


async def _output(command: list[str]) -> str:
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"exit code {process.returncode}: {err.decode()[-400:]}")
    return out.decode()


def _last_text(events: str) -> str:
    """Return the text of the last message that the model ended."""
    for line in reversed(events.splitlines()):
        event = json.loads(line)
        message = event.get("message", {})
        if event["type"] == "message_end" and message.get("role") == "assistant":
            return "".join(part.get("text", "") for part in message["content"])
    return ""


if __name__ == "__main__":
    main()
