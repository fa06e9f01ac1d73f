"""The embedded model as a main agent: it hands each question to an agent, and quotes its report."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from outrider.models.embedded.evidence import PlannedCall
from outrider.models.embedded.report import ABOUT
from outrider.models.embedded.task import understand
from outrider.protocol.catalogue import SUBAGENT

NO_CODE = (
    "There is no code in this folder, so there is nothing to look up. The embedded model finds and "
    "quotes code; it can't answer from knowledge, write, or search the web."
)
_CODE = (
    "*.{c,cc,cpp,cs,go,java,js,jsx,kt,lua,mjs,php,pl,py,rb,rs,scala,sh,sql,swift,ts,tsx,vue,zig}"
)


def delegated(
    prompt: str, made: Sequence[PlannedCall], schema: Mapping[str, Any]
) -> str | list[PlannedCall]:
    """Return the next call on the way to an agent's report, or the answer with that report."""
    if not made:
        return [PlannedCall("find", {"pattern": _CODE, "limit": 1})]
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
        return f"The question couldn't be delegated. {last.fault}"
    told = last.data
    said = f"I delegated this to `{told['agent']}` (run {told['runId']}). Its report:"
    return f"{said}\n\n{told['text']}\n"
