"""Delegation as a tool: what a host offers its model, and what a call of it comes to.

`subagent` is offered by default; `Task` and `Explore` are for hosts whose models know those names.
"""

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from outrider.agents.discovery import general_agent
from outrider.delegation.perform import Caller, perform, refused
from outrider.delegation.request import Request, invalid, read_arguments
from outrider.protocol import jsonl
from outrider.protocol.errors import Refusal
from outrider.protocol.results import SingleResult, ToolResult
from outrider.settings.keys import Config

MAX_NAMES = 12


@dataclass(frozen=True, slots=True)
class SubAgentProfile:
    """A tool that delegates: its text for the model, and what each of its arguments means."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    prompt_arg: str
    agent_arg: str | None = None
    agent: str | None = None
    """The agent it always runs; None where `agent_arg` names it."""
    description_arg: str | None = None
    output_schema_arg: str | None = None
    """The argument that holds an output schema; without one it has no structured output."""


@dataclass(frozen=True, slots=True)
class SubAgentState:
    """One call of a profile: the request, in the profile's own words."""

    sub_agent_type: str
    sub_agent_desc: str
    sub_agent_prompt: str
    output_schema: Any = None
    agent: str | None = None


@dataclass(frozen=True, slots=True)
class SubAgentResult:
    """What a call came to, in short; `task_metadata` has all of the run."""

    task_result: str
    session_id: str
    error: bool = False
    task_metadata: SingleResult | None = None
    structured_output: Any = None
    has_structured_output: bool = False
    """Whether a report was accepted: null is one too."""


