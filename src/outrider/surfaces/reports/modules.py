"""The report `modules`: which tools, providers, servers and hosts are on, and why."""

import os
from argparse import Namespace
from collections.abc import Iterable, Iterator
from dataclasses import replace

from outrider.agents.definitions import Source
from outrider.agents.discovery import general_agent
from outrider.delegation.project import Project, open_project
from outrider.models.catalogue import PROVIDERS
from outrider.models.resolution import (
    ModelChoice,
    choose_model,
    is_embedded,
    needs,
    provider_environment,
)
from outrider.protocol.catalogue import CATALOGUE
from outrider.records.activity import host_and_path
from outrider.settings.keys import SEARCH_PROVIDERS, Config
from outrider.surfaces.parser import CommandParser
from outrider.surfaces.reports.lsp import language_servers
from outrider.surfaces.reports.report import Column, Report, Section, warnings_of
from outrider.tools.documents.conversion import INSTALL, is_installed
from outrider.tools.loading import load_tools
from outrider.tools.web.providers import PROVIDERS as SEARCHES

EXAMPLES = """\
examples:
  outrider modules
  outrider modules --json | jq -r '.modules[] | select(.on) | .name'
"""
States = Iterable[tuple[str, bool, str]]
"""What there is: its name, whether it is on, and why."""
COLUMNS = (
    Column("kind", colour="dim"),
    Column("name", colour="cyan"),
    Column("is", lambda row: "on" if row["on"] else "off"),
    Column("why"),
)

configure = CommandParser.add_cwd


def report(arguments: Namespace) -> Report:
    """Return what is on here."""
    project = open_project(arguments.cwd)
    kinds: dict[str, States] = {
        "tools": _tools(project),
        "search": [(name, *search_state(name, project.config)) for name in SEARCH_PROVIDERS],
        "models": _models(project),
        "servers": [(one["name"], one["on"], one["why"]) for one in language_servers(project)],
        "converter": [("markitdown", *converter_state(project.config))],
        "hosts": [("none", False, "this version connects to no host")],
    }
    rows = [
        {"kind": kind, "name": name, "on": on, "why": why}
        for kind, states in kinds.items()
        for name, on, why in states
    ]
    notes = warnings_of(project.settings.warnings)
    return Report("Modules", {"modules": rows}, (Section(COLUMNS, rows, wraps=True),), notes)


def _tools(project: Project) -> States:
    """Yield every tool, as an agent of the user's gets it that lists them all."""
    own, problems = load_tools(project.config.tools.modules)
    names = (*CATALOGUE, *(tool.name for tool in own))
    agent = replace(general_agent(), tools=names, readonly=False, source=Source.USER)
    given, _ = project.permit(agent, interactive=True)
    withheld = {one.tool: one.reason for one in given.withheld}
    for name in names:
        on = "built in" if name in CATALOGUE else "a tool of your own"
        yield name, name not in withheld, withheld.get(name, on)
    for problem in problems:
        yield "?", False, problem


def search_state(name: str, config: Config) -> tuple[bool, str]:
    """Return whether a search provider is asked, and why."""
    provider, web = SEARCHES[name], config.web
    if provider.missing(os.environ, web.endpoints):
        return False, f"not used: {provider.variable} is not set"
    if not web.enabled:
        return False, "not used: web.enabled is off"
    if web.provider not in ("auto", name):
        return False, f"not used: web.provider is {web.provider}"
    if web.provider == "auto" and name not in web.provider_priority:
        return False, "not used: web.providerPriority doesn't name it"
    if address := web.endpoints.get(name):
        return True, f"it is at {host_and_path(address)}"
    return True, f"{provider.variable} is set" if provider.variable else "needs no key"


def model_choices(project: Project) -> Iterator[tuple[str, ModelChoice]]:
    """Yield the model that answers here, and what each other provider with a key would use."""
    chosen = project.choice()
    yield "model", chosen
    seen = set(needs(chosen.model))
    for name, provider in PROVIDERS.items():
        env = provider_environment(f"{name}:", project.env)
        key = next((key for key in provider.keys if key in env and key not in seen), None)
        if key is None:
            continue
        seen.add(key)
        choice = choose_model(
            flag=None, agent=None, configured=None, env=env, local_servers=lambda *_: None
        )
        if is_embedded(choice.model):
            problem = choice.reason if provider.default else "it has no default model: name one"
            choice = ModelChoice(f"{name}:", f"{key} is set", problem)
        yield f"model provider {name}", choice


def _models(project: Project) -> States:
    for title, choice in model_choices(project):
        answers = "it answers: " if title == "model" else ""
        yield choice.shown, not choice.problem, choice.problem or f"{answers}{choice.reason}"


def converter_state(config: Config) -> tuple[bool, str]:
    """Return whether documents can be converted, and why."""
    if not is_installed():
        return False, f"not installed; {INSTALL} lets children read PDF and Office files"
    if not config.convert.enabled:
        return False, "convert.enabled is off"
    return True, "it is installed"
