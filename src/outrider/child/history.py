"""The conversation so far, and what to leave out of it when the model's window is full."""

from collections.abc import Sequence
from dataclasses import replace

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    SystemPromptPart,
    ToolReturnPart,
    UserPromptPart,
)

DROPPED = "[This result was dropped to fit the model's window. Call the tool again if you need it.]"


class History:
    """The messages of one task, in order."""

    def __init__(self, system_prompt: str, task: str) -> None:
        opening = [SystemPromptPart(system_prompt), UserPromptPart(task)]
        self.messages: list[ModelMessage] = [ModelRequest(parts=opening)]

    def add_response(self, response: ModelResponse) -> None:
        """Add a message of the model's."""
        self.messages.append(response)

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

    def drop_bulk(self) -> bool:
        """Drop the older half of the tool results' text; return whether there was any to drop."""
        sizes = [sum(map(_bulk, message.parts)) for message in self.messages]
        dropped = 0
        for index, size in enumerate(sizes):
            message = self.messages[index]
            if size and isinstance(message, ModelRequest) and dropped <= sum(sizes) // 2:
                parts = [_without_bulk(part) for part in message.parts]
                self.messages[index] = replace(message, parts=parts)
                dropped += size
        return dropped > 0


def _bulk(part: object) -> int:
    """Return how much would be gained by dropping a part."""
    if not isinstance(part, ToolReturnPart) or not isinstance(part.content, str):
        return 0
    return max(0, len(part.content) - len(DROPPED))


def _without_bulk(part: ModelRequestPart) -> ModelRequestPart:
    return replace(part, content=DROPPED) if _bulk(part) else part
