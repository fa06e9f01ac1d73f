"""What a client asked of the scripted model."""

from dataclasses import dataclass
from typing import Any, TypeGuard, cast

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Request:
    """One chat request: its parsed body, its headers in lower case, and when it came."""

    body: Json
    headers: dict[str, str]
    at: float
    """`time.monotonic()` when the request was complete."""
    number: int
    """Its place among all requests to this server, from 0."""

    @property
    def model(self) -> str:
        """The model's name, as the client wrote it."""
        return str(self.body.get("model", ""))

    @property
    def messages(self) -> list[Json]:
        """The conversation so far."""
        return self.body["messages"]

    @property
    def tools(self) -> list[Json]:
        """The tool definitions on offer."""
        return self.body.get("tools") or []

    @property
    def tool_names(self) -> list[str]:
        """The names of the tools on offer, in the client's order."""
        return [tool["function"]["name"] for tool in self.tools if "function" in tool]

    @property
    def last_user_text(self) -> str:
        """The text of the newest user message, empty where there is none."""
        for message in reversed(self.messages):
            if message.get("role") == "user":
                return _text(message.get("content"))
        return ""

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
    if not isinstance(body, dict):
        return False
    messages: object = cast(Json, body).get("messages")
    return isinstance(messages, list) and all(
        isinstance(message, dict) for message in cast(list[object], messages)
    )


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    parts = cast(list[Json], content) if isinstance(content, list) else []
    return "".join(str(part.get("text", "")) for part in parts)
