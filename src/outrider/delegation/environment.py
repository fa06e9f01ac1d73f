"""The child's environment: the key of its own provider, and no other secret."""

from collections.abc import Mapping

from outrider.delegation.request import current_depth


def child_environment(
    env: Mapping[str, str], plain: Mapping[str, str], provider: Mapping[str, str]
) -> dict[str, str]:
    """Return `plain`, which is `env` without secrets, for a child of `provider`'s variables."""
    kept = {name: value for name, value in plain.items() if not name.startswith("OUTRIDER_")}
    # A proxy may ask for a password, and be the only way to the provider.
    proxies = {name: value for name, value in env.items() if name.lower().endswith("_proxy")}
    return {
        **kept,
        **proxies,
        **provider,
        "OUTRIDER_SUBAGENT_CHILD": "1",
        "OUTRIDER_SUBAGENT_DEPTH": str(current_depth(env) + 1),
        "PI_SUBAGENT_CHILD": "1",
        "PYTHONSAFEPATH": "1",
        "PYTHONUNBUFFERED": "1",
    }
