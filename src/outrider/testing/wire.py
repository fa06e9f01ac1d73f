"""The chat wire format: what a client asked, and the bytes it gets. No I/O."""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import repeat
from typing import Any, TypeGuard, cast

from outrider.testing.steps import Reply, StreamEnd, ToolCall, Usage, UsageLike

Json = dict[str, Any]

_DONE = b"data: [DONE]\n\n"


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One chat request: its parsed body, its headers in lower case, and when it came."""

    body: Json
    headers: dict[str, str]
    at: float
    """`time.monotonic()` when the request was complete."""
    number: int
    """Its place among all requests to this server, from 0."""
    raw: bytes = b""
    """Its body as it came."""

    @property
    def model(self) -> str:
        return str(self.body.get("model", ""))

    @property
    def messages(self) -> list[Json]:
        return self.body["messages"]

    @property
    def tools(self) -> list[Json]:
        return self.body.get("tools") or []

    @property
    def tool_names(self) -> list[str]:
        """The names of the tools on offer, in the client's order."""
        return [tool["function"]["name"] for tool in self.tools if "function" in tool]

    @property
    def last_user_text(self) -> str:
        """The text of the newest user message, empty if there is none."""
        spoken = [message for message in self.messages if message.get("role") == "user"]
        content: object = spoken[-1].get("content") if spoken else ""
        parts = cast(list[Json], content) if isinstance(content, list) else [{"text": content}]
        return "".join(str(part.get("text") or "") for part in parts)

    @property
    def turn(self) -> int:
        """How many times the model has spoken in this conversation; 0 at its start."""
        return sum(message.get("role") == "assistant" for message in self.messages)

    @property
    def stream(self) -> bool:
        """Whether the client wants the answer as a stream."""
        return bool(self.body.get("stream"))

    @property
    def include_usage(self) -> bool:
        """Whether the client wants usage at the end of the stream."""
        options: object = self.body.get("stream_options")
        return isinstance(options, dict) and bool(cast(Json, options).get("include_usage"))


def is_chat(body: object) -> TypeGuard[Json]:
    """Whether `body` is a chat request that a script can work with."""
    messages: object = cast(Json, body).get("messages") if isinstance(body, dict) else None
    if not isinstance(messages, list):
        return False
    return all(isinstance(message, dict) for message in cast(list[object], messages))


def models_body(name: str) -> bytes:
    """The list of models, with the scripted one on it."""
    model = {"id": name, "object": "model", "created": 0, "owned_by": "outrider"}
    return _encode({"object": "list", "data": [model]})


def opening(reply: Reply, request: ModelRequest) -> bytes:
    """The beginning of a response's body: of a stream the event that says who speaks."""
    if request.stream:
        return _delta(request, {"role": "assistant", "content": ""})
    return b'{"choices": [{"message": {"content": "' if reply.max_bytes else b""


def pieces(reply: Reply, request: ModelRequest) -> Iterator[bytes]:
    """The parts that a slow response waits before; without streaming they are empty."""
    if reply.max_bytes:
        text = json.dumps(reply.text)[1:-1].encode()
        again = _delta(request, {"content": reply.text}) if request.stream else text
        return repeat(again, reply.max_bytes // max(len(again), 1))
    events = _events(reply, request)
    return events if request.stream else (b"" for _ in events)


def closing(reply: Reply, request: ModelRequest) -> bytes:
    """The rest of the body: without streaming all of it, or half if the reply breaks off."""
    if reply.max_bytes:
        return b""
    if not request.stream:
        whole = _completion(reply, request)
        return whole if reply.ending is StreamEnd.FINISHED else whole[: len(whole) // 2]
    match reply.ending:
        case StreamEnd.FINISHED:
            return _finish(reply, request)
        case StreamEnd.MALFORMED:
            return b'data: {"choices": [{"delta": {"content": "\n\n' + _finish(reply, request)
        case StreamEnd.ERROR if reply.error:
            return _event(reply.error.body.encode())
        case _:
            return b""


def _completion(reply: Reply, request: ModelRequest) -> bytes:
    """The whole reply as one object, for a request that doesn't stream."""
    message: Json = {
        "role": "assistant",
        "content": None if (reply.calls or reply.refusal) and not reply.text else reply.text,
        "refusal": reply.refusal or None,
    }
    calls = [_call(one, request, i, one.arguments) for i, one in enumerate(reply.calls)]
    message |= {"tool_calls": calls} if calls else {}
    choice: Json = {"index": 0, "message": message, "finish_reason": reply.finish_reason}
    body = _head(request, "chat.completion")
    return _encode(body | {"choices": [choice], "usage": _usage(reply.usage)})


def _events(reply: Reply, request: ModelRequest) -> Iterator[bytes]:
    """The events that carry the reply's content, one for each piece."""
    for field, text in (("refusal", reply.refusal), ("content", reply.text)):
        for piece in _split(text, reply.chunk_size):
            yield _delta(request, {field: piece})
    for index, call in enumerate(reply.calls):
        yield _delta(request, {"tool_calls": [_call(call, request, index, "")]})
        for piece in _split(call.arguments, reply.chunk_size):
            part = {"index": index, "function": {"arguments": piece}}
            yield _delta(request, {"tool_calls": [part]})


def _finish(reply: Reply, request: ModelRequest) -> bytes:
    finish = b"" if reply.finish_reason is None else _delta(request, {}, reply.finish_reason)
    if not request.include_usage or reply.usage is None:
        return finish + _DONE
    return finish + _chunk(request, {"choices": [], "usage": _usage(reply.usage)}) + _DONE


def _delta(request: ModelRequest, delta: Json, finish_reason: object = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return _chunk(request, {"choices": [choice]})


def _chunk(request: ModelRequest, content: Json) -> bytes:
    return _event(_encode(_head(request, "chat.completion.chunk") | content))


def _head(request: ModelRequest, kind: str) -> Json:
    made = {"created": int(time.time()), "model": request.model}
    return {"id": f"chatcmpl-{request.number}", "object": kind, **made}


def _call(call: ToolCall, request: ModelRequest, index: int, arguments: str) -> Json:
    identity = call.id or f"call_{request.number}_{index}"
    function = {"name": call.name, "arguments": arguments}
    return {"index": index, "id": identity, "type": "function", "function": function}


def _usage(given: UsageLike) -> object:
    usage = Usage(*cast("tuple[int, ...]", given)) if isinstance(given, tuple) else given
    if not isinstance(usage, Usage):
        return usage
    total, details = usage.input + usage.output, {"cached_tokens": usage.cached}
    counts = {"prompt_tokens": usage.input, "completion_tokens": usage.output}
    return {**counts, "total_tokens": total, "prompt_tokens_details": details}


def _split(text: str, size: int) -> Iterator[str]:
    return (text[start : start + size] for start in range(0, len(text), size))


def _event(data: bytes) -> bytes:
    return b"data: " + data + b"\n\n"


def _encode(data: Json) -> bytes:
    # ASCII escapes keep lone surrogates, which UTF-8 cannot carry.
    return json.dumps(data, separators=(",", ":")).encode()
