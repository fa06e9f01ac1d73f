"""What an agent may do: a read-only agent never gets a tool that writes, and an agent that a
repository defines gets no network tool unless the user's own configuration trusts the repository.

Prompts guide; this decides. All of it is pure.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType

from outrider.agents.definitions import AgentDefinition, Source
from outrider.protocol.catalogue import (
    DEFAULT_TOOLS,
    NETWORK_TOOLS,
    NEVER_LISTED,
    READ_ONLY_TOOLS,
    WRITING_TOOLS,
)
from outrider.settings.keys import READ_ONLY_LSP_ACTIONS, Config

__all__ = [
    "DEFAULT_TOOLS",
    "NETWORK_TOOLS",
    "READ_ONLY_TOOLS",
    "WRITING_TOOLS",
    "Permit",
    "Trust",
    "Verdict",
    "is_trusted",
    "may_run",
    "permit",
]

_NO_TOOLS: Mapping[str, bool] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Trust:
    """Whether the user's own configuration trusts the repository at hand."""

    trusted: bool


@dataclass(frozen=True, slots=True)
class Permit:
    """The tools a child gets, and each listed one it doesn't get with the reason.

    `readonly` says that none of its tools writes, whatever the agent's file says.
    """

    tools: tuple[str, ...]
    readonly: bool
    lsp_actions: tuple[str, ...]
    withheld: tuple[tuple[str, str], ...]


class Verdict(StrEnum):
    """Whether an agent may run: at once, when somebody says yes, or not."""

    RUN = "run"
    ASK = "ask"
    REFUSE = "refuse"


def permit(
    definition: AgentDefinition,
    config: Config,
    trust: Trust,
    extra_tools: Mapping[str, bool] = _NO_TOOLS,
) -> Permit:
    """Return a child's tools; `extra_tools` are the user's own, each with whether it writes."""
    writes = {**extra_tools, **dict.fromkeys(READ_ONLY_TOOLS, False)}
    writes |= dict.fromkeys(WRITING_TOOLS, True)
    actions = _lsp_actions(config)
    given: list[str] = []
    withheld: list[tuple[str, str]] = []
    listed = DEFAULT_TOOLS if definition.tools is None else definition.tools
    for tool in dict.fromkeys(listed):
        reason = (
            _never(tool, writes)
            or (writes[tool] and _no_writing(definition, config))
            or (tool in NETWORK_TOOLS and _no_network(definition, trust))
            or (tool == "lsp" and not actions and "subagents.allowLspTools allows no action")
        )
        if reason:
            withheld.append((tool, reason))
        else:
            given.append(tool)
    return Permit(
        tools=tuple(given),
        readonly=not any(writes[tool] for tool in given),
        lsp_actions=actions if "lsp" in given else (),
        withheld=tuple(withheld),
    )


def _never(tool: str, writes: Mapping[str, bool]) -> str | None:
    if tool in NEVER_LISTED:
        return "an agent's file can't give it"
    return None if tool in writes else "there is no such tool"


def _no_writing(definition: AgentDefinition, config: Config) -> str | None:
    if definition.readonly:
        return "the agent is readonly"
    return None if config.subagents.allow_write else "subagents.allowWrite is off"


def _no_network(definition: AgentDefinition, trust: Trust) -> str | None:
    if definition.source is not Source.PROJECT or trust.trusted:
        return None
    return "the repository that defines the agent isn't in subagents.trustedProjects"


def _lsp_actions(config: Config) -> tuple[str, ...]:
    # rename, codeAction and restart are in no child's reach, whatever the configuration lists.
    if not config.subagents.allow_lsp_tools:
        return ()
    allowed = config.subagents.allowed_lsp_actions
    return tuple(action for action in allowed if action in READ_ONLY_LSP_ACTIONS)


def may_run(
    definition: AgentDefinition, config: Config, *, trusted: bool, interactive: bool
) -> tuple[Verdict, str]:
    """Return whether an agent may run, and the reason in words for the one who asked."""
    name, settings = definition.name, config.subagents
    if definition.disabled:
        return Verdict.REFUSE, f"{name} is disabled in its file, {definition.path}"
    if name in settings.disabled:
        return Verdict.REFUSE, f"{name} is switched off by subagents.disabled"
    if definition.source is not Source.PROJECT:
        return Verdict.RUN, f"{name} is yours or built in"
    if settings.project_agent_policy == "allow":
        return Verdict.RUN, "subagents.projectAgentPolicy is allow"
    if settings.project_agent_policy != "confirm":
        return Verdict.REFUSE, f"{_origin(definition)}, and subagents.projectAgentPolicy is deny"
    if trusted:
        return Verdict.RUN, "its repository is in subagents.trustedProjects"
    if interactive:
        return Verdict.ASK, _origin(definition)
    if settings.non_interactive_policy == "allow":
        return Verdict.RUN, "nobody can be asked, and subagents.nonInteractivePolicy is allow"
    return (
        Verdict.REFUSE,
        f"{_origin(definition)}, nobody can be asked, and subagents.nonInteractivePolicy is deny; "
        "add the repository to subagents.trustedProjects to let it run",
    )


def _origin(definition: AgentDefinition) -> str:
    return f"{definition.name} is defined by this repository ({definition.path})"


def is_trusted(project_root: Path | None, config: Config, home: Path) -> bool:
    """Return whether the user trusts the project: it is, or is below, a trusted folder.

    `~` stands for `home`. A relative entry would trust whatever the working directory happens to
    be, so it counts for nothing.
    """
    if project_root is None:
        return False
    real = Path(os.path.realpath(project_root))
    for entry in config.subagents.trusted_projects:
        folder = home / entry[2:] if entry == "~" or entry.startswith("~/") else Path(entry)
        if folder.is_absolute() and real.is_relative_to(os.path.realpath(folder)):
            return True
    return False
