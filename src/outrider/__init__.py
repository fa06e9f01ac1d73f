"""Delegate one focused task to a child agent in its own process.

The names below are loaded when they are first used: `import outrider` costs next to nothing.
What authors of tools need is in `outrider.tools`.
"""

__version__ = "0.1.0"

# Not typing's: importing that would take longer than the rest of this module.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from outrider.agents.definitions import AgentDefinition as AgentDefinition
    from outrider.agents.discovery import Discovery as Discovery
    from outrider.agents.permissions import Permit as Permit
    from outrider.child.report_back import ReportBackTool as ReportBackTool
    from outrider.child.turn import TurnResult as TurnResult
    from outrider.delegation.api import (
        Delegation as Delegation,
        DelegationError as DelegationError,
        attach as attach,
        delegate as delegate,
        start as start,
        subagent as subagent,
        subagent_sync as subagent_sync,
    )
    from outrider.delegation.map.engine import MapRow as MapRow
    from outrider.delegation.map.mapping import Map as Map, map as map  # noqa: A004
    from outrider.delegation.model_tools import (
        ModelTool as ModelTool,
        anthropic_tool as anthropic_tool,
        openai_tool as openai_tool,
        toolset as toolset,
    )
    from outrider.delegation.perform import Caller as Caller
    from outrider.delegation.profiles import (
        SubAgentManager as SubAgentManager,
        SubAgentProfile as SubAgentProfile,
        SubAgentResult as SubAgentResult,
        SubAgentState as SubAgentState,
        SubAgentTool as SubAgentTool,
        delegation_policy as delegation_policy,
        offered_tools as offered_tools,
        register_sub_agent as register_sub_agent,
        sub_agent_profile as sub_agent_profile,
    )
    from outrider.delegation.project import Project as Project, open_project as open_project
    from outrider.delegation.run_handle import RunHandle as RunHandle
    from outrider.protocol.changes import Changes as Changes, LandingConflict as LandingConflict
    from outrider.protocol.errors import (
        SUBAGENT_ERROR_CODES as SUBAGENT_ERROR_CODES,
        ErrorCode as ErrorCode,
        OutriderError as OutriderError,
    )
    from outrider.protocol.events import (
        MessageEndEvent as MessageEndEvent,
        MessageUpdateEvent as MessageUpdateEvent,
        RetryEvent as RetryEvent,
        SessionEvent as SessionEvent,
        TaskFinishEvent as TaskFinishEvent,
        ToolResultEndEvent as ToolResultEndEvent,
        ToolStartEvent as ToolStartEvent,
        TurnEndEvent as TurnEndEvent,
        TurnStartEvent as TurnStartEvent,
        UserMessageEvent as UserMessageEvent,
    )
    from outrider.protocol.outcomes import Outcome as Outcome, TimeoutReason as TimeoutReason
    from outrider.protocol.results import (
        Details as Details,
        ErrorInfo as ErrorInfo,
        SingleResult as SingleResult,
        Streaming as Streaming,
        ToolResult as ToolResult,
        WithheldTool as WithheldTool,
    )
    from outrider.protocol.tool_catalogue import REPORT_BACK as REPORT_BACK
    from outrider.protocol.usage import Usage as Usage
    from outrider.settings.keys import Config as Config
    from outrider.settings.layers import Settings as Settings

# Which module has which names, for `__getattr__`.
_MODULES = {
    "agents.definitions": "AgentDefinition",
    "agents.discovery": "Discovery",
    "agents.permissions": "Permit",
    "child.report_back": "ReportBackTool",
    "child.turn": "TurnResult",
    "delegation.api": "Delegation DelegationError attach delegate start subagent subagent_sync",
    "delegation.map.engine": "MapRow",
    "delegation.map.mapping": "Map map",
    "delegation.model_tools": "ModelTool anthropic_tool openai_tool toolset",
    "delegation.perform": "Caller",
    "delegation.profiles": (
        "SubAgentManager SubAgentProfile SubAgentResult SubAgentState SubAgentTool "
        "delegation_policy offered_tools register_sub_agent sub_agent_profile"
    ),
    "delegation.project": "Project open_project",
    "delegation.run_handle": "RunHandle",
    "protocol.changes": "Changes LandingConflict",
    "protocol.tool_catalogue": "REPORT_BACK",
    "protocol.errors": "SUBAGENT_ERROR_CODES ErrorCode OutriderError",
    "protocol.events": (
        "MessageEndEvent MessageUpdateEvent RetryEvent SessionEvent TaskFinishEvent "
        "ToolResultEndEvent ToolStartEvent TurnEndEvent TurnStartEvent "
        "UserMessageEvent"
    ),
    "protocol.outcomes": "Outcome TimeoutReason",
    "protocol.results": "Details ErrorInfo SingleResult Streaming ToolResult WithheldTool",
    "protocol.usage": "Usage",
    "settings.keys": "Config",
    "settings.layers": "Settings",
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names.split()}

__all__ = ["__version__", *_HOMES]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> "Any":
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'outrider' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"outrider.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
