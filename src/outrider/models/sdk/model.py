"""A model of the provider layer, asked in our words: no hidden retries, no cut stream accepted.

Attempts, deadlines and outcomes would be wrong otherwise.
"""

from collections.abc import AsyncIterator, Iterable
from itertools import groupby
from typing import Any, cast

from pydantic_ai import messages as theirs
from pydantic_ai.direct import model_request_stream
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from outrider.models import messages as ours
from outrider.models.failures import RequestFailed
from outrider.models.messages import Conversation, ModelAnswer, OfferedTools
from outrider.models.sdk.errors import classify
from outrider.models.wires import SILENCE_SECONDS
from outrider.protocol.tool_catalogue import REPORT_BACK


class SdkModel:
    """Any model that pydantic-ai knows."""

    has_native = True

    def __init__(self, title: str, model: Model) -> None:
        """`title` is the model as the user wrote it, for error messages."""
        self._title = title
        self._model = model
        self.name = model.model_name
        self.provider = model.system
        self.base_url = model.base_url  # as far as the layer tells
        self.takes_schema = bool(model.profile.get("supports_json_schema_output", False))

    async def stream(
        self, messages: Conversation, tools: OfferedTools, schema: Any, answer: ModelAnswer
    ) -> AsyncIterator[str]:
        stream = None
        said = False
        try:
            async with model_request_stream(
                self._model,
                _converted(messages),
                model_settings=self._settings(),
                model_request_parameters=_parameters(tools, schema),
            ) as stream:
                async for event in stream:
                    text = _text_of(event, is_second=said)
                    said = said or bool(text)
                    yield text
        except Exception as error:
            # A server that has begun to answer isn't loading its model.
            base_url = self.base_url if stream is None else None
            raise RequestFailed(classify(error, self._title, base_url)) from error
        finally:
            if stream is not None:
                fill_answer(answer, stream.get())

    def _settings(self) -> ModelSettings:
        wanted = {"max_retries": 0, "timeout": SILENCE_SECONDS}
        supported = wanted.keys() - self._model.unsupported_settings
        return cast("ModelSettings", {name: wanted[name] for name in supported})


def _parameters(tools: OfferedTools, schema: Any) -> ModelRequestParameters:
    if schema is not None:
        json = OutputObjectDefinition(json_schema=schema, name=REPORT_BACK, strict=False)
        return ModelRequestParameters(output_mode="native", output_object=json)
    # Left open, `strict` would be a provider's layer to choose: it forbids all properties that
    # aren't listed, and turns on a mode that then refuses schemas it can't take.
    return ModelRequestParameters(
        function_tools=[
            ToolDefinition(
                name=tool.name,
                description=tool.description,
                parameters_json_schema=tool.parameters,
                strict=False,
            )
            for tool in tools
        ]
    )


def _text_of(event: object, *, is_second: bool) -> str:
    match event:
        case theirs.PartStartEvent(part=theirs.TextPart(content=content)):
            # A second text of one message, after a tool call or a thought, is a new paragraph.
            return f"\n\n{content}" if is_second and content else content
        case theirs.PartDeltaEvent(delta=theirs.TextPartDelta(content_delta=content)):
            return content
        case _:
            return ""


def _converted(messages: Conversation) -> list[theirs.ModelMessage]:
    """Return a conversation in the layer's words: what lies between two answers is one request."""
    converted: list[theirs.ModelMessage] = []
    for is_answer, group in groupby(messages, lambda one: isinstance(one, ModelAnswer)):
        if is_answer:
            converted += (_response(cast("ModelAnswer", one)) for one in group)
        else:
            converted.append(theirs.ModelRequest(parts=_request_parts(group)))
    return converted


def _request_parts(messages: Iterable[ours.Message]) -> list[theirs.ModelRequestPart]:
    parts: list[theirs.ModelRequestPart] = []
    for message in messages:
        match message:
            case ours.SystemPrompt(text):
                parts.append(theirs.SystemPromptPart(text))
            case ours.CallResult(id, name, text, has_failed):
                outcome = "failed" if has_failed else "success"
                parts.append(theirs.ToolReturnPart(name, text, id, outcome=outcome))
            case ours.UserPrompt(text):
                parts.append(theirs.UserPromptPart(text))
            case _:
                pass
    return parts


def _response(answer: ModelAnswer) -> theirs.ModelResponse:
    if answer.native is not None:
        return cast("theirs.ModelResponse", answer.native)
    said = [theirs.TextPart(answer.text)] if answer.text else []
    calls = [theirs.ToolCallPart(call.name, call.arguments, call.id) for call in answer.calls]
    return theirs.ModelResponse([*said, *calls])


def fill_answer(answer: ModelAnswer, response: theirs.ModelResponse) -> None:
    """Put into an answer what the layer made of a response."""
    answer.native = response
    thoughts = [part.content for part in response.parts if isinstance(part, theirs.ThinkingPart)]
    answer.thoughts = {"native": "".join(thoughts)}
    answer.provider = response.provider_name or "unknown"
    answer.base_url = response.provider_url
    answer.model = response.model_name
    # Its types are the SDK's promise, which builds objects from whatever a server sends.
    answer.calls = [
        ours.ModelCall(str(part.tool_call_id), str(part.tool_name), part.args)
        for part in response.tool_calls
    ]
    details = response.provider_details or {}
    # OpenRouter gives its own reason, and in the details that of whoever stands behind it.
    own = None if answer.provider == "openrouter" else details.get("finish_reason")
    answer.endings = [one for one in (own, response.finish_reason) if one is not None]
    used = response.usage
    counts = (used.input_tokens, used.output_tokens, used.cache_read_tokens)
    answer.tokens = (*counts, used.cache_write_tokens)
    answer.price_context = details
