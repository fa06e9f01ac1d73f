"""Anthropic's Messages API in front of a scripted model, as far as the benchmark needs it."""

import asyncio
import json
import time
from collections.abc import Iterator
from typing import Any

from outrider.testing import ModelRequest, Reply, ScriptedModel
from outrider.testing.connection import HttpConnection, HttpRequest

Json = dict[str, Any]


class TwoWires(ScriptedModel):
    """A scripted model that answers both OpenAI's and Anthropic's clients."""

    async def _handle(self, connection: HttpConnection, http: HttpRequest) -> None:
        if http.path != "/v1/messages":
            await super()._handle(connection, http)
            return
        body = as_chat(json.loads(http.body))
        reply = self._step(ModelRequest(body, http.headers, time.monotonic(), 0))
        assert isinstance(reply, Reply), reply
        connection.begin_chunks("text/event-stream")
        for event in stream(reply):
            if event["type"] == "content_block_delta" and reply.delay:
                await connection.flush()
                await asyncio.sleep(reply.delay)
            connection.chunk(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
        connection.end_chunks()
        await connection.flush()


def as_chat(body: Json) -> Json:
    """Return a request with its tools as OpenAI's clients name them; its messages are alike."""
    assert body["stream"], "only streams are answered"
    return {**body, "tools": [{"function": tool} for tool in body.get("tools", ())]}


def stream(reply: Reply) -> Iterator[Json]:
    """Return the events of a reply: its text, and each of its tool calls whole."""
    usage = {"input_tokens": 10, "output_tokens": 1}
    message: Json = {"id": "msg_1", "type": "message", "role": "assistant", "model": "scripted"}
    message |= {"content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
    yield {"type": "message_start", "message": message}
    for index, (block, delta) in enumerate(blocks(reply)):
        yield {"type": "content_block_start", "index": index, "content_block": block}
        yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    reason = {"stop_reason": "tool_use" if reply.calls else "end_turn", "stop_sequence": None}
    yield {"type": "message_delta", "delta": reason, "usage": {"output_tokens": 5}}
    yield {"type": "message_stop"}


def blocks(reply: Reply) -> Iterator[tuple[Json, Json]]:
    """Return the empty content block of each part of a reply, and what then fills it."""
    if reply.text:
        yield {"type": "text", "text": ""}, {"type": "text_delta", "text": reply.text}
    for number, call in enumerate(reply.calls):
        block = {"type": "tool_use", "id": f"toolu_{number}", "name": call.name, "input": {}}
        yield block, {"type": "input_json_delta", "partial_json": call.arguments}
