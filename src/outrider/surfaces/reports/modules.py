"""The report `modules`: which tools, providers, servers and hosts are on, and why."""

import os
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import replace

from outrider.agents.definitions import Source
from outrider.agents.discovery import builtin_agent
from outrider.delegation.project import Project, open_project
from outrider.models.resolution import ModelChoice
from outrider.protocol.tool_catalogue import CATALOGUE
from outrider.settings.keys import SEARCH_PROVIDERS
from outrider.surfaces.mcp_hosts import HOSTS
from outrider.surfaces.parser import CWD
from outrider.surfaces.reports.lsp import COLUMNS, language_servers
from outrider.surfaces.table import Column, Report, Row, Table
from outrider.surfaces.text import warnings_of
from outrider.tools.documents.start_converter import converter_state
from outrider.tools.loading import load_tools
from outrider.tools.lsp.known_servers import ServerDescription
from outrider.tools.web.search_providers import PROVIDERS as SEARCHES

EXAMPLES = """\
examples:
  outrider modules
  outrider modules --json | jq -r '.modules[] | select(.on) | .name'
"""
ARGUMENTS = (CWD,)
Subject = ModelChoice | str | ServerDescription | None
"""What can be tried: a model, a search provider, a language server; None is the converter."""


def report(arguments: Namespace) -> Report:
    project = open_project(arguments.cwd)
    rows = [*_tools(project), *(row for row, _ in services(project)), *_hosts()]
    tables = (Table((Column("kind", colour="dim"), *COLUMNS[1:]), rows, wraps=True),)
    return Report({"modules": rows}, tables, warnings_of(project.settings.warnings))


def _row(kind: str, name: str, on: bool, why: str) -> Row:
    return {"kind": kind, "name": name, "on": on, "why": why}


def _tools(project: Project) -> Iterator[Row]:
    """Yield every tool as a user's agent that lists all of them would get it."""
    own, problems = load_tools(project.config.tools.modules)
    names = (*CATALOGUE, *(tool.name for tool in own))
    agent = replace(builtin_agent("general"), tools=names, readonly=False, source=Source.USER)
    withheld = {one.tool: one.reason for one in project.permit(agent, interactive=True)[0].withheld}
    for name in names:
        on = "built in" if name in CATALOGUE else "your own tool"
        yield _row("tools", name, name not in withheld, withheld.get(name, on))
    yield from (_row("tools", "?", False, problem) for problem in problems)


def services(project: Project) -> Iterator[tuple[Row, Subject]]:
    """Yield what agents work with: models, search providers, language servers, the converter."""
    for number, one in enumerate(project.choices()):
        reason = f"{one.reason}, {project.wire(one)} wire"
        why = one.problem or ("" if number else "used by default: ") + reason
        yield _row("models", one.shown, not one.problem, why), one
    for name in SEARCH_PROVIDERS:
        yield _row("search", name, *SEARCHES[name].state(os.environ, project.config.web)), name
    for row, program in language_servers(project):
        yield _row("servers", row["name"], row["on"], row["why"]), program
    yield _row("converter", "markitdown", *converter_state(project.config.convert)), None


def _hosts() -> Iterator[Row]:
    for name, host in HOSTS.items():
        on = bool(host.server(host.path))
        why = f"registered in {host.path}" if on else f"not registered: outrider mcp install {name}"
        yield _row("hosts", host.title, on, why)
