"""How many delegations this process is inside of, and the limit on that (`subagents.maxDepth`)."""

import os
from collections.abc import Mapping
from functools import lru_cache

from outrider.processes.reaping import ancestor_names, depth_of
from outrider.protocol.errors import ErrorCode, Refusal
from outrider.settings.keys import Config


def check_depth(config: Config, env: Mapping[str, str]) -> None:
    """Refuse a delegation by a child that is as deep as the configuration allows."""
    depth, most = current_depth(env), config.subagents.max_depth
    if depth >= most:
        refusal = f"A delegation at depth {depth} is refused: subagents.maxDepth is {most}."
        raise Refusal(ErrorCode.SUBAGENT_DEPTH_EXCEEDED, f"{refusal} Do the task yourself.")


def current_depth(env: Mapping[str, str]) -> int:
    """Return how many delegations this process is inside of; doubt counts as one.

    Its environment says so, which a command can drop, and the processes above it, which it can't.
    """
    above = _depth_above(os.getpid())
    told = env.get("OUTRIDER_SUBAGENT_DEPTH", "")
    if told.isascii() and told.isdigit() and len(told) < 6 and int(told) > 0:
        return max(int(told), above)
    children = (env.get("PI_SUBAGENT_CHILD"), env.get("OUTRIDER_SUBAGENT_CHILD"))
    return max(1 if "1" in children else 0, above)


@lru_cache(maxsize=1)
def _depth_above(_pid: int) -> int:
    return max((depth_of(name) for name in ancestor_names()), default=0)
