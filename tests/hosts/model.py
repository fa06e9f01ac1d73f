"""A scripted model for hosts, on loopback, in the four wires that they speak.

It calls `subagent` as soon as a host offers it, and then says what it saw of the answer. A request
that offers other tools but not that one comes from a subagent: it is kept waiting if asked to.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

ARGUMENTS = {"agent": "explorer", "task": "Where is main defined?"}
QUOTE = "<subagent-output"
DEFERRED = "mcp__outrider__subagent"
"""How Qwen Code names the tool, which its model finds by a search."""
Json = dict[str, Any]


@dataclass
class Seen:
    """What one host did."""

    first_tools: list[str] | None = None
    """The tools that it offered in its first turn."""
    results: list[str] = field(default_factory=list)
    """What its model got of the tool's result."""
    waiting: threading.Event = field(default_factory=threading.Event)
    """Set when the subagent's own request has arrived."""
    key: str = ""
    """What that request was authorised with."""


class Model(ThreadingHTTPServer):
    """The server; `seen` is set anew for each host."""

    daemon_threads = True
    seen = Seen()
    hold = False
    """Whether a subagent's request is kept waiting."""


class Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    protocol_version = "HTTP/1.1"
    server: Model

    def log_message(self, *_: Any) -> None:
        """Print nothing."""

    def do_HEAD(self) -> None:
        self._send(b"", "text/plain")

    def do_GET(self) -> None:
        model = {"name": "fake", "id": "fake", "model": "fake", "object": "model"}
        self._send(json.dumps({"models": [model], "data": [model]}).encode(), "application/json")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        try:
            request = json.loads(body)
        except ValueError:
            request = {}
        path = self.path.partition("?")[0]
        wire = next((wire for end, wire in WIRES.items() if end in path), None)
        if wire is None or "count" in path.lower():
            return self._send(b'{"input_tokens": 1, "totalTokens": 1}', "application/json")
        seen = self.server.seen
        tools, results = wire.tools(request), wire.results(request)
        name = next((tool for tool in tools if tool.endswith("subagent")), None)
        deferred = (
            DEFERRED
            if name is None and "tool_call" in tools and DEFERRED in body.decode()
            else None
        )
        if len(tools) > 3 and seen.first_tools is None:
            seen.first_tools = [*tools, deferred] if deferred else tools
        if tools and name is None and "find" in tools and self.server.hold:
            seen.key = self.headers.get("Authorization", "")
            seen.waiting.set()
            threading.Event().wait(60)
        if deferred and len(results) < 2:
            steps = [
                ("tool_search", {"query": f"select:{deferred}"}),
                ("tool_call", {"name": deferred, "arguments": ARGUMENTS}),
            ]
            said = wire.call(*steps[len(results)])
        elif name is None and not deferred:
            said = wire.text("Nothing to do.")
        elif not results:
            said = wire.call(name)
        else:
            seen.results = results
            said = wire.text("The subagent has answered." if QUOTE in "".join(results) else "No.")
        streams = request.get("stream") or "stream" in path
        kind = "text/event-stream" if streams else "application/json"
        return self._send(wire.streamed(said) if streams else wire.whole(said), kind)

    def _send(self, body: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        with suppress(BrokenPipeError, ConnectionResetError):  # a host that was cancelled has gone
            self.end_headers()
            self.wfile.write(body)


def _events(events: Iterator[tuple[str, Json]]) -> bytes:
    return "".join(f"event: {name}\ndata: {json.dumps(data)}\n\n" for name, data in events).encode()


class Anthropic:
    """`POST /v1/messages`."""

    @staticmethod
    def tools(request: Json) -> list[str]:
        return [tool["name"] for tool in request.get("tools") or []]

    @staticmethod
    def results(request: Json) -> list[str]:
        parts = [
            part
            for message in request.get("messages", [])
            if isinstance(message["content"], list)
            for part in message["content"]
        ]
        return [
            json.dumps(part, ensure_ascii=False)
            for part in parts
            if part.get("type") == "tool_result"
        ]

    @staticmethod
    def text(text: str) -> Json:
        return {"type": "text", "text": text}

    @staticmethod
    def call(name: str) -> Json:
        return {"type": "tool_use", "id": "toolu_1", "name": name, "input": ARGUMENTS}

    @staticmethod
    def _message(said: Json) -> Json:
        reason = "tool_use" if said["type"] == "tool_use" else "end_turn"
        return {
            "id": "msg_1", "type": "message", "role": "assistant", "model": "fake",
            "content": [said], "stop_reason": reason, "stop_sequence": None,
            "usage": {"input_tokens": 10, "output_tokens": 5},
        }  # fmt: skip

    @classmethod
    def whole(cls, said: Json) -> bytes:
        return json.dumps(cls._message(said)).encode()

    @classmethod
    def streamed(cls, said: Json) -> bytes:
        message = cls._message(said)
        is_call = said["type"] == "tool_use"
        empty = {**said, "input": {}} if is_call else {**said, "text": ""}
        delta = (
            {"type": "input_json_delta", "partial_json": json.dumps(ARGUMENTS)}
            if is_call
            else {"type": "text_delta", "text": said["text"]}
        )
        ending = {"stop_reason": message["stop_reason"], "stop_sequence": None}
        parts: list[Json] = [
            {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}},
            {"type": "content_block_start", "index": 0, "content_block": empty},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": ending, "usage": {"output_tokens": 5}},
            {"type": "message_stop"},
        ]
        return _events((part["type"], part) for part in parts)


