"""One request to the model, streamed; and sent again where the failure was a passing one."""

import asyncio
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from pydantic_ai.direct import model_request_stream
from pydantic_ai.messages import (
    ModelResponse,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
)
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.tools import ToolDefinition

from outrider.child.emitter import Emit
from outrider.child.history import History
from outrider.models.failures import Failure, classify, cut_failure
from outrider.models.providers import cost_of, request_settings
from outrider.models.retry import RetryPolicy
from outrider.protocol.events import MessageUpdateEvent, RetryEvent
from outrider.protocol.outcomes import FailureKind
from outrider.protocol.usage import Usage

SIGN_OF_LIFE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Reply:
    """What a request came to: the model's response, or the failure and what there was by then."""

    text: str
    usage: Usage
    response: ModelResponse | None = None
    failure: Failure | None = None


@dataclass(slots=True)
class _Received:
    """What has come of one response so far."""

    pieces: list[str] = field(default_factory=list[str])
    usage: Usage = field(default_factory=Usage)

    @property
    def text(self) -> str:
        return "".join(self.pieces)


class Conversation:
    """Sends the history to one model, as often as the retry policy and the deadline allow."""

    def __init__(
        self, model: Model, name: str, emit: Emit, retry: RetryPolicy, deadline: float
    ) -> None:
        self._model = model
        self._name = name
        self._emit = emit
        self._retry = retry
        self._deadline = deadline
        self._shown_at = 0.0

    async def request(self, turn: int, history: History, tools: Sequence[ToolDefinition]) -> Reply:
        """Return the model's reply; `usage` counts every attempt that was made for it."""
        spent = Usage(turns=1)
        attempt = 1
        while True:
            reply = await self._attempt(turn, history, tools)
            spent += reply.usage
            if reply.failure is None:
                return Reply(reply.text, spent, reply.response)
            if not await self._again(turn, attempt, reply.failure, history):
                return Reply(reply.text, spent, failure=reply.failure)
            attempt += 1

    async def _attempt(self, turn: int, history: History, tools: Sequence[ToolDefinition]) -> Reply:
        received = _Received()
        try:
            response = await self._receive(turn, history, tools, received)
        except Exception as error:
            return Reply(received.text, received.usage, failure=classify(error, self._name))
        return Reply(received.text, received.usage, response, cut_failure(response))

    async def _receive(
        self,
        turn: int,
        history: History,
        tools: Sequence[ToolDefinition],
        received: _Received,
    ) -> ModelResponse:
        async with model_request_stream(
            self._model,
            history.messages,
            model_settings=request_settings(self._model),
            model_request_parameters=ModelRequestParameters(function_tools=list(tools)),
        ) as stream:
            try:
                async for event in stream:
                    if delta := _text_of(event, has_text=bool(received.pieces)):
                        received.pieces.append(delta)
                        self._emit(MessageUpdateEvent(turn, delta))
                    else:
                        self._show_life(turn)
            finally:
                received.usage = _usage_of(stream.get())
        return stream.get()

    def _show_life(self, turn: int) -> None:
        """Tell the parent, now and then, of a model that thinks, or writes a long tool call."""
        if (now := time.monotonic()) - self._shown_at >= SIGN_OF_LIFE_SECONDS:
            self._shown_at = now
            self._emit(MessageUpdateEvent(turn, ""))

    async def _again(self, turn: int, attempt: int, failure: Failure, history: History) -> bool:
        """Whether the request is to be sent again; returns when it is time to."""
        if failure.kind is FailureKind.WINDOW_OVERFLOW:
            return history.drop_bulk()
        remaining_ms = int((self._deadline - time.monotonic()) * 1000)
        delay_ms = self._retry.delay_ms(
            failure.kind,
            attempt,
            failure.retry_after,
            remaining_ms,
            random.random(),  # noqa: S311
        )
        if delay_ms is None:
            return False
        self._emit(RetryEvent(turn, attempt + 1, failure.kind, failure.message, delay_ms))
        await asyncio.sleep(delay_ms / 1000)
        return True


def _text_of(event: object, *, has_text: bool) -> str:
    match event:
        case PartStartEvent(part=TextPart(content=content)):
            # A second text of one message, after a tool call or a thought, is a new paragraph.
            return f"\n\n{content}" if has_text and content else content
        case PartDeltaEvent(delta=TextPartDelta(content_delta=content)):
            return content
        case _:
            return ""


def _usage_of(response: ModelResponse) -> Usage:
    cost, known = cost_of(response)
    used = response.usage
    return Usage(
        input=used.input_tokens,
        output=used.output_tokens,
        cache_read=used.cache_read_tokens,
        cache_write=used.cache_write_tokens,
        cost=cost,
        cost_known=known,
    )
