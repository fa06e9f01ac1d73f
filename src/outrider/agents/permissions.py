"""Which tools an agent gets: a read-only agent never gets one that writes. An agent that a
repository defines gets no network tool unless the user's own configuration trusts the repository,
and no tool that writes where nobody could be asked.
"""

from collections.abc import Mapping

from outrider.agents.definitions import AgentDefinition, Source
from outrider.agents.lsp_permissions import lsp_actions_in_reach
from outrider.agents.trust import Trust
from outrider.protocol.data import frozen
from outrider.protocol.results import WithheldTool
from outrider.protocol.tool_catalogue import CATALOGUE, DEFAULT_TOOLS, NEVER_GIVEN, CatalogueEntry
from outrider.settings.keys import Config, value_of

_UNTRUSTED = "the repository that defines the agent isn't in subagents.trustedProjects"


@frozen
class Permit:
    """The tools a child gets, and each listed one it doesn't get with the reason."""

    tools: tuple[str, ...]
    readonly: bool  # none of its tools writes, whatever the agent's file says
    lsp_actions: tuple[str, ...]
    withheld: tuple[WithheldTool, ...]
    network: str = "none"  # what its commands reach
    isolation: str = "readonly"  # where it writes, as `subagents.isolation`

    @property
    def lacks_all_tools(self) -> bool:
        """Whether the agent lists tools and gets none of them. Such an agent may not run."""
        return bool(self.withheld) and not self.tools


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
    listed = DEFAULT_TOOLS if definition.tools is None else definition.tools
    why_not = {one: _why_not(one, tools.get(one), definition, config, trust) for one in listed}
    if "lsp" in why_not and not actions:
        why_not["lsp"] = why_not["lsp"] or "subagents.allowLspTools allows no action"
    given = tuple(tool for tool, reason in why_not.items() if not reason)
    writes = any(tools[tool].writes for tool in given)
    return Permit(
        tools=given,
        readonly=not writes,
        lsp_actions=actions if "lsp" in given else (),
        withheld=tuple(WithheldTool(tool, reason) for tool, reason in why_not.items() if reason),
        network=_network(definition, config, trust),
        isolation=(definition.isolation or config.subagents.isolation) if writes else "readonly",
    )


def _network(definition: AgentDefinition, config: Config, trust: Trust) -> str:
    """Return what commands reach: what a repository says can only take the network away."""
    if definition.source is not Source.PROJECT:
        return definition.network or config.subagents.network
    is_trusted = trust is Trust.TRUSTED and definition.network != "none"
    return config.subagents.network if is_trusted else "none"


def _why_not(
    tool: str, entry: CatalogueEntry | None, agent: AgentDefinition, config: Config, trust: Trust
) -> str | None:
    """Return why an agent doesn't get a tool that it lists; None if it gets it."""
    trust = trust if agent.source is Source.PROJECT else Trust.TRUSTED
    if tool in NEVER_GIVEN:
        return "agent files can't list it"
    if entry is None:
        return "unknown tool; list modules with your own tools in tools.modules"
    if entry.setting and not value_of(config, entry.setting):
        return f"{entry.setting} is off"
    if entry.writes and agent.readonly:
        return "the agent is readonly"
    if entry.writes and not config.subagents.allow_write:
        return "subagents.allowWrite is off"
    if entry.writes and trust is Trust.UNASKED:
        return f"nobody could be asked, and {_UNTRUSTED}"
    return _UNTRUSTED if entry.network and trust is not Trust.TRUSTED else None
