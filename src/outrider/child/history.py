"""The conversation so far, and what to leave out of it when the model's window is full."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from outrider.models.keeping import restored
from outrider.models.messages import (
    CallResult,
    Message,
    ModelAnswer,
    ModelCall,
    SystemPrompt,
    UserPrompt,
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
        recall: Callable[[str, list[ModelCall], Any], ModelAnswer] = restored,
    ) -> None:
        self.messages: list[Message] = [SystemPrompt(system_prompt)]
        for message in earlier:
            match message["role"]:
                case "user":
                    self.messages.append(UserPrompt(message["text"], message.get("aside", False)))
                case "assistant":
                    self.messages.append(
                        recall(message["text"], _calls(message), message.get("kept"))
                    )
                case _:
                    self.messages += (_result(one, text_of) for one in message["results"])
        self.messages.append(UserPrompt(task))

    def say(self, text: str) -> None:
        """Add a message beside the task to the next request."""
        self.messages.append(UserPrompt(text, is_ours=True))

    def drop_bulk(self, *, unseen_too: bool) -> tuple[str, ...]:
        """Drop the older half of the tool results' text; return the ids of their calls.

        The newest are dropped only with `unseen_too`: the model hasn't seen them yet.
        """
        seen = len(self.messages) if unseen_too else self._answered()
        sizes = [_bulk(message) for message in self.messages[:seen]]
        dropped = 0
        ids: tuple[str, ...] = ()
        for index, size in enumerate(sizes):
            message = self.messages[index]
            if size and isinstance(message, CallResult) and dropped <= sum(sizes) // 2:
                self.messages[index] = replace(message, text=DROPPED, envelope=None)
                ids += (message.id,)
                dropped += size
        return ids

    def _answered(self) -> int:
        """Return how many messages the model has seen: those before its last answer."""
        places = (i for i, one in enumerate(self.messages) if isinstance(one, ModelAnswer))
        return max(places, default=0)


def _calls(message: Earlier) -> list[ModelCall]:
    return [ModelCall(one["id"], one["name"], one.get("args")) for one in message["toolCalls"]]


def _result(one: Earlier, text_of: Callable[[Earlier], str]) -> CallResult:
    text = DROPPED if one.get("dropped") else text_of(one)
    envelope = one["envelope"]
    return CallResult(one["id"], one["name"], text, not is_success(envelope), envelope)


def _bulk(message: Message) -> int:
    """Return how much would be gained by dropping a message."""
    return max(0, len(message.text) - len(DROPPED)) if isinstance(message, CallResult) else 0
