"""The conversation so far, and what to leave out of it when the model's window is full."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from outrider.protocol.envelope import is_success

DROPPED = "[This result was dropped to fit the model's window. Call the tool again if you need it.]"


Earlier = Mapping[str, Any]
"""A message of an earlier turn, as a brief has it."""


class History:
    """The messages of one task, in order; those of a session's earlier turns come first."""

    def __init__(
        self,
        system_prompt: str,
        task: str,
        earlier: Sequence[Earlier] = (),
        text_of: Callable[[Earlier], str] = str,
    ) -> None:
        opening = ModelRequest(parts=[SystemPromptPart(system_prompt)])
        self.messages: list[ModelMessage] = [opening]
        last: Earlier = {"role": "user", "text": task}
        for message in (*earlier, last):
            match message["role"]:
                case "user" if len(self.messages) == 1:
                    self.say(message["text"])
                case "user":  # apart from tool results, beside which our own messages stand
                    self.add_request([UserPromptPart(message["text"])])
                case "assistant":
                    self.messages.append(_response(message))
                case _:
                    self.add_request([_result(one, text_of) for one in message["results"]])

    def add_request(self, parts: Sequence[ModelRequestPart]) -> None:
        """Add the next message to the model: tool results, or a message of ours."""
        self.messages.append(ModelRequest(parts=list(parts)))

    def say(self, text: str) -> None:
        """Add a message of ours to the next request."""
        part = UserPromptPart(text)
        last = self.messages[-1]
        if isinstance(last, ModelRequest):
            self.messages[-1] = replace(last, parts=[*last.parts, part])
        else:
            self.add_request([part])

    def drop_bulk(self, *, unseen_too: bool) -> tuple[str, ...]:
        """Drop the older half of the tool results' text; return the ids of their calls.

        The newest are dropped only with `unseen_too`: the model hasn't seen them yet.
        """
        messages = self.messages if unseen_too else self.messages[:-1]
        sizes = [sum(map(_bulk, message.parts)) for message in messages]
        dropped = 0
        ids: tuple[str, ...] = ()
        for index, size in enumerate(sizes):
            message = self.messages[index]
            if size and isinstance(message, ModelRequest) and dropped <= sum(sizes) // 2:
                parts = list(message.parts)
                for place, part in enumerate(parts):
                    if isinstance(part, ToolReturnPart) and _bulk(part):
                        parts[place] = replace(part, content=DROPPED, metadata=None)
                        ids += (part.tool_call_id,)
                self.messages[index] = replace(message, parts=parts)
                dropped += size
        return ids


def _response(message: Earlier) -> ModelResponse:
    said = [TextPart(message["text"])] if message["text"] else []
    calls = [ToolCallPart(one["name"], one.get("args"), one["id"]) for one in message["toolCalls"]]
    return ModelResponse([*said, *calls])


def _result(one: Earlier, text_of: Callable[[Earlier], str]) -> ToolReturnPart:
    content = DROPPED if one.get("dropped") else text_of(one)
    outcome = "success" if is_success(one["envelope"]) else "failed"
    return ToolReturnPart(one["name"], content, one["id"], outcome=outcome)


def _bulk(part: object) -> int:
    """Return how much would be gained by dropping a part."""
    if not isinstance(part, ToolReturnPart) or not isinstance(part.content, str):
        return 0
    return max(0, len(part.content) - len(DROPPED))
