"""One request to the model, streamed, and sent again if it failed for a passing reason."""

import asyncio
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from outrider.child.emitter import Emit
from outrider.child.history import History
from outrider.child.retry import RetryPolicy
from outrider.models.cost import fullness
from outrider.models.counting import count_tokens
from outrider.models.endings import StopReason
from outrider.models.failures import Failure, RequestFailed, ending_of
from outrider.models.local_servers import own_endpoint
from outrider.models.messages import ChatModel, ModelAnswer, OfferedTool
from outrider.protocol.data import frozen
from outrider.protocol.events import DroppedEvent, MessageUpdateEvent, RetryEvent
from outrider.protocol.outcomes import FailureKind
from outrider.protocol.usage import Usage

SIGN_OF_LIFE_SECONDS = 1.0
NEAR_WINDOW_SHARE = 0.85
"""How full the model's window may be before the oldest tool results are dropped."""


@frozen
class ModelReply:
    """The result of a request: the model's answer, as far as it came, and what went wrong."""

    answer: ModelAnswer
    usage: Usage
    failure: Failure | None = None
    stop_reason: StopReason = StopReason.FAILED


@dataclass(slots=True)
class Conversation:
    """Sends the history to one model, as often as the retry policy and the deadline allow."""

    model: ChatModel
    emit: Emit
    retry: RetryPolicy
    deadline: float
    _shown_at: float = 0.0
    _is_near_window: bool = False

    def can_answer_as_json(self, failure: Failure | None) -> bool:
        """Whether the model can be held to a schema without tools, which may be what failed."""
        kinds = {FailureKind.REJECTED, FailureKind.NOT_FOUND}
        if own_endpoint(self.model.base_url):  # llama.cpp fails so; others in passing
            kinds.add(FailureKind.SERVER)
        return self.model.takes_schema and (failure is None or failure.kind in kinds)

    async def request(
        self, turn: int, history: History, tools: Sequence[OfferedTool], schema: Any = None
    ) -> ModelReply:
        """Return the reply, as JSON where there is a schema; its usage counts every attempt."""
        tools = tools if schema is None else ()
        spent = Usage(turns=1)
        attempt = 1
        if self._is_near_window:
            self._drop_bulk(turn, history, unseen_too=False)
        while True:
            reply = await self._attempt(turn, history, tools, schema)
            spent += reply.usage
            if not (reply.failure and await self._again(turn, attempt, reply.failure, history)):
                return replace(reply, usage=spent)
            attempt += 1

    async def _attempt(
        self, turn: int, history: History, tools: Sequence[OfferedTool], schema: Any
    ) -> ModelReply:
        answer, pieces = ModelAnswer(), list[str]()
        reason = StopReason.FAILED
        try:
            async for delta in self.model.stream(history.messages, tools, schema, answer):
                if delta:
                    pieces.append(delta)
                    self.emit(MessageUpdateEvent(turn, delta))
                else:
                    self._show_life(turn)
            reason, failure = ending_of(answer)
        except RequestFailed as error:
            failure = error.failure
        answer.text = "".join(pieces)
        usage = count_tokens(answer, history.messages, tools) if answer.provider else Usage()
        self._is_near_window = fullness(answer, usage) > NEAR_WINDOW_SHARE
        return ModelReply(answer, usage, failure, reason)

    def _show_life(self, turn: int) -> None:
        """Tell the parent now and then that the model thinks, or writes a long tool call."""
        if (now := time.monotonic()) - self._shown_at >= SIGN_OF_LIFE_SECONDS:
            self._shown_at = now
            self.emit(MessageUpdateEvent(turn, ""))

    def _drop_bulk(self, turn: int, history: History, *, unseen_too: bool) -> bool:
        """Return whether there was anything to drop; the parent is told what was."""
        if ids := history.drop_bulk(unseen_too=unseen_too):
            self.emit(DroppedEvent(turn, ids))
        return bool(ids)

    async def _again(self, turn: int, attempt: int, failure: Failure, history: History) -> bool:
        """Return whether to send the request again, when it is time to."""
        if failure.kind is FailureKind.WINDOW_OVERFLOW:
            return self._drop_bulk(turn, history, unseen_too=True)
        remaining_ms = int((self.deadline - time.monotonic()) * 1000)
        wanted, jitter = failure.retry_after, random.random()  # noqa: S311
        delay_ms = self.retry.delay_ms(failure.kind, attempt, wanted, remaining_ms, jitter)
        if delay_ms is None:
            return False
        self.emit(RetryEvent(turn, attempt + 1, failure.kind, failure.message, delay_ms))
        await asyncio.sleep(delay_ms / 1000)
        return True
