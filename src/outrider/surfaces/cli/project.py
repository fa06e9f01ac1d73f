"""What the commands know of the folder they work in: its settings, agents, tools and models."""

import os
from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from outrider.agents.definitions import AgentDefinition
from outrider.agents.discovery import Discovery, discover
from outrider.agents.permissions import Permit, Trust, Verdict, is_trusted, may_run, permit
from outrider.delegation import request
from outrider.delegation.preparation import own_tools
from outrider.models.local_servers import LocalServer, probe_local_servers
from outrider.models.resolution import ModelChoice, choose_model
from outrider.settings.files import load_settings
from outrider.settings.layers import Settings
from outrider.settings.places import home, project_root


def folder_of(arguments: Namespace) -> Path:
    """Return the folder to work in; raises `Refusal`."""
    return request.working_directory(None if arguments.cwd is None else Path(arguments.cwd))


@dataclass(frozen=True, slots=True)
class Project:
    """A folder with its settings and agents."""

    folder: Path
    settings: Settings
    discovery: Discovery
    trusted: bool
    local_servers: Callable[[], LocalServer | None]

    def permit(self, agent: AgentDefinition) -> Permit:
        """Return the tools that `agent` would get here."""
        config = self.settings.config
        return permit(agent, config, Trust(self.trusted), own_tools(agent, config))

    def verdict(self, agent: AgentDefinition) -> tuple[Verdict, str]:
        """Return whether `agent` may run here for a person who can be asked, and why."""
        return may_run(agent, self.settings.config, trusted=self.trusted, interactive=True)

    def choice(self, agent: AgentDefinition | None = None) -> ModelChoice:
        """Return the model that would answer for `agent`, or for one that names none."""
        return choose_model(
            flag=None,
            agent=agent.model if agent else None,
            configured=self.settings.config.model,
            env=os.environ,
            local_servers=self.local_servers,
        )


def open_project(folder: Path, settings: Settings | None = None) -> Project:
    """Return what is known of `folder`; raises `Refusal` where the settings can't be used."""
    settings = load_settings(folder, os.environ) if settings is None else settings
    root = project_root(folder, os.environ)
    return Project(
        folder=folder,
        settings=settings,
        discovery=discover(folder, os.environ),
        trusted=is_trusted(root, settings.config, home=home(os.environ)),
        local_servers=cache(probe_local_servers),  # asked once, however many agents there are
    )
