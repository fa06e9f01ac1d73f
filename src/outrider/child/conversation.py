"""One request to the model, streamed, and sent again if it failed for a passing reason."""

import asyncio
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic_ai import messages
from pydantic_ai.direct import model_request_stream
from pydantic_ai.messages import ModelResponse
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.tools import ToolDefinition

from outrider.child.emitter import Emit
from outrider.child.history import History
from outrider.child.retry import RetryPolicy
from outrider.models.building import request_settings
from outrider.models.cost import cost_of, fullness
from outrider.models.failures import Failure, classify, cut_failure
from outrider.models.local_servers import own_endpoint
from outrider.protocol.events import DroppedEvent, MessageUpdateEvent, RetryEvent
from outrider.protocol.outcomes import FailureKind
from outrider.protocol.tool_catalogue import REPORT_BACK
from outrider.protocol.usage import Usage

SIGN_OF_LIFE_SECONDS = 1.0
NEAR_WINDOW_SHARE = 0.85
"""How full the model's window may be before the oldest tool results are dropped."""


@dataclass(frozen=True, slots=True)
class ModelReply:
    """The result of a request: the model's response, or the failure and the text until then."""

    text: str
    usage: Usage
    response: ModelResponse | None = None
    failure: Failure | None = None


@dataclass(slots=True)
class Conversation:
    """Sends the history to one model, as often as the retry policy and the deadline allow."""

    model: Model
    model_name: str
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
        supported = self.model.profile.get("supports_json_schema_output", False)
        return supported and (failure is None or failure.kind in kinds)

    async def request(
        self, turn: int, history: History, tools: Sequence[ToolDefinition], schema: Any = None
    ) -> ModelReply:
        """Return the reply, as JSON where there is a schema; its usage counts every attempt."""
        wanted = ModelRequestParameters(function_tools=list(tools))
        if schema is not None:
            json = OutputObjectDefinition(json_schema=schema, name=REPORT_BACK, strict=False)
            wanted = ModelRequestParameters(output_mode="native", output_object=json)
        spent = Usage(turns=1)
        attempt = 1
        if self._is_near_window:
            self._drop_bulk(turn, history, unseen_too=False)
        while True:
            reply = await self._attempt(turn, history, wanted)
            spent += reply.usage
            if not (reply.failure and await self._again(turn, attempt, reply.failure, history)):
                return replace(reply, usage=spent)
            attempt += 1

    async def _attempt(
        self, turn: int, history: History, wanted: ModelRequestParameters
    ) -> ModelReply:
        pieces: list[str] = []
        stream: StreamedResponse | None = None
        try:
            async with model_request_stream(
                self.model,
                history.messages,
                model_settings=request_settings(self.model),
                model_request_parameters=wanted,
            ) as stream:
                async for event in stream:
                    if delta := _text_of(event, has_text=bool(pieces)):
                        pieces.append(delta)
                        self.emit(MessageUpdateEvent(turn, delta))
                    else:
                        self._show_life(turn)
            failure = cut_failure(stream.get())
        except Exception as error:
            # A server that has begun to answer isn't loading its model.
            base_url = self.model.base_url if stream is None else None
            failure = classify(error, self.model_name, base_url)
        response = stream.get() if stream is not None else None
        self._is_near_window = response is not None and fullness(response) > NEAR_WINDOW_SHARE
        return ModelReply("".join(pieces), _usage_of(response), response, failure)

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


def _text_of(event: object, *, has_text: bool) -> str:
    match event:
        case messages.PartStartEvent(part=messages.TextPart(content=content)):
            # A second text of one message, after a tool call or a thought, is a new paragraph.
            return f"\n\n{content}" if has_text and content else content
        case messages.PartDeltaEvent(delta=messages.TextPartDelta(content_delta=content)):
            return content
        case _:
            return ""


def _usage_of(response: ModelResponse | None) -> Usage:
    if response is None:
        return Usage()
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
