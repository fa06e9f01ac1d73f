"""Secrets and the environment: what a child gets of them, and what its commands can't see.

A child has the key of its own provider, and no other secret.
"""

from outrider.delegation.depth import current_depth, max_depth
from outrider.delegation.preparation import Prepared
from outrider.processes.hiding import hide_environment
from outrider.protocol import brief
from outrider.protocol.tool_catalogue import keys_of, run_commands


def child_environment(prepared: Prepared, run_id: str) -> dict[str, str]:
    """Return the environment without secrets, with the provider's own variables."""
    env = prepared.project.env
    keys = {key for tool in prepared.permit.tools for key in keys_of(tool) if key in env}
    depth = current_depth(env) + (prepared.main_turn is None)  # a main agent was not delegated to
    marks = (brief.CHILD_VARIABLE, "PI_SUBAGENT_CHILD") if depth else ()
    return {
        **prepared.project.child_env,
        **{key: env[key] for key in keys},
        **prepared.choice.environment(env),
        **dict.fromkeys(marks, "1"),
        brief.DEPTH_VARIABLE: str(depth),
        brief.MAX_DEPTH_VARIABLE: str(max_depth(prepared.config, env)),
        brief.RUN_VARIABLE: run_id,
        "PYTHONSAFEPATH": "1",
        "PYTHONUNBUFFERED": "1",
    }


def hide_secrets(prepared: Prepared) -> None:
    """Keep our secrets from the commands of a child that runs any."""
    if run_commands(prepared.permit.tools):
        hide_environment(frozenset(prepared.project.plain_env))
