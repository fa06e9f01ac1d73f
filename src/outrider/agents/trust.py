"""Whether the user trusts a repository, and whether the agents that it defines may run."""

import os
from collections.abc import Mapping
from enum import IntEnum, StrEnum
from pathlib import Path

from outrider.agents import definitions
from outrider.agents.definitions import CODER, NATIVE, RUNTIMES, AgentDefinition, Source
from outrider.settings.keys import Config
from outrider.settings.places import home, project_root


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
    if name in map(definitions.normal_name, settings.disabled):
        return Clearance.REFUSE, f"{name} is switched off by subagents.disabled"
    own = definition.source is not Source.PROJECT
    if definition.runtime not in (RUNTIMES if own else (NATIVE,)):
        return Clearance.REFUSE, f"{name} can't use the runtime {definition.runtime[:60]!r}"
    is_coder = name == CODER and definition.source is Source.BUILTIN
    if is_coder and not settings.allow_write:
        advice = "allow that for one run with --write, or always with subagents.allowWrite"
        return Clearance.REFUSE, f"it changes files, which isn't allowed here; {advice}"
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
    hint = "to let it run, add the repository to subagents.trustedProjects"
    return Clearance.REFUSE, f"{origin}, {refused}; {hint}"


def is_trusted(folder: Path, env: Mapping[str, str], config: Config) -> bool:
    """Return whether the project of `folder` is in one of the folders that the user trusts."""
    entries = config.subagents.trusted_projects
    root = project_root(folder, env) if entries else None
    if root is None:
        return False
    real, own_home = Path(os.path.realpath(root)), home(env)
    for entry in entries:
        trusted = own_home / entry[2:] if entry == "~" or entry.startswith("~/") else Path(entry)
        # A relative entry would trust whatever the working directory happens to be.
        if trusted.is_absolute() and real.is_relative_to(os.path.realpath(trusted)):
            return True
    return False
