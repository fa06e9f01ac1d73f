"""The child's environment: the key of its own provider, and no other secret."""

from collections.abc import Mapping

from outrider.delegation.guard import current_depth
from outrider.protocol.masking import is_secret_name, secret_environment_values


def child_environment(env: Mapping[str, str], provider: Mapping[str, str]) -> dict[str, str]:
    """Return `env` without secrets, with the provider's own variables and the marks of a child."""
    secrets = set(secret_environment_values(env))
    kept = {
        name: value
        for name, value in env.items()
        if not is_secret_name(name) and value not in secrets and not name.startswith("OUTRIDER_")
    }
    return {
        **kept,
        **provider,
        "OUTRIDER_SUBAGENT_CHILD": "1",
        "OUTRIDER_SUBAGENT_DEPTH": str(current_depth(env) + 1),
        "PI_SUBAGENT_CHILD": "1",
        "PYTHONSAFEPATH": "1",
        "PYTHONUNBUFFERED": "1",
    }
