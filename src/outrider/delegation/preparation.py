"""From a request to a brief: guard, discover, permit. All that can be refused is refused here."""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from outrider.agents.definitions import PI, AgentDefinition, normal_name
from outrider.agents.discovery import Discovery
from outrider.agents.permissions import Permit
from outrider.agents.trust import Clearance
from outrider.delegation.project import Project, open_project
from outrider.delegation.request import (
    Request,
    check_depth,
    check_input,
    check_schema,
    invalid,
    tool_sources,
)
from outrider.models.resolution import ModelChoice
from outrider.protocol.catalogue import DEFAULT_TOOLS
from outrider.protocol.errors import ErrorCode, Refusal
from outrider.settings.keys import Config

Confirm = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class Prepared:
    """A delegation that nothing stands in the way of any more; only its run id is missing."""

    request: Request
    project: Project
    definition: AgentDefinition
    permit: Permit
    choice: ModelChoice
    schema: Any
    shown_task: str
    shown_cwd: str
    """The task and the folder as records and results show them, masked."""
    warnings: tuple[str, ...] = ()
    main: dict[str, Any] | None = None
    """What the brief of a main agent says otherwise; None for all that are delegated to."""

    @property
    def config(self) -> Config:
        """The effective settings."""
        return self.project.config

    @property
    def provider(self) -> str:
        """The provider of the model, whose patience all children share."""
        return self.choice.model.partition(":")[0]


def prepare(
    request: Request,
    *,
    env: Mapping[str, str],
    flags: Mapping[str, object] | None = None,
    confirm: Confirm | None = None,
) -> Prepared:
    """Return what is needed to start the child; raises `Refusal`.

    `confirm` asks the user whether a repository's agent may run; without it nobody can be asked.
    """
    project, definition = checked(request, env, flags)
    if request.tools:
        sources = tool_sources(request.tools)
        project = project.with_modules(sources.values())
        listed = DEFAULT_TOOLS if definition.tools is None else definition.tools
        definition = replace(definition, tools=(*listed, *sources))
    interactive = confirm is not None
    given, problems = project.permit(definition, interactive=interactive)
    clearance, reason = project.clearance(definition, given, interactive=interactive)
    is_asked = clearance is Clearance.ASK
    if clearance is not Clearance.RUN and not (is_asked and confirm and confirm(reason)):
        refused = "was not confirmed" if is_asked else "may not run"
        refusal = f"The agent {definition.name} {refused}: {reason}."
        raise Refusal(ErrorCode.SUBAGENT_DISABLED, refusal)
    return assembled(request, project, definition, given, problems)


def checked(
    request: Request, env: Mapping[str, str], flags: Mapping[str, object] | None = None
) -> tuple[Project, AgentDefinition]:
    """Return where a request that can be used is done, and by whom; raises `Refusal` at once."""
    project = open_project(request.cwd, env, flags)
    if not project.config.subagents.enabled:
        off = "Delegation is switched off: subagents.enabled is false."
        where = "`outrider config` shows where that is set."
        raise Refusal(ErrorCode.SUBAGENTS_DISABLED, f"{off} {where}")
    check_depth(project.config, env)
    check_input(request)
    check_schema(request.output_schema)
    return project, request.definition or find_agent(request.agent, project.discovery)


def assembled(
    request: Request,
    project: Project,
    definition: AgentDefinition,
    given: Permit,
    problems: tuple[str, ...] = (),
) -> Prepared:
    """Return a delegation with the model that answers; raises `Refusal` where none can."""
    choice = project.choice(definition, request.model)
    if choice.problem:
        raise invalid(f"The model from the {choice.reason} can't be used: {choice.problem}")
    if definition.runtime == PI:
        from outrider.runtimes.pi.choices import WARNING

        problems = (*problems, WARNING)
    return Prepared(
        request=request,
        project=project,
        definition=definition,
        permit=given,
        choice=choice,
        schema=_schema(request, definition),
        shown_task=project.masker.text(request.task),
        shown_cwd=project.masker.text(str(project.folder)),
        warnings=(*project.settings.warnings, *problems),
    )


def find_agent(name: str, discovery: Discovery) -> AgentDefinition:
    """Return the agent that is called `name`, or refuse with those there are."""
    name = normal_name(name)
    definition = discovery.agents.get(name)
    if definition is not None:
        return definition
    words = [f"Unknown agent: {name}. Available agents: {', '.join(discovery.agents)}."]
    words += [f"Did you mean {near}?" for near in get_close_matches(name, discovery.agents, 1)]
    faults = [note for note in discovery.diagnostics if note.severity == "error"]
    words += [f"Unusable: {note}." for note in faults[:3]]
    raise Refusal(ErrorCode.UNKNOWN_AGENT, " ".join(words))


def _schema(request: Request, definition: AgentDefinition) -> Any:
    """Return the caller's schema, else the agent's own."""
    if request.output_schema is not None or definition.output_schema is None:
        return request.output_schema
    path = Path(definition.output_schema)
    try:
        # Opened without blocking: an agent file can name a pipe.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            schema: object = json.loads(file.read(1 << 20))
    except (OSError, ValueError, RecursionError) as error:
        raise invalid(
            f"The output_schema of {definition.name}, {path}, can't be used: {error}"
        ) from None
    check_schema(schema)
    return schema
