"""How many delegations this process is inside of, and the limit on that (`subagents.maxDepth`).

The outermost caller's limit holds for all that is below it. The kernel keeps it, as a resource
limit that can only be lowered, so no setting, variable, namespace or daemon below raises it.
"""

import os
from collections.abc import Mapping
from functools import lru_cache

from outrider.processes.reaping import ancestor_names, levels_left
from outrider.protocol.brief import CHILD_VARIABLE, DEPTH_VARIABLE, MAX_DEPTH_VARIABLE
from outrider.protocol.errors import ErrorCode, Refusal
from outrider.settings.keys import Config


def check_depth(config: Config, env: Mapping[str, str]) -> None:
    """Refuse a delegation by a child that is as deep as one may be."""
    if (depth := current_depth(env)) >= max_depth(config, env):
        refusal = f"A delegation at depth {depth} is refused: it is as deep as subagents.maxDepth"
        advice = "of the outermost caller allows, which can't be raised here. Do the task yourself."
        raise Refusal(ErrorCode.SUBAGENT_DEPTH_EXCEEDED, f"{refusal} {advice}")


def max_depth(config: Config, env: Mapping[str, str]) -> int:
    """Return the outermost caller's limit, or a lower one that is set here."""
    depth, limits = current_depth(env), [config.subagents.max_depth]
    if (left := levels_left()) is not None:
        limits.append(depth + left)
    elif depth:  # only its environment says how deep another program's child may go, if anything
        limits.append(_number(env.get(MAX_DEPTH_VARIABLE)) or depth)
    return min(limits)


def current_depth(env: Mapping[str, str]) -> int:
    """Return how many delegations this process is inside of; doubt counts as one.

    Its environment says so, which a command can drop, and the processes above it, which it can't.
    """
    children = (env.get("PI_SUBAGENT_CHILD"), env.get(CHILD_VARIABLE))
    is_child = "1" in children or _is_below_child(os.getpid()) or levels_left() == 0
    return _number(env.get(DEPTH_VARIABLE)) or int(is_child)


def _number(told: str | None) -> int | None:
    return int(told) if told and told.isascii() and told.isdigit() and len(told) < 6 else None


@lru_cache(maxsize=1)
def _is_below_child(_pid: int) -> bool:
    return "outrider-child" in ancestor_names()
