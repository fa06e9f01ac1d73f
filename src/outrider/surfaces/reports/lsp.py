"""The report `lsp`: the language servers that children can ask, and the settings for them."""

from argparse import Namespace
from collections.abc import Iterator

from outrider.delegation.project import Project, open_project
from outrider.settings.layers import effective
from outrider.surfaces.parser import CWD
from outrider.surfaces.table import Column, Report, Row, Table
from outrider.surfaces.text import as_text, warnings_of
from outrider.tools.lsp.known_servers import ServerDescription, configured, program_for
from outrider.workspaces.trusted_programs import TrustedPrograms

EXAMPLES = "examples:\n  outrider lsp\n  outrider lsp --json\n"
ARGUMENTS = (CWD,)
COLUMNS = (
    Column("language", colour="dim"),
    Column("server", "name", "cyan"),
    Column("is", lambda row: "on" if row["on"] else "off"),
    Column("why"),
)
SETTINGS = (Column("setting", colour="cyan"), Column("value", lambda row: as_text(row["value"])))


def report(arguments: Namespace) -> Report:
    project = open_project(arguments.cwd)
    servers = [row for row, _ in language_servers(project)]
    values = ({"setting": key.name, "value": value} for key, value in effective(project.config))
    settings = [one for one in values if "lsp" in one["setting"].lower()]
    tables = Table(COLUMNS, servers, wraps=True), Table(SETTINGS, settings)
    data = {"servers": servers, "settings": settings}
    return Report(data, tables, warnings_of(project.settings.warnings))


def language_servers(project: Project) -> Iterator[tuple[Row, ServerDescription]]:
    """Yield each language server, whether it is on and why, and its program."""
    programs = TrustedPrograms.around(project.folder, project.plain_env, trusted=project.trusted)
    off = "" if project.config.lsp.enabled else "lsp.enabled is off"
    for server in configured(project.config.lsp):
        program = program_for(server, programs)
        on, why = not off and program.path is not None, off or program.path or program.problem
        yield {"language": server.language, "name": server.name, "on": on, "why": why}, program
