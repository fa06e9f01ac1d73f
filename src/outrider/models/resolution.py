"""Which model answers, and which variables of the environment its provider gets.

A child gets the variables of its own provider and no other secret: see `provider_environment`.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import field, replace
from importlib.util import find_spec

from outrider.models import known_providers as known, local_servers as local
from outrider.models.known_providers import EMBEDDED, PROVIDERS, ModelProvider
from outrider.models.local_servers import LocalServer, own_endpoint, probe_local_servers
from outrider.protocol.data import frozen
from outrider.protocol.text import most_alike

_LEFT_TO_PROVIDER = re.compile(r"(^|[-/])(latest|auto)$")
_NAME_PART = re.compile(r"[^-_.:@]+")
_OLLAMA_DEFAULT = "http://127.0.0.1:11434/v1"
_OPENAI_HOST = "https://api.openai.com"
_EFFORT = re.compile(":(off|minimal|low|medium|high|xhigh)$")  # how hard pi lets a model think
_DEFAULTED = [provider for provider in PROVIDERS.values() if provider.default]


@frozen
class ModelChoice:
    """The model that will answer, why it was chosen, and why it can't be used if it can't."""

    model: str
    reason: str
    problem: str | None = None
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    """What the child's environment needs for a local server that was found."""
    dropped: str | None = None  # the model in an agent's file that this stands in for, and why
    dropped_because: str = ""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What somebody should know who relies on the model that the agent's file names."""
        if self.dropped is None:
            return ()
        why = self.dropped_because.rstrip(".")
        return (f"the agent asks for {self.dropped!r}, but {why}; {self.shown} answers instead",)

    @property
    def shown(self) -> str:
        """The model as people see it."""
        return shown_model(self.model)

    def environment(self, env: Mapping[str, str]) -> dict[str, str]:
        """Return the variables of `env` that the child of this model gets."""
        return {**provider_environment(self.model, env), **self.variables}


def choose_model(
    *,
    flag: str | None,
    agent: str | None,
    configured: str | None,
    env: Mapping[str, str],
    local_servers: Callable[..., LocalServer | None] = probe_local_servers,
) -> ModelChoice:
    """Return the model to use: from flag, agent or configuration, else the best available one."""
    agent = agent and agent.strip()
    full = foreign_spelling(agent) if agent else None
    if full and not flag and (problem := problem_with(full, env)):
        found = choose_model(
            flag=None, agent=None, configured=configured, env=env, local_servers=local_servers
        )
        return replace(found, dropped=agent, dropped_because=problem)
    named = {"flag": flag, "agent file": full or agent, "configuration": configured}
    for reason, name in named.items():
        if name is not None and (name := name.strip()):
            return ModelChoice(name, reason, problem_with(name, env))
    keyed = {key: one for one in _DEFAULTED if (key := _first_set(one.keys, env))}
    own = own_endpoint(env.get("OPENAI_BASE_URL"))
    for key, provider in keyed.items():
        if not _missing_package(provider):
            leads_there = own and provider.name == "openai"
            server = local_servers((own,), local.OWN_SECONDS) if leads_there else None
            return _served(server) if server else _default_of(provider, f"{key} is set", env)
    likely = ((own, *local.WELL_KNOWN), local.OWN_SECONDS) if own else ()
    if server := local_servers(*likely):
        return _served(server)
    reasons = ["nothing answers at OPENAI_BASE_URL"] if own else []
    reasons += [f"{key} is set, but using it needs {_install(keyed[key])}" for key in keyed]
    return ModelChoice(EMBEDDED, (reasons or ["no key and no server"])[0])


def other_choices(chosen: ModelChoice, env: Mapping[str, str]) -> Iterator[ModelChoice]:
    """Yield what each provider with a key would answer with, other than that of `chosen`."""
    seen = set(needs(chosen.model))
    for name, provider in PROVIDERS.items():
        if (key := _first_set(provider.keys, env)) and key not in seen:
            seen.add(key)
            problem = _missing_package(provider)
            if provider.default and not problem:
                yield _default_of(provider, f"{key} is set", env)
            else:
                problem = problem or "it has no default model: name one"
                yield ModelChoice(f"{name}:", f"{key} is set", problem)


def _served(server: LocalServer) -> ModelChoice:
    reason = f"{server.title} at {server.address}"
    problem = "it is still loading its model: wait, or name another one, such as --model embedded."
    problem = problem if server.is_loading else None
    return ModelChoice(server.model, reason, problem, server.variables)


def shown_model(model: str) -> str:
    """Return a model as people see it: where its name is a path, by the last part of that."""
    provider, colon, name = model.partition(":")
    is_path = name.startswith(("/", "./", "../", "~/")) or name.endswith(".gguf")
    return f"{provider}{colon}{name.rpartition('/')[2] if is_path else name}"