def _object(required: Sequence[str], **properties: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


_SCHEMA = {
    "type": "object",
    "description": "JSON Schema that the answer must satisfy. Leave out for text.",
}
_ISOLATED = (
    "It works in its own process and context, sees nothing of this conversation, and returns only "
    "its result; so say all it needs to know. It can't ask back or delegate."
)

_profiles: dict[str, SubAgentProfile] = {}


def register_sub_agent(profile: SubAgentProfile) -> None:
    """Make a profile known; raises ValueError for a name that is taken or a profile that's broken.

    Its `parameters` are an object's schema with `properties` and what is `required` of them.
    """
    if profile.name in _profiles:
        raise ValueError(f"There is a profile {profile.name!r} already: give it another name.")
    if (profile.agent is None) == (profile.agent_arg is None):
        raise ValueError(f"The profile {profile.name!r} needs either an agent or an agent_arg.")
    needed = {profile.prompt_arg, profile.agent_arg} - {None}
    named = needed | ({profile.description_arg, profile.output_schema_arg} - {None})
    if not named <= set(profile.parameters.get("properties", ())):
        raise ValueError(f"The profile {profile.name!r} names an argument that it doesn't have.")
    if not needed <= set(profile.parameters.get("required", ())):
        raise ValueError(f"The profile {profile.name!r} must require {sorted(map(str, needed))}.")
    _profiles[profile.name] = profile


def sub_agent_profile(name: str) -> SubAgentProfile:
    """Return a profile by its name; raises `LookupError`."""
    try:
        return _profiles[name]
    except KeyError:
        raise LookupError(f"No profile {name!r}. There are: {', '.join(_profiles)}.") from None


register_sub_agent(
    SubAgentProfile(
        name="subagent",
        description=f"Delegate one focused task to a subagent. {_ISOLATED}",
        parameters=_object(
            ("agent", "task"),
            agent={"type": "string", "minLength": 1, "description": "Who does it."},
            task={"type": "string", "minLength": 1, "description": "What to do."},
            output_schema=_SCHEMA,
        ),
        agent_arg="agent",
        prompt_arg="task",
        output_schema_arg="output_schema",
    )
)
register_sub_agent(
    SubAgentProfile(
        name="Task",
        description=f"Hand a task to a general subagent with the tools you allow. {_ISOLATED}",
        parameters=_object(
            ("description", "prompt"),
            description={"type": "string", "description": "The task in three to five words."},
            prompt={"type": "string", "minLength": 1, "description": "The whole task."},
            output_schema=_SCHEMA,
        ),
        agent="general",
        description_arg="description",
        prompt_arg="prompt",
        output_schema_arg="output_schema",
    )
)
register_sub_agent(
    SubAgentProfile(
        name="Explore",
        description=f"Let a read-only subagent find its way in the code. {_ISOLATED}",
        parameters=_object(
            ("description", "prompt"),
            description={"type": "string", "description": "The search in three to five words."},
            prompt={"type": "string", "minLength": 1, "description": "What to find out."},
            output_schema=_SCHEMA,
        ),
        agent="explorer",
        description_arg="description",
        prompt_arg="prompt",
        output_schema_arg="output_schema",
    )
)


class SubAgentManager:
    """Runs delegations for one caller, in one working directory."""

    def __init__(self, cwd: Path | None = None, caller: Caller | None = None) -> None:
        self._cwd = cwd
        self._caller = caller or Caller(os.environ)

    async def run_sub_agent(self, state: SubAgentState) -> SubAgentResult:
        """Return what delegating `state` came to, however it ended."""
        result = await self.run(state)
        single = result.result
        return SubAgentResult(
            task_result=single.output if single else result.text,
            session_id=result.details.run_id or "",
            error=not result.completed,
            structured_output=single.structured_output if single else None,
            has_structured_output=single is not None and single.has_structured_output,
            task_metadata=single,
        )

    async def run(self, state: SubAgentState) -> ToolResult:
        """Return the tool result of delegating `state`."""
        try:
            request = self._request(state)
        except LookupError as error:
            return refused(invalid(str(error)))
        return await perform(request, self._caller)

    def _request(self, state: SubAgentState) -> Request:
        name = state.agent or sub_agent_profile(state.sub_agent_type).agent or ""
        return Request(
            agent=name,
            task=state.sub_agent_prompt,
            output_schema=state.output_schema,
            cwd=self._cwd,
            definition=general_agent() if name == "general" and not state.agent else None,
        )


class SubAgentTool:
    """A profile as a host calls it: text for its model, arguments in, a tool result out."""

    def __init__(
        self, profile: SubAgentProfile, manager: SubAgentManager, agents: Sequence[str] = ()
    ) -> None:
        self.profile = profile
        self._manager = manager
        self._agents = tuple(agents)

    @property
    def name(self) -> str:
        """What the host's model calls it."""
        return self.profile.name

    @property
    def description(self) -> str:
        """What the host's model is told about it."""
        return self.profile.description

    @property
    def parameters(self) -> dict[str, Any]:
        """The JSON Schema of its arguments; the agent's names are in it where it takes one."""
        parameters = dict(self.profile.parameters)
        if self.profile.agent_arg and self._agents:
            names = ", ".join(self._agents[:MAX_NAMES])
            properties = dict(parameters["properties"])
            agent = properties[self.profile.agent_arg]
            properties[self.profile.agent_arg] = {**agent, "description": f"Who does it: {names}."}
            parameters["properties"] = properties
        return parameters

    async def call(self, arguments: str | Mapping[str, Any]) -> ToolResult:
        """Return the result of one call. Arguments that can't be used are a result as well."""
        try:
            state = self._state(arguments)
        except Refusal as refusal:
            return refused(refusal)
        return await self._manager.run(state)

    def call_sync(self, arguments: str | Mapping[str, Any]) -> ToolResult:
        """Do as `call` does, where there is no event loop."""
        return asyncio.run(self.call(arguments))

    def _state(self, arguments: str | Mapping[str, Any]) -> SubAgentState:
        profile = self.profile
        given = read_arguments(_parsed(arguments), profile.name, profile.parameters)
        schema = given.get(profile.output_schema_arg) if profile.output_schema_arg else None
        return SubAgentState(
            sub_agent_type=profile.name,
            sub_agent_prompt=given[profile.prompt_arg],
            sub_agent_desc=given.get(profile.description_arg or "", ""),
            output_schema=schema,
            agent=given[profile.agent_arg] if profile.agent_arg else None,
        )


def _parsed(arguments: str | Mapping[str, Any]) -> Mapping[str, Any]:
    if not isinstance(arguments, str):
        return arguments
    try:
        parsed: object = jsonl.decode(arguments.encode(errors="replace"))
    except (ValueError, RecursionError) as error:
        raise invalid(f"The arguments aren't JSON: {error}.") from None
    if not isinstance(parsed, dict):
        raise invalid("The arguments aren't a JSON object.")
    return cast("dict[str, Any]", parsed)


def offered_tools(
    config: Config, manager: SubAgentManager, agents: Sequence[str] = ()
) -> list[SubAgentTool]:
    """Return the tools a host offers: those in `subagents.tools`, none where that's all off."""
    names = config.subagents.tools if config.subagents.enabled else ()
    return [SubAgentTool(sub_agent_profile(name), manager, agents) for name in names]
