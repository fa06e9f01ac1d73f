"""The report `lsp`: the language servers that children can ask, and the settings for them."""

from argparse import Namespace
from typing import Any

from outrider.delegation.project import Project, open_project
from outrider.settings.layers import effective
from outrider.surfaces.parser import CommandParser
from outrider.surfaces.reports.report import Column, Report, Section, warnings_of
from outrider.surfaces.text import as_text
from outrider.tools.lsp.servers import Server, Surroundings, configured, program_for

EXAMPLES = "examples:\n  outrider lsp\n  outrider lsp --json\n"
COLUMNS = (
    Column("language", colour="dim"),
    Column("server", "name", "cyan"),
    Column("is", lambda row: "on" if row["on"] else "off"),
    Column("why"),
)
SETTINGS = (Column("setting", colour="cyan"), Column("value", lambda row: as_text(row["value"])))

configure = CommandParser.add_cwd


def report(arguments: Namespace) -> Report:
    """Return the language servers."""
    project = open_project(arguments.cwd)
    servers = language_servers(project)
    settings = [
        {"setting": key.name, "value": value}
        for key, value in effective(project.config)
        if "lsp" in key.name.lower()
    ]
    sections = (Section(COLUMNS, servers, wraps=True), Section(SETTINGS, settings))
    data = {"servers": servers, "settings": settings}
    return Report("Language servers", data, sections, warnings_of(project.settings.warnings))


def language_servers(project: Project) -> list[dict[str, Any]]:
    """Return each language server: its `language` and `name`, whether it is `on`, and `why`."""
    return [
        {
            "language": program.language,
            "name": program.name,
            "on": project.config.lsp.enabled and program.path is not None,
            "why": (program.path or program.problem)
            if project.config.lsp.enabled
            else "lsp.enabled is off",
        }
        for program in programs(project)
    ]


def programs(project: Project) -> list[Server]:
    """Return the program of each language server, or why there is none."""
    around = Surroundings.of(project.folder, project.plain_env, trusted=project.trusted)
    return [program_for(server, around) for server in configured(project.config.lsp)]
