"""The embedded model: to the child an ordinary model, but without network and randomness.

It decides each turn from the conversation alone. What files say is only ever quoted.
"""

import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from outrider.models import messages as ours
from outrider.models.counting import texts_of
from outrider.models.embedded.evidence import PlannedCall, findings
from outrider.models.embedded.filling import fill_report
from outrider.models.embedded.planning import next_calls
from outrider.models.embedded.report import ABOUT, Unanswered, embedded_report
from outrider.models.embedded.task import understand
from outrider.models.endings import StopReason
from outrider.models.known_providers import EMBEDDED
from outrider.models.messages import Conversation, ModelAnswer, OfferedTools, UserPrompt
from outrider.protocol.envelope import is_success
from outrider.protocol.tool_catalogue import REPORT_BACK, SUBAGENT
from outrider.protocol.usage import estimated_tokens

NO_CODE = (
    "There is no code in this folder, so there is nothing to look up. The embedded model finds and "
    "quotes code; it can't answer from knowledge, write, or search the web."
)
CODE = "*.{c,cc,cpp,cs,go,java,js,jsx,kt,lua,mjs,php,pl,py,rb,rs,scala,sh,sql,swift,ts,tsx,vue,zig}"

Said = str | list[PlannedCall]  # a report, or the tool calls that come before it


def respond(messages: Conversation, tools: OfferedTools, agent: str = "") -> Said:
    """Return the tool calls to make next, or the report that ends the task."""
    schemas = {tool.name: tool.parameters for tool in tools}
    # A prompt that follows an answer is a new question, unless it asks for the report again.
    asked = [i for i, one in enumerate(messages) if isinstance(one, UserPrompt) and not one.is_ours]
    if asked and REPORT_BACK not in schemas:
        messages = messages[asked[-1] :]
    prompts, made = _conversation(messages)
    prompt = "".join(prompts[:1])
    if SUBAGENT in schemas:
        return _delegated(prompt, made, schemas[SUBAGENT])
    task = understand(prompt, agent)
    rounds = sum(isinstance(message, ModelAnswer) for message in messages)
    if len(prompts) < 2 and (calls := next_calls(task, made, rounds, frozenset(schemas))):
        return calls
    if REPORT_BACK in schemas and REPORT_BACK not in {call.name for call in made}:
        report = fill_report(schemas[REPORT_BACK], findings(made))
        if report is not None:
            return [PlannedCall(REPORT_BACK, report)]
    return embedded_report(task, made)


def _delegated(prompt: str, made: Sequence[PlannedCall], schema: Mapping[str, Any]) -> Said:
    """Hand a main agent's question to an agent, and quote its report."""
    if not made:
        return [PlannedCall("find", {"pattern": CODE, "limit": 1})]
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
        return Unanswered(f"The question couldn't be delegated. {last.fault}")
    told = last.data
    said = f"I delegated this to `{told['agent']}` (run {told['runId']}). Its report:"
    return f"{said}\n\n{told['text']}\n"


def _conversation(messages: Conversation) -> tuple[list[str], list[PlannedCall]]:
    """Return what the user said, and the tool calls with the data of their results."""
    prompts: list[str] = []
    calls: dict[str, PlannedCall] = {}
    made: list[PlannedCall] = []
    for message in messages:
        if isinstance(message, UserPrompt):
            prompts.append(message.text)
        elif isinstance(message, ModelAnswer):
            calls |= {call.id: PlannedCall(call.name, call.arguments) for call in message.calls}
        elif isinstance(message, ours.CallResult) and message.id in calls:
            call = calls[message.id]
            envelope: Mapping[str, Any] = message.envelope or {}
            if is_success(envelope):
                made.append(replace(call, data=envelope.get("data")))
            else:
                made.append(replace(call, fault=str(envelope.get("message", "no result"))))
    return prompts, made


class EmbeddedModel:
    """Finds and quotes; the agent's name says what kind of report is wanted."""

    name = provider = EMBEDDED
    base_url: str | None = None
    takes_schema = has_native = False

    def __init__(self, agent: str = "") -> None:
        self._agent = agent

    async def stream(
        self, messages: Conversation, tools: OfferedTools, schema: Any, answer: ModelAnswer
    ) -> AsyncIterator[str]:
        """Yield the answer in one piece; see `ChatModel`."""
        said = respond(messages, tools, self._agent)
        turn = sum(isinstance(message, ModelAnswer) for message in messages) + 1
        text, calls = (said, []) if isinstance(said, str) else ("", said)
        answer.provider = answer.model = EMBEDDED
        answer.calls = [
            ours.ModelCall(f"{EMBEDDED}-{turn}-{number}", call.name, dict(call.arguments))
            for number, call in enumerate(calls, 1)
        ]
        ending = StopReason.CALLED if calls else StopReason.DONE
        if isinstance(said, Unanswered):
            answer.failure, ending = said.partition("\n")[0], StopReason.FAILED
        answer.endings = [str(ending)]
        written = estimated_tokens(text, *texts_of([answer]))
        answer.tokens = (estimated_tokens(*texts_of(messages)), written, 0, 0)
        yield text
