"""Warming up: one task through the same code as any other, against a model of our own on loopback.

What is imported, compiled and cached here, each forked child has for nothing.
"""

import asyncio
import json
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from outrider import agents
from outrider.child.budget import Budget
from outrider.child.main import run_task
from outrider.models.failures import ModelUnavailable
from outrider.models.providers import build_model
from outrider.models.resolution import is_embedded, needs
from outrider.protocol.brief import Brief
from outrider.protocol.events import Event

_CALL = {"name": "grep", "arguments": '{"pattern":"x"}'}
_STREAMS: tuple[list[dict[str, Any]], ...] = (
    [
        {"delta": {"role": "assistant", "content": ""}},
        {"delta": {"tool_calls": [{"index": 0, "id": "0", "type": "function", "function": _CALL}]}},
        {"delta": {}, "finish_reason": "tool_calls"},
    ],
    [
        {"delta": {"role": "assistant", "content": ""}},
        {"delta": {"content": "Wa"}},
        {"delta": {"content": "rm."}},
        {"delta": {}, "finish_reason": "stop"},
    ],
)
"""What the model says, turn by turn: as much of what occurs in any stream as possible."""

_USAGE = {
    "prompt_tokens": 9,
    "completion_tokens": 9,
    "total_tokens": 18,
    "prompt_tokens_details": {"cached_tokens": 1},
}
_MODEL = "gpt-4o"
"""A model with a price, for the price is looked up too."""

_DONE = "data: [DONE]\n\n"
_HEAD = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n"


def load_provider(provider: str) -> None:
    """Build a model of this provider once, with a key that opens nothing."""
    model = provider if is_embedded(provider) else f"{provider}:any"
    names = needs(model)
    os.environ.update(dict.fromkeys(names, "none"))
    with suppress(ModelUnavailable):
        build_model(model)
    for name in names:
        del os.environ[name]


def rehearse() -> None:
    """Do one small task from beginning to end; it reads a folder of ours and writes nothing."""
    asyncio.run(_rehearse())


async def _rehearse() -> None:
    folder = Path(agents.__file__).parent / "builtin"
    brief = Brief("00000000", "warm", "You.", "Go.", "warm", str(folder), tools=("grep",))
    server = await asyncio.start_server(_Scripted().answer, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        variables = {"OPENAI_API_KEY": "none", "OPENAI_BASE_URL": f"http://127.0.0.1:{port}/v1"}
        os.environ.update(variables)
        model = build_model(f"openai-chat:{_MODEL}")
        for name in variables:
            del os.environ[name]
        await run_task(brief, model, _ignore, Budget(brief.budget), time.monotonic())


def _ignore(_event: Event) -> None:
    """Nobody listens."""


class _Scripted:
    """A model that calls a tool, and then is done."""

    def __init__(self) -> None:
        self._streams = iter(_STREAMS)

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        # At the end the client keeps its connection, and the loop cancels us.
        with suppress(asyncio.IncompleteReadError, asyncio.CancelledError, StopIteration):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                size = int(head.partition(b"content-length:")[2].split()[0])
                await reader.readexactly(size)
                body = _body(next(self._streams))
                writer.write((_HEAD.format(len(body)) + body).encode())
                await writer.drain()
        writer.close()


def _body(stream: list[dict[str, Any]]) -> str:
    head = {"id": "0", "object": "chat.completion.chunk", "created": 0, "model": _MODEL}
    chunks: list[Any] = [{"choices": [{"index": 0, **choice}]} for choice in stream]
    chunks.append({"choices": [], "usage": _USAGE})
    return "".join(f"data: {json.dumps({**head, **chunk})}\n\n" for chunk in chunks) + _DONE
