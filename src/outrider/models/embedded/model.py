"""The embedded model: an ordinary model to the child, without a network and without chance.

Each turn is decided from the conversation alone. What files say is only ever quoted.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    ModelResponseStreamEvent,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import RunContext, ToolDefinition
from pydantic_ai.usage import RequestUsage

from outrider.models.catalogue import EMBEDDED
from outrider.models.embedded.evidence import Call, Exchange, collect
from outrider.models.embedded.planning import followed, next_calls
from outrider.models.embedded.ranking import rank
from outrider.models.embedded.report import write_report
from outrider.models.embedded.structured import fill_report
from outrider.models.embedded.words import understand

_REPORT_BACK = "report_back"
_DELTA = 2_000


@dataclass(frozen=True, slots=True)
class Conversation:
    """What the model looks at: the task, what was done so far, and whether to come to an end."""

    task: str
    exchanges: tuple[Exchange, ...]
    asked_again: bool


def follow(messages: Sequence[ModelMessage]) -> Conversation:
    """Return the conversation that `messages` are."""
    prompts: list[str] = []
    calls: dict[str, Call] = {}
    exchanges: list[Exchange] = []
    for message in messages:
        for part in message.parts:
            if isinstance(part, UserPromptPart):
                prompts.append(part.content if isinstance(part.content, str) else "")
            elif isinstance(part, ToolCallPart):
                calls[part.tool_call_id] = Call(part.tool_name, _arguments(part))
            elif isinstance(part, ToolReturnPart) and part.tool_call_id in calls:
                text = part.content if isinstance(part.content, str) else ""
                exchanges.append(Exchange(calls[part.tool_call_id], text))
    return Conversation(prompts[0] if prompts else "", tuple(exchanges), len(prompts) > 1)


def answer(messages: Sequence[ModelMessage], tools: Sequence[ToolDefinition]) -> str | list[Call]:
    """Return the tool calls to make next, or the report that ends the task."""
    conversation = follow(messages)
    exchanges = conversation.exchanges
    question = followed(understand(conversation.task), exchanges)
    evidence = collect(exchanges)
    names = frozenset(tool.name for tool in tools)
    if not conversation.asked_again and (calls := next_calls(question, exchanges, names)):
        return calls
    findings = rank(question, evidence)
    schema = next((t.parameters_json_schema for t in tools if t.name == _REPORT_BACK), None)
    reported = any(exchange.call.name == _REPORT_BACK for exchange in exchanges)
    if schema is not None and not reported:
        report = fill_report(schema, evidence, findings)
        if report is not None:
            return [Call(_REPORT_BACK, report)]
    return write_report(question, evidence, findings)


class EmbeddedModel(Model[None]):
    """Finds and quotes; needs no key, no server and no time to speak of."""

    @property
    def model_name(self) -> str:
        """The name in results and events."""
        return EMBEDDED

    @property
    def system(self) -> str:
        """The provider's name: it is its own."""
        return EMBEDDED

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Return the whole answer at once."""
        async with self.request_stream(
            messages, model_settings, model_request_parameters
        ) as stream:
            async for _ in stream:
                pass
            return stream.get()

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        """Yield the answer as a stream, like any other model's."""
        said = answer(messages, model_request_parameters.function_tools)
        turn = sum(isinstance(message, ModelResponse) for message in messages) + 1
        yield EmbeddedStream(model_request_parameters, said, turn, estimated_usage(messages, said))


@dataclass
class EmbeddedStream(StreamedResponse):
    """One answer of the embedded model, in deltas."""

    said: str | list[Call]
    turn: int
    spent: RequestUsage
    made_at: datetime = field(default_factory=lambda: datetime.now(UTC))

    async def _get_event_iterator(self) -> AsyncIterator[ModelResponseStreamEvent]:
        self._usage = self.spent
        if isinstance(self.said, str):
            for start in range(0, len(self.said), _DELTA):
                delta = self.said[start : start + _DELTA]
                for event in self._parts_manager.handle_text_delta(
                    vendor_part_id="text", content=delta
                ):
                    yield event
            self.finish_reason = "stop"
            return
        for number, call in enumerate(self.said, 1):
            yield self._parts_manager.handle_tool_call_part(
                vendor_part_id=number,
                tool_name=call.name,
                args=dict(call.arguments),
                tool_call_id=f"{EMBEDDED}-{self.turn}-{number}",
            )
        self.finish_reason = "tool_call"

    async def close_stream(self) -> None:
        """Nothing to close: there is no connection."""

    @property
    def model_name(self) -> str:
        """The name in results and events."""
        return EMBEDDED

    @property
    def provider_name(self) -> str:
        """The provider's name: it is its own."""
        return EMBEDDED

    @property
    def provider_url(self) -> None:
        """There is no address."""

    @property
    def timestamp(self) -> datetime:
        """When the answer was made."""
        return self.made_at


def estimated_usage(messages: Sequence[ModelMessage], said: str | list[Call]) -> RequestUsage:
    """Return the tokens an answer took, counted as characters / 4."""
    read = sum(_size(part) for message in messages for part in message.parts)
    written = len(said) if isinstance(said, str) else sum(len(str(call)) for call in said)
    return RequestUsage(input_tokens=read // 4, output_tokens=written // 4 + 1)


def _size(part: object) -> int:
    if isinstance(part, SystemPromptPart | UserPromptPart | ToolReturnPart | TextPart):
        return len(part.content) if isinstance(part.content, str) else 0
    return len(part.args_as_json_str()) if isinstance(part, ToolCallPart) else 0


def _arguments(part: ToolCallPart) -> dict[str, Any]:
    try:
        return part.args_as_dict()
    except (ValueError, AssertionError):
        return {}