class Responses:
    """`POST /v1/responses`."""

    @staticmethod
    def tools(request: Json) -> list[str]:
        found: list[str] = []
        for tool in request.get("tools") or []:
            if tool.get("type") == "namespace":
                found += [f"{tool['name']}.{inner['name']}" for inner in tool.get("tools", [])]
            else:
                found.append(tool.get("name") or tool.get("type", ""))
        return found

    @staticmethod
    def results(request: Json) -> list[str]:
        given = request.get("input")
        parts = given if isinstance(given, list) else []
        return [
            json.dumps(part, ensure_ascii=False)
            for part in parts
            if part.get("type") == "function_call_output"
        ]

    @staticmethod
    def text(text: str) -> Json:
        content = [{"type": "output_text", "text": text, "annotations": []}]
        return {
            "type": "message",
            "id": "m1",
            "role": "assistant",
            "status": "completed",
            "content": content,
        }

    @staticmethod
    def call(name: str) -> Json:
        space, dot, inner = name.rpartition(".")
        named = {"namespace": space, "name": inner} if dot else {"name": name}
        given = {"call_id": "c1", "arguments": json.dumps(ARGUMENTS)}
        return {"type": "function_call", "id": "f1", "status": "completed", **given, **named}

    @staticmethod
    def _response(said: Json) -> Json:
        usage = {
            "input_tokens": 10, "output_tokens": 5, "total_tokens": 15,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        }  # fmt: skip
        return {
            "id": "r1", "object": "response", "created_at": 1, "model": "fake",
            "status": "completed", "output": [said], "usage": usage,
        }  # fmt: skip

    @classmethod
    def whole(cls, said: Json) -> bytes:
        return json.dumps(cls._response(said)).encode()

    @classmethod
    def streamed(cls, said: Json) -> bytes:
        done = cls._response(said)
        begun = {**done, "status": "in_progress", "output": []}
        parts: list[Json] = [
            {"type": "response.created", "response": begun},
            {"type": "response.output_item.added", "output_index": 0, "item": said},
            {"type": "response.output_item.done", "output_index": 0, "item": said},
            {"type": "response.completed", "response": done},
        ]
        numbered = ({**part, "sequence_number": n} for n, part in enumerate(parts))
        return _events((part["type"], part) for part in numbered)


class Chat:
    """`POST /v1/chat/completions`."""

    @staticmethod
    def tools(request: Json) -> list[str]:
        return [tool["function"]["name"] for tool in request.get("tools") or []]

    @staticmethod
    def results(request: Json) -> list[str]:
        messages = request.get("messages", [])
        return [json.dumps(one, ensure_ascii=False) for one in messages if one["role"] == "tool"]

    @staticmethod
    def text(text: str) -> Json:
        return {"role": "assistant", "content": text}

    @staticmethod
    def call(name: str, arguments: Json = ARGUMENTS) -> Json:
        function = {"name": name, "arguments": json.dumps(arguments)}
        call = {"index": 0, "id": f"call_{name}", "type": "function", "function": function}
        return {"role": "assistant", "content": None, "tool_calls": [call]}

    @staticmethod
    def _chunk(kind: str, part: Json, reason: str | None) -> Json:
        choice = {"index": 0, kind: part, "finish_reason": reason}
        usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        name = "chat.completion.chunk" if kind == "delta" else "chat.completion"
        return {
            "id": "c1", "object": name, "created": 1, "model": "fake",
            "choices": [choice], "usage": usage,
        }  # fmt: skip

    @classmethod
    def whole(cls, said: Json) -> bytes:
        reason = "tool_calls" if "tool_calls" in said else "stop"
        return json.dumps(cls._chunk("message", said, reason)).encode()

    @classmethod
    def streamed(cls, said: Json) -> bytes:
        reason = "tool_calls" if "tool_calls" in said else "stop"
        chunks = [cls._chunk("delta", said, None), cls._chunk("delta", {}, reason)]
        return (
            "".join(f"data: {json.dumps(one)}\n\n" for one in chunks).encode() + b"data: [DONE]\n\n"
        )


class Gemini:
    """`POST /v1beta/models/NAME:streamGenerateContent`."""

    @staticmethod
    def tools(request: Json) -> list[str]:
        return [
            declared["name"]
            for tool in request.get("tools") or []
            for declared in tool.get("functionDeclarations") or []
        ]

    @staticmethod
    def results(request: Json) -> list[str]:
        parts = [part for one in request.get("contents", []) for part in one.get("parts", [])]
        return [
            json.dumps(part, ensure_ascii=False) for part in parts if "functionResponse" in part
        ]

    @staticmethod
    def text(text: str) -> Json:
        return {"text": text}

    @staticmethod
    def call(name: str) -> Json:
        return {"functionCall": {"name": name, "args": ARGUMENTS}}

    @staticmethod
    def whole(said: Json) -> bytes:
        content = {"role": "model", "parts": [said]}
        usage = {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}
        candidate = {"content": content, "finishReason": "STOP", "index": 0}
        return json.dumps({"candidates": [candidate], "usageMetadata": usage}).encode()

    @classmethod
    def streamed(cls, said: Json) -> bytes:
        return b"data: " + cls.whole(said) + b"\n\n"


WIRES: dict[str, Any] = {
    "/messages": Anthropic,
    "/responses": Responses,
    "/chat/completions": Chat,
    "enerateContent": Gemini,
}
