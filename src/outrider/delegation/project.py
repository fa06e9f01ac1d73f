"""A folder as delegation sees it: its settings, agents, trust and permits, worked out in one place.

The command line, delegation and every other surface ask here. A host that delegates again and
again pays for it once: what was read is kept until one of the files and folders that it depends on
changes.
"""

import os
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from outrider.agents.definitions import NATIVE, AgentDefinition, Source
from outrider.agents.discovery import Discovery, discover
from outrider.agents.permissions import Permit, permit
from outrider.agents.trust import Clearance, is_trusted, may_run, trust_in
from outrider.delegation.request import working_directory
from outrider.masking import Masker, secret_environment_values, without_secrets
from outrider.models.local_servers import LocalServer, probe_local_servers
from outrider.models.resolution import ModelChoice, other_choices
from outrider.models.wires import wire_of
from outrider.protocol.data import frozen, to_json
from outrider.protocol.tool_catalogue import CATALOGUE, is_own
from outrider.runtimes.capabilities import runtime_kind
from outrider.settings import places
from outrider.settings.files import load_settings
from outrider.settings.keys import Config
from outrider.settings.layers import Settings

MAX_KEPT_PROJECTS = 8
PROBED_SECONDS = 1.0
"""How long the answer of a probe for local servers counts."""
SETTLED_SECONDS = 2.0
"""How old a change must be: within a clock tick, another one would leave the same time stamp."""


@lru_cache(maxsize=8)
def _without_secrets(secrets: tuple[str, ...], text: str) -> str:
    return Masker(secrets=secrets, only_secrets=True).text(text)


@frozen
class Project:
    """A folder with its settings and agents, for one environment."""

    folder: Path
    name: str
    """How records name it."""
    env: Mapping[str, str]
    settings: Settings
    discovery: Discovery
    masker: Masker
    """Masks the secrets of this environment, and paths of this folder and of HOME."""
    plain_env: Mapping[str, str]
    """The environment without its secrets."""
    child_env: Mapping[str, str]
    """What every child gets of it."""
    trusted: bool
    """Whether the user's own settings trust the repository."""

    @property
    def config(self) -> Config:
        return self.settings.config

    def without_secrets(self, text: str) -> str:
        """Return a text with its secrets masked, and paths as they are."""
        return _without_secrets(self.masker.secrets, text)

    def with_modules(self, modules: Iterable[str]) -> "Project":
        tools = replace(self.config.tools, modules=(*self.config.tools.modules, *modules))
        config = replace(self.config, tools=tools)
        return replace(self, settings=replace(self.settings, config=config))

    def permit(
        self, agent: AgentDefinition, *, interactive: bool
    ) -> tuple[Permit, tuple[str, ...]]:
        """Return the tools that `agent` gets here, and what is wrong with the user's own tools."""
        tools, problems, modules = CATALOGUE, (), self.config.tools.modules
        if modules or not all(map(is_own, agent.tools or ())):
            from outrider.tools.loading import load_tools

            own, problems = load_tools(modules)
            tools = {**{tool.name: tool.entry for tool in own}, **CATALOGUE}
        trust = trust_in(self.config, trusted=self.trusted, interactive=interactive)
        given = permit(agent, self.config, trust=trust, tools=tools)
        return runtime_kind(agent.runtime).permit(given), tuple(problems)

    def clearance(
        self, agent: AgentDefinition, given: Permit, *, interactive: bool
    ) -> tuple[Clearance, str]:
        """Return whether `agent` may run here with the tools it is `given`, and why."""
        answer = may_run(agent, self.config, trusted=self.trusted, interactive=interactive)
        if answer[0] is not Clearance.REFUSE and given.lacks_all_tools:
            reasons = "; ".join(f"{one.tool}: {one.reason}" for one in given.withheld)
            return Clearance.REFUSE, f"{agent.name} gets none of the tools it lists ({reasons})"
        return answer

    def choice(self, agent: AgentDefinition | None = None, flag: str | None = None) -> ModelChoice:
        """Return the model that answers for `agent`, or for one that names none."""
        named = agent.model if agent else None
        found = runtime_kind(agent.runtime if agent else NATIVE).choose_model(
            flag=flag,
            agent=named,
            configured=self.config.model,
            env=self.env,
            local_servers=_probe_once_a_moment,
        )
        origin = self.settings.origins.get("model", "user")
        if found.reason != "configuration" or origin.startswith("user"):
            return found
        return replace(found, reason="flag" if origin.startswith(("-", "flag")) else origin)

    def wire(self, choice: ModelChoice) -> str:
        return wire_of(choice.model, choice.environment(self.env), self.config.models.wire)

    def choices(self) -> list[ModelChoice]:
        """Return the model that answers, and what each other provider with a key would use."""
        chosen = self.choice()
        return [chosen, *other_choices(chosen, self.env)]

    def about(self, agent: AgentDefinition) -> dict[str, Any]:
        """Return what a listing tells of an agent: what it is for, and what it gets here."""
        given, choice = self.permit(agent, interactive=True)[0], self.choice(agent)
        clearance, reason = self.clearance(agent, given, interactive=True)
        return {
            "name": agent.name,
            "source": agent.source,
            "path": agent.path,
            "description": agent.description,
            "readonly": given.readonly,
            "tools": list(given.tools),
            "withheld": to_json(given.withheld),
            "model": choice.shown,
            "modelReason": choice.reason,
            "modelProblem": choice.problem,
            "outputSchema": agent.output_schema,
            "mayRun": clearance,
            "mayRunReason": reason,
        }


