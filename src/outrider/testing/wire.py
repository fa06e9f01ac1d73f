"""The bytes of the chat wire format; no I/O."""

import json
import time
from collections.abc import Iterator

from outrider.testing.request import Json, Request
from outrider.testing.steps import Ending, Endless, Failure, Reply, Usage

DONE = b"data: [DONE]\n\n"


def error_body(failure: Failure) -> bytes:
    """The provider's error object for a failure."""
    return _encode({"error": _error(failure)})


def models_body(name: str) -> bytes:
    """The list of models, with the scripted one on it."""
    model = {"id": name, "object": "model", "created": 0, "owned_by": "outrider"}
    return _encode({"object": "list", "data": [model]})


def completion_body(reply: Reply, request: Request) -> bytes:
    """The whole reply as one object, for a request that doesn't stream."""
    message: Json = {
        "role": "assistant",
        "content": None if (reply.calls or reply.refusal) and not reply.text else reply.text,
        "refusal": reply.refusal or None,
    }
    if reply.calls:
        message["tool_calls"] = [
            _call(reply, request, index, reply.calls[index].arguments)
            for index in range(len(reply.calls))
        ]
    choice: Json = {"index": 0, "message": message, "finish_reason": reply.finish_reason}
    body = _head(request, "chat.completion")
    return _encode(body | {"choices": [choice], "usage": _usage(reply.usage)})


def opening(request: Request) -> bytes:
    """The first event of a stream: who speaks."""
    return _delta(request, {"role": "assistant", "content": ""})


def pieces(reply: Reply, request: Request) -> Iterator[bytes]:
    """The events that carry the reply's content, one a piece."""
    for piece in _split(reply.refusal, reply.chunk_size):
        yield _delta(request, {"refusal": piece})
    for piece in _split(reply.text, reply.chunk_size):
        yield _delta(request, {"content": piece})
    for index, call in enumerate(reply.calls):
        yield _delta(request, {"tool_calls": [_call(reply, request, index, "")]})
        for piece in _split(call.arguments, reply.chunk_size):
            part = {"index": index, "function": {"arguments": piece}}
            yield _delta(request, {"tool_calls": [part]})


def closing(reply: Reply, request: Request) -> bytes:
    """The events after the last piece; none where the reply breaks off."""
    match reply.ending:
        case Ending.FINISHED:
            return _finish(reply, request)
        case Ending.MALFORMED:
            return b'data: {"choices": [{"delta": {"content": "\n\n' + _finish(reply, request)
        case Ending.ERROR if reply.error:
            return _event({"error": _error(reply.error)})
        case _:
            return b""


def endless_parts(step: Endless, request: Request) -> tuple[bytes, bytes]:
    """How endless output begins, and the part that is then sent again and again."""
    if request.stream:
        return opening(request), _delta(request, {"content": step.chunk_text})
    return b'{"choices": [{"message": {"content": "', json.dumps(step.chunk_text)[1:-1].encode()


def _finish(reply: Reply, request: Request) -> bytes:
    finish = _delta(request, {}, reply.finish_reason) if reply.finish_reason else b""
    if not request.include_usage:
        return finish + DONE
    usage: Json = {"choices": [], "usage": _usage(reply.usage)}
    return finish + _event(_head(request, "chat.completion.chunk") | usage) + DONE


def _delta(request: Request, delta: Json, finish_reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return _event(_head(request, "chat.completion.chunk") | {"choices": [choice]})


def _head(request: Request, kind: str) -> Json:
    return {
        "id": f"chatcmpl-{request.number}",
        "object": kind,
        "created": int(time.time()),
        "model": request.model,
    }


def _call(reply: Reply, request: Request, index: int, arguments: str) -> Json:
    call = reply.calls[index]
    return {
        "index": index,
        "id": call.id or f"call_{request.number}_{index}",
        "type": "function",
        "function": {"name": call.name, "arguments": arguments},
    }


def _error(failure: Failure) -> Json:
    return {
        "message": failure.message,
        "type": failure.type,
        "param": None,
        "code": failure.code,
    }


def _usage(usage: Usage) -> Json:
    return {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cached},
    }


def _split(text: str, size: int) -> Iterator[str]:
    return (text[start : start + size] for start in range(0, len(text), size))


def _event(data: Json) -> bytes:
    return b"data: " + _encode(data) + b"\n\n"


def _encode(data: Json) -> bytes:
    # ASCII escapes keep lone surrogates, which UTF-8 cannot carry.
    return json.dumps(data, separators=(",", ":")).encode()
