"""What an agent may do: a read-only agent never gets a tool that writes. An agent that a repository
defines gets no network tool unless the user's own configuration trusts the repository, and no
tool that writes where nobody could be asked.

Prompts guide; this decides. All of it is pure.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from pathlib import Path

from outrider.agents.definitions import NATIVE, RUNTIMES, AgentDefinition, Source, normal_name
from outrider.protocol.catalogue import CATALOGUE, DEFAULT_TOOLS, NEVER_GIVEN, CatalogueEntry
from outrider.protocol.results import WithheldTool
from outrider.settings.keys import (
    PRIVILEGED_LSP_ACTIONS,
    READ_ONLY_LSP_ACTIONS,
    Config,
    value_of,
)
from outrider.settings.places import home, project_root

_UNTRUSTED = "the repository that defines the agent isn't in subagents.trustedProjects"


@dataclass(frozen=True, slots=True)
class Permit:
    """The tools a child gets, and each listed one it doesn't get with the reason.

    `readonly` says that none of its tools writes, whatever the agent's file says.
    """

    tools: tuple[str, ...]
    readonly: bool
    lsp_actions: tuple[str, ...]
    withheld: tuple[WithheldTool, ...]

    @property
    def lacks_all_tools(self) -> bool:
        """Whether the agent lists tools and gets none of them. Such an agent may not run."""
        return bool(self.withheld) and not self.tools


class Trust(IntEnum):
    """How far the user trusts the repository that defines an agent."""

    UNASKED = 0  # nobody could be asked
    CONFIRMED = 1  # a person, or subagents.projectAgentPolicy, says yes
    TRUSTED = 2  # it is in subagents.trustedProjects


class Clearance(StrEnum):
    """Whether an agent may run: at once, when somebody says yes, or not."""

    RUN = "run"
    ASK = "ask"
    REFUSE = "refuse"


def permit(
    definition: AgentDefinition,
    config: Config,
    *,
    trust: Trust,
    tools: Mapping[str, CatalogueEntry] = CATALOGUE,
) -> Permit:
    """Return what a child gets of `tools`; `trust` counts for a repository's agent only."""
    allowed = config.subagents.allowed_lsp_actions if config.subagents.allow_lsp_tools else ()
    actions = lsp_actions_in_reach(allowed, is_child=True)
    given: list[str] = []
    withheld: list[WithheldTool] = []
    listed = DEFAULT_TOOLS if definition.tools is None else definition.tools
    for tool in dict.fromkeys(listed):
        reason = _why_not(tool, tools.get(tool), definition, config, trust)
        if tool == "lsp" and not actions:
            reason = reason or "subagents.allowLspTools allows no action"
        if reason:
            withheld.append(WithheldTool(tool, reason))
        else:
            given.append(tool)
    return Permit(
        tools=tuple(given),
        readonly=not any(tools[tool].writes for tool in given),
        lsp_actions=actions if "lsp" in given else (),
        withheld=tuple(withheld),
    )


def _why_not(
    tool: str,
    entry: CatalogueEntry | None,
    definition: AgentDefinition,
    config: Config,
    trust: Trust,
) -> str | None:
    """Return why an agent doesn't get a tool that it lists; None if it gets it."""
    trust = trust if definition.source is Source.PROJECT else Trust.TRUSTED
    if tool in NEVER_GIVEN:
        return "an agent's file can't give it"
    if entry is None:
        return "no tool has this name; tools.modules names modules with tools of your own"
    if entry.missing:
        return entry.missing
    if entry.setting and not value_of(config, entry.setting):
        return f"{entry.setting} is off"
    if entry.writes and definition.readonly:
        return "the agent is readonly"
    if entry.writes and not config.subagents.allow_write:
        return "subagents.allowWrite is off"
    if entry.writes and trust is Trust.UNASKED:
        return f"nobody could be asked, and {_UNTRUSTED}"
    return _UNTRUSTED if entry.network and trust is not Trust.TRUSTED else None


def lsp_actions_in_reach(listed: Iterable[str], *, is_child: bool) -> tuple[str, ...]:
    """Return which of the listed `lsp` actions may be used.

    rename, codeAction and restart are in no child's reach, whatever lists them.
    """
    reach = READ_ONLY_LSP_ACTIONS if is_child else READ_ONLY_LSP_ACTIONS + PRIVILEGED_LSP_ACTIONS
    return tuple(action for action in listed if action in reach)


def why_no_lsp_action(action: str, allowed: Sequence[str]) -> str:
    """Return why an `lsp` action is refused, in words for the one who asked."""
    why = "subagents.allowedLspActions doesn't list it"
    if action in PRIVILEGED_LSP_ACTIONS:
        why = "it is never open to a child, and to others by lsp.tool.allowMutatingActions"
    return f"{action} is not allowed: {why}. Allowed: {', '.join(allowed)}"


def trust_in(config: Config, *, trusted: bool, interactive: bool) -> Trust:
    """Return how far a repository's agents are trusted, once they run."""
    if trusted:
        return Trust.TRUSTED
    asked = interactive or config.subagents.project_agent_policy == "allow"
    return Trust.CONFIRMED if asked else Trust.UNASKED


def may_run(
    definition: AgentDefinition, config: Config, *, trusted: bool, interactive: bool
) -> tuple[Clearance, str]:
    """Return whether an agent may run, and the reason in words for the one who asked."""
    name, settings = definition.name, config.subagents
    if definition.disabled:
        return Clearance.REFUSE, f"{name} is disabled in its file, {definition.path}"
    if name in map(normal_name, settings.disabled):
        return Clearance.REFUSE, f"{name} is switched off by subagents.disabled"
    own = definition.source is not Source.PROJECT
    if definition.runtime not in (RUNTIMES if own else (NATIVE,)):
        return Clearance.REFUSE, f"{name} can't choose the runtime {definition.runtime[:60]!r}"
    if own:
        return Clearance.RUN, f"{name} is yours or built in"
    if settings.project_agent_policy == "allow":
        return Clearance.RUN, "subagents.projectAgentPolicy is allow"
    origin = f"{name} is defined by this repository ({definition.path})"
    if settings.project_agent_policy != "confirm":
        return Clearance.REFUSE, f"{origin}, and subagents.projectAgentPolicy is deny"
    if trusted:
        return Clearance.RUN, "its repository is in subagents.trustedProjects"
    if interactive:
        return Clearance.ASK, origin
    if settings.non_interactive_policy == "allow":
        return Clearance.RUN, "nobody can be asked, and subagents.nonInteractivePolicy is allow"
    refused = "nobody can be asked, and subagents.nonInteractivePolicy is deny"
    hint = "add the repository to subagents.trustedProjects to let it run"
    return Clearance.REFUSE, f"{origin}, {refused}; {hint}"


def is_trusted(folder: Path, env: Mapping[str, str], config: Config) -> bool:
    """Return whether the user trusts the project of `folder`: it is in a trusted folder.

    `~` stands for HOME. A relative entry would trust whatever the working directory happens to
    be, so it is ignored.
    """
    entries = config.subagents.trusted_projects
    root = project_root(folder, env) if entries else None
    if root is None:
        return False
    real, own_home = Path(os.path.realpath(root)), home(env)
    for entry in entries:
        trusted = own_home / entry[2:] if entry == "~" or entry.startswith("~/") else Path(entry)
        if trusted.is_absolute() and real.is_relative_to(os.path.realpath(trusted)):
            return True
    return False
