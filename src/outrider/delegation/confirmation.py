"""Whether an agent may run, for which the user is asked about those that a repository defines."""

from collections.abc import Awaitable, Callable

from outrider.agents.definitions import AgentDefinition
from outrider.agents.permissions import Permit
from outrider.agents.trust import Clearance
from outrider.delegation.project import Project
from outrider.protocol.errors import ErrorCode, Refusal

Confirm = Callable[[AgentDefinition, str], Awaitable[bool]]
"""Asks the user whether a repository's agent may run, and says why."""


async def ask_for_permit(
    project: Project, definition: AgentDefinition, confirm: Confirm | None
) -> tuple[Permit, tuple[str, ...]]:
    """Return what an agent gets that may run, and what is wrong with the user's own tools.

    Where the user has to be asked, this is the one place that does it.
    """
    given, problems = project.permit(definition, interactive=confirm is not None)
    clearance, reason = project.clearance(definition, given, interactive=confirm is not None)
    if confirm is not None and clearance is Clearance.ASK:
        clearance = Clearance.RUN if await confirm(definition, reason) else Clearance.ASK
    if clearance is not Clearance.RUN:
        refused = "was not confirmed" if clearance is Clearance.ASK else "may not run"
        refusal = f"The agent {definition.name} {refused}: {reason}."
        raise Refusal(ErrorCode.SUBAGENT_DISABLED, refusal)
    return given, problems
