"""The embedded model: to the child an ordinary model, but without network and randomness.

It decides each turn from the conversation alone. What files say is only ever quoted.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import (
    CompletedStreamedResponse,
    Model,
    ModelRequestParameters,
    StreamedResponse,
)
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
from outrider.protocol.catalogue import REPORT_BACK


def answer(messages: Sequence[ModelMessage], tools: Sequence[ToolDefinition]) -> str | list[Call]:
    """Return the tool calls to make next, or the report that ends the task."""
    prompts, exchanges = _conversation(messages)
    question = followed(understand(prompts[0] if prompts else ""), exchanges)
    evidence = collect(exchanges)
    names = frozenset(tool.name for tool in tools)
    asked_again = len(prompts) > 1
    if not asked_again and (calls := next_calls(question, exchanges, evidence, names)):
        return calls
    findings = rank(question, evidence)
    schema = next((t.parameters_json_schema for t in tools if t.name == REPORT_BACK), None)
    reported = any(exchange.call.name == REPORT_BACK for exchange in exchanges)
    if schema is not None and not reported:
        report = fill_report(schema, evidence, findings)
        if report is not None:
            return [Call(REPORT_BACK, report)]
    return write_report(question, evidence, findings)


def _conversation(messages: Sequence[ModelMessage]) -> tuple[list[str], list[Exchange]]:
    """Return what the user said, and the tool calls with their results."""
    prompts: list[str] = []
    calls: dict[str, Call] = {}
    exchanges: list[Exchange] = []
    for part in (part for message in messages for part in message.parts):
        if isinstance(part, UserPromptPart):
            prompts.append(part.content if isinstance(part.content, str) else "")
        elif isinstance(part, ToolCallPart):
            calls[part.tool_call_id] = Call(part.tool_name, part.args_as_dict())
        elif isinstance(part, ToolReturnPart) and part.tool_call_id in calls:
            text = part.content if isinstance(part.content, str) else ""
            exchanges.append(Exchange(calls[part.tool_call_id], text))
    return prompts, exchanges


class EmbeddedModel(Model[None]):
    """Finds and quotes; needs no key, no server and almost no time."""

    @property
    def model_name(self) -> str:
        """The name in results and events."""
        return EMBEDDED

    @property
    def system(self) -> str:
        """The provider's name."""
        return EMBEDDED

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Return the answer."""
        said = answer(messages, model_request_parameters.function_tools)
        turn = sum(isinstance(message, ModelResponse) for message in messages) + 1
        calls = [
            ToolCallPart(call.name, dict(call.arguments), f"{EMBEDDED}-{turn}-{number}")
            for number, call in enumerate([] if isinstance(said, str) else said, 1)
        ]
        return ModelResponse(
            [TextPart(said)] if isinstance(said, str) else calls,
            usage=_estimated_usage(messages, said),
            model_name=EMBEDDED,
            provider_name=EMBEDDED,
            finish_reason="tool_call" if calls else "stop",
        )

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        """Yield the answer as a stream that has it all in one piece."""
        response = await self.request(messages, model_settings, model_request_parameters)
        yield CompletedStreamedResponse(
            response, model_request_parameters=model_request_parameters, replay_events=True
        )


def _estimated_usage(messages: Sequence[ModelMessage], said: str | list[Call]) -> RequestUsage:
    """Return the tokens of an answer, estimated as characters / 4."""
    read = sum(_size(part) for message in messages for part in message.parts)
    written = len(said) if isinstance(said, str) else sum(len(str(call)) for call in said)
    return RequestUsage(input_tokens=read // 4, output_tokens=written // 4 + 1)


def _size(part: object) -> int:
    if isinstance(part, SystemPromptPart | UserPromptPart | ToolReturnPart | TextPart):
        return len(part.content) if isinstance(part.content, str) else 0
    return len(part.args_as_json_str()) if isinstance(part, ToolCallPart) else 0
