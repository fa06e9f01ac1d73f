"""What a pi child gets: the program, its model with the keys of that provider, its tools.

No program of the working tree is run, and no other provider's key is handed over.
"""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from outrider.agents.permissions import Permit
from outrider.models.known_providers import ALIASES, PROVIDERS
from outrider.models.resolution import ModelChoice
from outrider.protocol.data import member
from outrider.protocol.results import WithheldTool
from outrider.settings.places import home

INSTALL = "npm install -g @earendil-works/pi-coding-agent@0.87.1"
"""With a version: the newest one on npm may be one that can't be installed."""
TOOLS = ("read", "grep", "find", "ls", "edit", "write", "bash")
TRUST_VERSION = [0, 79]  # since then pi can be told to pass over what a repository sets
MAX_FILE_BYTES = 1 << 20
_NAMES = {
    "openai-chat": "openai",
    "openai-responses": "openai",
    "azure": "azure-openai-responses",
    "bedrock": "amazon-bedrock",
    "google-cloud": "google-vertex",
    "vercel": "vercel-ai-gateway",
}
"""What pi calls a provider, where it isn't what we do."""
_KEYS = {
    "anthropic": "ANTHROPIC_OAUTH_TOKEN",
    "github-copilot": "COPILOT_GITHUB_TOKEN",
    "kimi-coding": "KIMI_API_KEY",
    "moonshotai": "MOONSHOT_API_KEY",
    "vercel-ai-gateway": "AI_GATEWAY_API_KEY",
}
"""The key that pi reads for a provider, where it isn't `NAME_API_KEY` or one that we know."""


def pi_version(program: str) -> list[int]:
    """Return the version of a pi, as its package states it; empty where that isn't known."""
    for folder in Path(os.path.realpath(program)).parents:
        package = _read(folder / "package.json")
        if str(member(package, "name")).endswith("/pi-coding-agent"):
            return [int(part) for part in re.findall(r"\d+", str(member(package, "version")))]
    return []


def for_pi(given: Permit) -> Permit:
    """Return a permit without the tools that pi doesn't have."""
    tools = tuple(tool for tool in given.tools if tool in TOOLS)
    lacking = (tool for tool in given.tools if tool not in TOOLS)
    withheld = (WithheldTool(tool, "pi has no such tool") for tool in lacking)
    return replace(
        given, tools=tools, lsp_actions=(), withheld=(*given.withheld, *withheld), network="host"
    )


def choose_pi_model(
    flag: str | None, agent: str | None, configured: str | None, env: Mapping[str, str]
) -> ModelChoice:
    """Return the model that pi is told to use; one without a name leaves that to pi."""
    agent = ALIASES.get((agent or "").strip().lower(), agent)
    own = _read(agent_folder(env) / "settings.json")
    default = [member(own, key) for key in ("defaultProvider", "defaultModel")]
    chosen = "/".join(map(str, default)) if all(default) else None
    given = {"flag": flag, "agent file": agent, "configuration": configured}
    for reason, name in {**given, "pi's settings": chosen}.items():
        if name and name.strip():
            return _named(name.strip(), reason, env)
    keys = {key: provider.name for provider in PROVIDERS.values() for key in provider.keys}
    key = next((key for key in keys if env.get(key, "").strip()), None)
    return (
        ModelChoice(f"{keys[key]}:", f"{key} is set") if key else ModelChoice("pi:", "pi chooses")
    )


def _named(name: str, reason: str, env: Mapping[str, str]) -> ModelChoice:
    """Return a model that is written as ours are, `provider:name`, or as pi's, `provider/name`."""
    provider, *rest = re.split("[:/]", name, maxsplit=1)
    if not (provider and "".join(rest)):
        problem = f"pi can't run {name!r}. Write it as provider:name."
        return ModelChoice(name, reason, problem)
    return ModelChoice(f"{provider}:{rest[0]}", reason, variables=_variables(provider, env))


def _variables(provider: str, env: Mapping[str, str]) -> dict[str, str]:
    """Return what pi reads for a provider beside what we do; the user's models.json tells, too."""
    name = _NAMES.get(provider, provider)
    written = member(member(_read(agent_folder(env) / "models.json"), "providers"), name)
    usual = f"{name.upper().replace('-', '_')}_API_KEY"
    words = (_KEYS.get(name, usual), *re.findall(r"\w+", str(written)))
    return {word: env[word] for word in words if word in env}


def model_options(model: str) -> list[str]:
    """Return the options that name a model; none where pi chooses."""
    provider, _, name = model.partition(":")
    return ["--provider", _NAMES.get(provider, provider), "--model", name] if name else []


def agent_folder(env: Mapping[str, str]) -> Path:
    """Return the folder of the user's settings of pi."""
    named = env.get("PI_CODING_AGENT_DIR") or "~/.pi/agent"
    return Path(re.sub("^~", str(home(env)), named))


def _read(path: Path) -> Any:
    """Return what is in a JSON file; None where that can't be read."""
    try:
        with open(path, "rb") as file:
            return json.loads(file.read(MAX_FILE_BYTES))
    except (OSError, ValueError, RecursionError):
        return None
