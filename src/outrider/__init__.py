"""Delegate one focused task to a child agent in its own process.

The names below are loaded when they are first used: `import outrider` costs next to nothing.
"""

__version__ = "0.1.0"

# Not typing's: importing that would take longer than the rest of this module.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from outrider.delegation.api import (
        Delegation,
        DelegationError,
        delegate,
        subagent,
        subagent_sync,
    )
    from outrider.delegation.profiles import (
        SubAgentManager,
        SubAgentProfile,
        SubAgentResult,
        SubAgentState,
        SubAgentTool,
        offered_tools,
        register_sub_agent,
    )
    from outrider.protocol.catalogue import REPORT_BACK
    from outrider.protocol.errors import ErrorCode
    from outrider.protocol.events import TaskFinishEvent
    from outrider.protocol.outcomes import Outcome
    from outrider.protocol.results import SingleResult, ToolResult
    from outrider.protocol.usage import Usage

__all__ = [
    "REPORT_BACK",
    "Delegation",
    "DelegationError",
    "ErrorCode",
    "Outcome",
    "SingleResult",
    "SubAgentManager",
    "SubAgentProfile",
    "SubAgentResult",
    "SubAgentState",
    "SubAgentTool",
    "TaskFinishEvent",
    "ToolResult",
    "Usage",
    "__version__",
    "delegate",
    "offered_tools",
    "register_sub_agent",
    "subagent",
    "subagent_sync",
]

_HOMES = {
    "Delegation": "outrider.delegation.api",
    "DelegationError": "outrider.delegation.api",
    "ErrorCode": "outrider.protocol.errors",
    "Outcome": "outrider.protocol.errors",
    "REPORT_BACK": "outrider.protocol.brief",
    "SingleResult": "outrider.protocol.results",
    "SubAgentManager": "outrider.delegation.profiles",
    "SubAgentProfile": "outrider.delegation.profiles",
    "SubAgentResult": "outrider.delegation.profiles",
    "SubAgentState": "outrider.delegation.profiles",
    "SubAgentTool": "outrider.delegation.profiles",
    "TaskFinishEvent": "outrider.protocol.events",
    "ToolResult": "outrider.protocol.results",
    "Usage": "outrider.protocol.usage",
    "delegate": "outrider.delegation.api",
    "offered_tools": "outrider.delegation.profiles",
    "register_sub_agent": "outrider.delegation.profiles",
    "subagent": "outrider.delegation.api",
    "subagent_sync": "outrider.delegation.api",
}


def __getattr__(name: str) -> "Any":
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'outrider' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