def is_same_model(asked: str, answered: str) -> bool:
    """Whether a model that answered, as its provider calls it, can be the one asked for."""
    # It may be dated, tagged or stand behind a router, and a router may turn its words around. A
    # name such as `…-latest` or `auto` leaves the choice to the provider, and one of Azure's is a
    # deployment's.
    provider, _, wanted = asked.lower().partition(":")
    is_chosen_there = provider.startswith("azure") or _LEFT_TO_PROVIDER.search(wanted)
    if asked == answered or not wanted or is_chosen_there:
        return True
    given = answered.lower().partition(":")[2]
    wanted, given = (one.rpartition("/")[2] for one in (wanted, given))
    if ":" not in given:
        wanted = wanted.partition(":")[0]
    (words, one), (other_words, other) = map(_name_parts, (wanted, given))
    short, long = sorted((one, other), key=len)
    is_stamped = all(len(number) > 1 for number in long[len(short) :])
    return words == other_words and long[: len(short)] == short and is_stamped


def _name_parts(model: str) -> tuple[list[str], list[str]]:
    """Return the words of a name, in no order that counts, and its numbers in theirs."""
    parts = _NAME_PART.findall(model)
    words = sorted(one for one in parts if not one.isdigit() and one != "latest")
    return words, [one for one in parts if one.isdigit() and one != "0"]


def is_embedded(model: str) -> bool:
    return model == EMBEDDED


def needs(model: str) -> tuple[str, ...]:
    """Return the variables of which `model`'s provider needs one; empty if it needs none."""
    provider = PROVIDERS.get(model.partition(":")[0])
    return provider.keys if provider else ()


def provider_environment(model: str, env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of `env` that the provider of `model` reads: only its own."""
    if is_embedded(model):
        return {}
    name = model.partition(":")[0]
    provider = PROVIDERS.get(name, ModelProvider(name))
    wanted = (*provider.keys, *provider.others, *known.NETWORK_VARIABLES)
    chosen = {variable: env[variable] for variable in wanted if env.get(variable, "").strip()}
    if name == "ollama":
        chosen.setdefault("OLLAMA_BASE_URL", _OLLAMA_DEFAULT)
    elif "OPENAI_BASE_URL" in chosen:
        chosen.setdefault("OPENAI_API_KEY", "none")  # its client insists on one
    return chosen


def problem_with(model: str, env: Mapping[str, str]) -> str | None:
    """Return why `model` can't be used as written, and what to do; None if it can."""
    if is_embedded(model):
        return None
    name, colon, rest = model.partition(":")
    if not colon:
        maker = _maker(model)
        others = "openai-chat:NAME, anthropic:NAME or ollama:NAME, or use embedded"
        example = f"{maker}:{model}" if maker else others
        return f"{model!r} has no provider: write provider:name, for example {example}."
    if name not in PROVIDERS:
        near = most_alike(name.lower(), PROVIDERS)
        hint = f"did you mean {near[0]}" if near else f"known providers are {', '.join(PROVIDERS)}"
        return f"{model!r} has an unknown provider; {hint}."
    if not rest.strip():
        return f"{model!r} has no model name: write {name}:NAME."
    keys = needs(model)
    # An endpoint of the user's own may need no key.
    has_own_endpoint = model.startswith("openai") and _first_set(["OPENAI_BASE_URL"], env)
    has_key = not keys or has_own_endpoint or _first_set(keys, env)
    no_key = None if has_key else f"{model} needs a key: set {' or '.join(keys)}."
    return _missing_package(PROVIDERS[name]) or no_key


def foreign_spelling(model: str) -> str | None:
    """Return `provider:name` for a model as agent files for other hosts spell it."""
    # They write `sonnet`, `claude-opus-5-5`, or, for pi, `openai/gpt-5:high`. None for any other.
    if full := known.ALIASES.get(model.lower()):
        return full
    provider, slash, name = model.partition("/")
    if slash and name and provider in PROVIDERS:
        return f"{provider}:{_EFFORT.sub('', name)}"
    maker = None if slash or ":" in model else _maker(model)
    return maker and f"{maker}:{model}"


def _maker(model: str) -> str | None:
    """Return the provider whose own models are named like this one."""
    family = model.lower().partition("-")[0]
    made = {one.default.partition("-")[0]: one.name for one in reversed(_DEFAULTED) if one.default}
    return "openai" if re.fullmatch(r"o\d", family) else made.get(family)


def _first_set(variables: Iterable[str], env: Mapping[str, str]) -> str | None:
    return next((name for name in variables if env.get(name, "").strip()), None)


def _default_of(provider: ModelProvider, reason: str, env: Mapping[str, str]) -> ModelChoice:
    model = f"{provider.name}:{provider.default}"
    base_url = env.get("OPENAI_BASE_URL", "").strip()
    if provider.name != "openai" or not base_url or base_url.startswith(_OPENAI_HOST):
        return ModelChoice(model, reason)
    problem = (
        "OPENAI_BASE_URL is set, but no model is named, and Outrider doesn't know that server's "
        "models: name one, for example with --model openai-chat:NAME or OUTRIDER_MODEL."
    )
    return ModelChoice("openai-chat:", reason, problem)


def _missing_package(provider: ModelProvider) -> str | None:
    with suppress(ImportError, ValueError):
        if provider.module is None or find_spec(provider.module) is not None:
            return None
    return f"{provider.name} models need a package that isn't installed. Run {_install(provider)}."


def _install(provider: ModelProvider) -> str:
    return f"`pip install 'pydantic-ai-slim[{provider.extra}]'`"