def open_project(
    folder: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    flags: Mapping[str, object] | None = None,
) -> Project:
    """Return what is known of a folder (the current one) in an environment (this process's).

    `flags` are settings by their dotted names. Raises `Refusal` where the settings or the folder
    can't be used.
    """
    folder = working_directory(folder)
    env = dict(os.environ) if env is None or env is os.environ else env
    key = (str(folder), repr(flags))
    kept, stamps = _kept.get(key) or (None, {})
    if kept is None or kept.env != env or stamps != _stamps(stamps):
        kept = _read(folder, dict(env), load_settings(folder, env, flags))
        _keep(key, kept)
    return _opened(kept)


def project_with(folder: Path, env: Mapping[str, str], settings: Settings) -> Project:
    """Return what is known of `folder` under these settings."""
    return _opened(_read(folder, dict(env), settings))


def _read(folder: Path, env: Mapping[str, str], settings: Settings) -> Project:
    secrets, plain = secret_environment_values(env), without_secrets(env)
    # A proxy may ask for a password, and be the only way to the provider.
    proxies = {name: value for name, value in env.items() if name.lower().endswith("_proxy")}
    kept = {name: value for name, value in plain.items() if not name.startswith("OUTRIDER_")}
    if env.get("OUTRIDER_HOME"):  # a nested run is recorded where this one is
        kept["OUTRIDER_HOME"] = str(places.state_home(env))
    return Project(
        folder=folder,
        name=places.project_name(folder, env),
        env=env,
        settings=settings,
        discovery=discover(folder, env),
        masker=Masker(project=str(folder), home=str(places.home(env)), secrets=secrets),
        plain_env=plain,
        child_env=kept | proxies,
        trusted=False,
    )


def _opened(read: Project) -> Project:
    """Return a project with what can change without any file of it changing."""
    return replace(read, trusted=is_trusted(read.folder, read.env, read.config))


_probed: dict[tuple[Any, ...], tuple[float, LocalServer | None]] = {}


def _probe_once_a_moment(*asked: Any) -> LocalServer | None:
    """Return what a probe found: one is enough for many agents, or for calls that come at once."""
    at, found = _probed.get(asked, (-PROBED_SECONDS, None))
    if time.monotonic() - at >= PROBED_SECONDS:
        found = probe_local_servers(*asked)
        _probed[asked] = time.monotonic(), found
    return found


Stamps = dict[tuple[str, bool], tuple[int, ...]]
"""The state of paths: whose each is and, where that is said to count, when it changed."""
_kept: dict[tuple[str, str], tuple[Project, Stamps]] = {}


def _keep(key: tuple[str, str], project: Project) -> None:
    """Keep a project, if its last change was long enough ago to be told from the next one."""
    _kept.pop(key, None)
    stamps = _stamps(_dependencies(project))
    changes = [stamp[3] for stamp in stamps.values() if len(stamp) > 3]
    if time.time_ns() - max(changes, default=0) > SETTLED_SECONDS * 1e9:
        _kept[key] = project, stamps
        for oldest in list(_kept)[:-MAX_KEPT_PROJECTS]:
            _kept.pop(oldest, None)


def _dependencies(project: Project) -> Iterator[tuple[str, bool]]:
    """Yield what a project was read from, and whether its content counts or only whose it is."""
    folder, env, discovery = project.folder, project.env, project.discovery
    for level in places.agent_levels(folder, env):
        yield str(level), False
        yield str(level / ".git"), False
        yield from ((str(path), True) for path in places.project_files(level))
    yield str(places.user_config_file(env)), True
    yield from ((str(path), True) for path in places.user_agent_folders(env))
    for agent in (*discovery.agents.values(), *discovery.shadowed):
        if agent.source is not Source.BUILTIN:
            yield agent.path, True
            yield agent.output_schema or agent.path, True
    yield from ((note.path, True) for note in discovery.diagnostics)


def _stamps(paths: Iterable[tuple[str, bool]]) -> Stamps:
    """Return the state of paths now; nothing is known of one that isn't there."""
    found: Stamps = {}
    for path, whole in paths:
        try:
            state = os.stat(path)
        except OSError:
            found[path, whole] = ()
            continue
        owner = (state.st_dev, state.st_ino, state.st_uid)
        change = (state.st_ctime_ns, state.st_mtime_ns, state.st_size) if whole else ()
        found[path, whole] = owner + change
    return found
