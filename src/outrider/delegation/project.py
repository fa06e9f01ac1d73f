"""A folder as delegation sees it: its settings, agents, trust and permits, worked out in one place.

The command line, delegation and every other surface ask here.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from outrider.agents.definitions import AgentDefinition
from outrider.agents.discovery import Discovery, discover
from outrider.agents.permissions import Clearance, Permit, is_trusted, may_run, permit
from outrider.models.local_servers import LocalServer, probe_local_servers
from outrider.models.resolution import ModelChoice, choose_model
from outrider.protocol.catalogue import CATALOGUE, CatalogueEntry, is_own
from outrider.settings.files import load_settings
from outrider.settings.keys import Config
from outrider.settings.layers import Settings
from outrider.settings.places import home, project_root


@dataclass(frozen=True, slots=True)
class Project:
    """A folder with its settings and agents, for one environment."""

    folder: Path
    env: Mapping[str, str]
    settings: Settings
    discovery: Discovery
    trusted: bool
    """Whether the user's own settings trust the repository."""
    _local_servers: Callable[[], LocalServer | None]

    @property
    def config(self) -> Config:
        """The effective settings."""
        return self.settings.config

    def permit(self, agent: AgentDefinition) -> tuple[Permit, tuple[str, ...]]:
        """Return the tools that `agent` gets here, and what is wrong with the user's own tools."""
        own, problems = self._own_tools(agent)
        tools = {**own, **CATALOGUE}
        return permit(agent, self.config, trusted=self.trusted, tools=tools), problems

    def clearance(self, agent: AgentDefinition, *, interactive: bool) -> tuple[Clearance, str]:
        """Return whether `agent` may run here, and the reason in words."""
        return may_run(agent, self.config, trusted=self.trusted, interactive=interactive)

    def choice(self, agent: AgentDefinition | None = None, flag: str | None = None) -> ModelChoice:
        """Return the model that answers for `agent`, or for one that names none."""
        return choose_model(
            flag=flag,
            agent=agent.model if agent else None,
            configured=self.config.model,
            env=self.env,
            local_servers=self._local_servers,
        )

    def _own_tools(
        self, agent: AgentDefinition
    ) -> tuple[Mapping[str, CatalogueEntry], tuple[str, ...]]:
        """Return the tools of the user's own; looked for only where the agent lists one."""
        if all(is_own(name) for name in agent.tools or ()):
            return {}, ()
        from outrider.tools.entry_points import load_tools

        tools, problems = load_tools(self.config.tools.modules)
        return {tool.name: tool.entry for tool in tools}, tuple(problems)


def open_project(
    folder: Path, env: Mapping[str, str], flags: Mapping[str, object] | None = None
) -> Project:
    """Return what is known of `folder`; raises `Refusal` where its settings can't be used."""
    return project_with(folder, env, load_settings(folder, env, flags))


def project_with(folder: Path, env: Mapping[str, str], settings: Settings) -> Project:
    """Return what is known of `folder` under these settings."""
    root = project_root(folder, env)
    return Project(
        folder=folder,
        env=env,
        settings=settings,
        discovery=discover(folder, env),
        trusted=is_trusted(root, settings.config, home=home(env)),
        _local_servers=cache(probe_local_servers),  # asked once, however many agents there are
    )
