"""What a pi child gets: the program, its model with the variables of that provider, its tools.

No program of the working tree is run, and no other provider's key is handed over.
"""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from outrider.agents.permissions import Permit
from outrider.models.catalogue import ALIASES, EMBEDDED, PROVIDERS
from outrider.models.resolution import ModelChoice
from outrider.protocol.results import WithheldTool
from outrider.settings.places import home
from outrider.tools.lsp.servers import Surroundings

INSTALL = "npm install -g @earendil-works/pi-coding-agent"
TOOLS = ("read", "grep", "find", "ls", "edit", "write", "bash")
WARNING = (
    "the agent runs in pi, which reads files itself, so secrets in them reach its model; the "
    "receipt is what pi reports, without hashes"
)
TRUST_VERSION = (0, 79)
"""Since then pi can be told to pass over what a repository sets."""
MAX_FILE_BYTES = 1 << 20
_NAMES = {
    "openai-chat": "openai",
    "openai-responses": "openai",
    "azure": "azure-openai-responses",
    "azure-responses": "azure-openai-responses",
    "bedrock": "amazon-bedrock",
    "google-cloud": "google-vertex",
    "vercel": "vercel-ai-gateway",
}
"""What pi calls a provider, where it isn't what we do."""
_KEYS = {
    "anthropic": ("ANTHROPIC_OAUTH_TOKEN", "ANTHROPIC_AUTH_TOKEN"),
    "azure-openai-responses": ("AZURE_OPENAI_BASE_URL", "AZURE_OPENAI_RESOURCE_NAME"),
    "github-copilot": ("COPILOT_GITHUB_TOKEN",),
    "kimi-coding": ("KIMI_API_KEY",),
    "minimax": ("MINIMAX_API_KEY",),
    "moonshotai": ("MOONSHOT_API_KEY",),
    "nvidia": ("NVIDIA_API_KEY",),
    "opencode": ("OPENCODE_API_KEY",),
    "vercel-ai-gateway": ("AI_GATEWAY_API_KEY",),
}
"""The variables that only pi reads, by its name of the provider."""


def find_pi(env: Mapping[str, str], folder: str) -> str | None:
    """Return the path of the user's pi; None where there is none outside `folder`."""
    return Surroundings(env, (folder,)).find("pi")


def refusal_of(program: str, folder: str) -> str | None:
    """Return why a pi can't be kept from the repository's settings, which can run commands."""
    version = version_of(program)
    settings = os.path.join(folder, ".pi/settings.json")
    if is_old(version) and os.path.lexists(settings):
        return f"pi {version} would follow {settings}. Update it: `{INSTALL}`"
    return None


def is_old(version: str) -> bool:
    """Whether a version, where it is known, is older than the trust in projects."""
    numbers = re.match(r"(\d+)\.(\d+)", version)
    return numbers is not None and (int(numbers[1]), int(numbers[2])) < TRUST_VERSION


def version_of(program: str) -> str:
    """Return the version of a pi as its package states it; empty where there is none."""
    for folder in Path(os.path.realpath(program)).parents:
        package = _file(folder / "package.json")
        if str(package.get("name")).endswith("/pi-coding-agent"):
            return str(package.get("version"))
    return ""


def surroundings(env: Mapping[str, str], folder: str) -> dict[str, str]:
    """Return the environment of pi: no path in it leads into `folder`."""
    return Surroundings(env, (folder,)).for_server()


def for_pi(given: Permit) -> Permit:
    """Return a permit without the tools that pi doesn't have."""
    lacking = [
        WithheldTool(tool, "pi has no such tool") for tool in given.tools if tool not in TOOLS
    ]
    tools = tuple(tool for tool in given.tools if tool in TOOLS)
    return replace(given, tools=tools, lsp_actions=(), withheld=(*given.withheld, *lacking))


def choose_pi_model(
    *, flag: str | None, agent: str | None, configured: str | None, env: Mapping[str, str]
) -> ModelChoice:
    """Return the model that pi is told to use; one without a name leaves that to pi."""
    agent = ALIASES.get((agent or "").strip().lower(), agent)
    own = _file(agent_folder(env) / "settings.json")
    default = [own.get("defaultProvider"), own.get("defaultModel")]
    for name, reason in (
        (flag, "flag"),
        (agent, "agent file"),
        (configured, "configuration"),
        ("/".join(map(str, default)) if all(default) else None, "pi's settings"),
    ):
        if name and name.strip():
            return _named(name.strip(), reason, env)
    for provider in PROVIDERS.values():
        for key in provider.keys:
            if env.get(key, "").strip():
                return ModelChoice(f"{provider.name}:", f"{key} is set, and pi chooses")
    return ModelChoice("pi:", "pi chooses")


def _named(name: str, reason: str, env: Mapping[str, str]) -> ModelChoice:
    """Return a model that is written as ours are, `provider:name`, or as pi's, `provider/name`."""
    provider, _, model = name.partition(min(":/", key=lambda mark: f"{name}{mark}".index(mark)))
    if name == EMBEDDED or not model:
        wanted = "pi can't run the embedded model" if name == EMBEDDED else f"{name!r} is no model"
        return ModelChoice(name, reason, f"{wanted}: name one as provider:name.")
    return ModelChoice(f"{provider}:{model}", reason, variables=_variables(provider, env))


def _variables(provider: str, env: Mapping[str, str]) -> dict[str, str]:
    """Return what pi reads for a provider, beside what we do: the user's models.json tells, too."""
    name = _NAMES.get(provider, provider)
    entry = _object(_object(_file(agent_folder(env) / "models.json").get("providers")).get(name))
    written = (entry.get("apiKey"), *_object(entry.get("headers")).values())
    words = (*_KEYS.get(name, ()), *re.findall(r"\w+", " ".join(map(str, written))))
    return {word: env[word] for word in words if word in env}


def model_options(model: str) -> list[str]:
    """Return the options that name a model; none where pi chooses."""
    provider, _, name = model.partition(":")
    return ["--provider", _NAMES.get(provider, provider), "--model", name] if name else []


def agent_folder(env: Mapping[str, str]) -> Path:
    """Return the folder of pi's own settings."""
    named = env.get("PI_CODING_AGENT_DIR", "").strip()
    if named.startswith("~"):
        named = f"{home(env)}{named[1:]}"
    return Path(named) if named else home(env) / ".pi/agent"


def _file(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file; empty where it can't be read."""
    try:
        with open(path, "rb") as file:
            return _object(json.loads(file.read(MAX_FILE_BYTES)))
    except (OSError, ValueError, RecursionError):
        return {}


def _object(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
