"""The rehearsal: one task through the same code as any other, with a scripted model on loopback.

What is imported, compiled and cached here, every forked child has for free.
"""

import asyncio
import json
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from itertools import starmap
from pathlib import Path
from typing import Any

from pydantic_ai.models import Model

from outrider import agents
from outrider.child.budget import Budget
from outrider.child.main import run_task
from outrider.models.failures import ModelUnavailable
from outrider.models.providers import build_model
from outrider.models.resolution import is_embedded, needs
from outrider.protocol.brief import Brief

_GREP = {"name": "grep", "arguments": '{"pattern":"x"}'}
_CALL = {"index": 0, "id": "0", "type": "function", "function": _GREP}
_TURNS: dict[str, list[dict[str, Any]]] = {
    "tool_calls": [{"tool_calls": [_CALL]}],
    "stop": [{"content": "Wa"}, {"content": "rm."}],
}
"""What the model says before each reason to stop: as much as possible of what streams contain."""

_USAGE = {
    "prompt_tokens": 9,
    "completion_tokens": 9,
    "total_tokens": 18,
    "prompt_tokens_details": {"cached_tokens": 1},
}
_MODEL = "gpt-4o"
"""A model with a price, so that the price is looked up too."""


def load_provider(provider: str) -> None:
    """Build a model of this provider once, with a key that opens nothing."""
    model = provider if is_embedded(provider) else f"{provider}:any"
    with suppress(ModelUnavailable):
        _build(model, dict.fromkeys(needs(model), "none"))


def rehearse() -> None:
    """Do one small task from beginning to end; it reads a folder of ours and writes nothing."""
    asyncio.run(_rehearse())


async def _rehearse() -> None:
    folder = Path(agents.__file__).parent / "builtin"
    brief = Brief("00000000", "warm", "You.", "Go.", "warm", str(folder), tools=("grep",))
    serve = partial(_serve, starmap(_response, _TURNS.items()))
    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        address = f"http://127.0.0.1:{port}/v1"
        variables = {"OPENAI_API_KEY": "none", "OPENAI_BASE_URL": address}
        model = _build(f"openai-chat:{_MODEL}", variables)
        await run_task(brief, model, lambda _event: None, Budget(brief.budget), time.monotonic())


def _build(model: str, variables: dict[str, str]) -> Model:
    """Return a model built in an environment with these variables, which are then removed."""
    os.environ.update(variables)
    try:
        return build_model(model)
    finally:
        for name in variables:
            del os.environ[name]


async def _serve(
    responses: Iterator[bytes], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Answer the requests of one connection."""
    # At the end the client keeps its connection open, and the loop cancels this.
    with suppress(asyncio.IncompleteReadError, asyncio.CancelledError, StopIteration):
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            size = int(head.partition(b"content-length:")[2].split()[0])
            await reader.readexactly(size)
            writer.write(next(responses))
            await writer.drain()
    writer.close()


def _response(reason: str, deltas: list[dict[str, Any]]) -> bytes:
    common = {"id": "0", "object": "chat.completion.chunk", "created": 0, "model": _MODEL}
    deltas = [{"role": "assistant", "content": ""}, *deltas]
    choices: list[dict[str, Any]] = [{"index": 0, "delta": delta} for delta in deltas]
    choices.append({"index": 0, "delta": {}, "finish_reason": reason})
    chunks: list[dict[str, Any]] = [{"choices": [choice]} for choice in choices]
    chunks.append({"choices": [], "usage": _USAGE})
    events = [json.dumps({**common, **chunk}) for chunk in chunks] + ["[DONE]"]
    body = "".join(f"data: {event}\n\n" for event in events)
    head = f"content-type: text/event-stream\r\ncontent-length: {len(body)}"
    return f"HTTP/1.1 200 OK\r\n{head}\r\n\r\n{body}".encode()
