"""The embedded model: to the child an ordinary model, but without network and randomness.

It decides each turn from the conversation alone. What files say is only ever quoted.
"""

import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
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

from outrider.models.embedded.evidence import PlannedCall, findings
from outrider.models.embedded.filling import fill_report
from outrider.models.embedded.planning import next_calls
from outrider.models.embedded.report import ABOUT, embedded_report
from outrider.models.embedded.task import understand
from outrider.models.known_providers import EMBEDDED
from outrider.protocol.envelope import is_success
from outrider.protocol.tool_catalogue import REPORT_BACK, SUBAGENT

NO_CODE = (
    "There is no code in this folder, so there is nothing to look up. The embedded model finds and "
    "quotes code; it can't answer from knowledge, write, or search the web."
)
_CODE = (
    "*.{c,cc,cpp,cs,go,java,js,jsx,kt,lua,mjs,php,pl,py,rb,rs,scala,sh,sql,swift,ts,tsx,vue,zig}"
)

Said = str | list[PlannedCall]
"""A report, or the tool calls that come before it."""


def respond(
    messages: Sequence[ModelMessage], tools: Sequence[ToolDefinition], agent: str = ""
) -> Said:
    """Return the tool calls to make next, or the report that ends the task."""
    schemas = {tool.name: tool.parameters_json_schema for tool in tools}
    # A prompt that follows an answer is a new question, unless it asks for the report again.
    messages = messages if REPORT_BACK in schemas else _last_turn(messages)
    prompts, made = _conversation(messages)
    if SUBAGENT in schemas:
        return _delegated("".join(prompts[:1]), made, schemas[SUBAGENT])
    task = understand("".join(prompts[:1]), agent)
    rounds = sum(isinstance(message, ModelResponse) for message in messages)
    asked_again = len(prompts) > 1
    if not asked_again and (calls := next_calls(task, made, rounds, frozenset(schemas))):
        return calls
    if REPORT_BACK in schemas and REPORT_BACK not in {call.name for call in made}:
        report = fill_report(schemas[REPORT_BACK], findings(made))
        if report is not None:
            return [PlannedCall(REPORT_BACK, report)]
    return embedded_report(task, made)


def _delegated(prompt: str, made: Sequence[PlannedCall], schema: Mapping[str, Any]) -> Said:
    """Hand a main agent's question to an agent, and quote its report."""
    if not made:
        return [PlannedCall("find", {"pattern": _CODE, "limit": 1})]
    last = made[-1]
    if last.name != SUBAGENT:
        if last.data and not last.data["files"]:
            return f"{NO_CODE}\n\n{ABOUT}\n"
        # The tool's text names the agents that there are.
        named = re.findall(r"[\w.-]*\w", schema["properties"]["agent"]["description"])
        role = understand(prompt, "").role
        agent = role if role in named else "explorer"
        return [PlannedCall(SUBAGENT, {"agent": agent, "task": prompt})]
    if last.data is None:
        return f"The question couldn't be delegated. {last.fault}"
    told = last.data
    said = f"I delegated this to `{told['agent']}` (run {told['runId']}). Its report:"
    return f"{said}\n\n{told['text']}\n"


def _last_turn(messages: Sequence[ModelMessage]) -> Sequence[ModelMessage]:
    """Return what came since the user last spoke; behind tool results, a prompt is the child's."""
    firsts = [next(iter(message.parts), None) for message in messages]
    begins = [i for i, part in enumerate(firsts) if isinstance(part, UserPromptPart)]
    return messages[begins[-1] if begins else 0 :]


def _conversation(messages: Sequence[ModelMessage]) -> tuple[list[str], list[PlannedCall]]:
    """Return what the user said, and the tool calls with the data of their results."""
    prompts: list[str] = []
    calls: dict[str, PlannedCall] = {}
    made: list[PlannedCall] = []
    for part in (part for message in messages for part in message.parts):
        if isinstance(part, UserPromptPart):
            prompts.append(part.content if isinstance(part.content, str) else "")
        elif isinstance(part, ToolCallPart):
            calls[part.tool_call_id] = PlannedCall(part.tool_name, part.args_as_dict())
        elif isinstance(part, ToolReturnPart) and part.tool_call_id in calls:
            call = calls[part.tool_call_id]
            envelope: dict[str, Any] = part.metadata or {}
            if is_success(envelope):
                made.append(replace(call, data=envelope.get("data")))
            else:
                made.append(replace(call, fault=str(envelope.get("message", "no result"))))
    return prompts, made


class EmbeddedModel(Model[None]):
    """Finds and quotes; the agent's name says what kind of report is wanted."""

    def __init__(self, agent: str = "") -> None:
        super().__init__()
        self._agent = agent

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
        said = respond(messages, model_request_parameters.function_tools, self._agent)
        turn = sum(isinstance(message, ModelResponse) for message in messages) + 1
        calls = [
            ToolCallPart(call.name, dict(call.arguments), f"{EMBEDDED}-{turn}-{number}")
            for number, call in enumerate([] if isinstance(said, str) else said, 1)
        ]
        read = sum(_size(part) for message in messages for part in message.parts)
        written = len(said) if isinstance(said, str) else sum(len(str(call)) for call in said)
        return ModelResponse(
            [TextPart(said)] if isinstance(said, str) else calls,
            # Tokens are estimated as characters / 4.
            usage=RequestUsage(input_tokens=read // 4, output_tokens=written // 4 + 1),
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


def _size(part: object) -> int:
    is_call = isinstance(part, ToolCallPart)
    text = part.args_as_json_str() if is_call else getattr(part, "content", None)
    return len(text) if isinstance(text, str) else 0
