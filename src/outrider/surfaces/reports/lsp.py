"""The report `lsp`: the language servers that children can ask."""

from argparse import Namespace
from typing import Any

from outrider.surfaces.parser import CommandParser
from outrider.surfaces.reports.report import Column, Report, Section

EXAMPLES = "examples:\n  outrider lsp\n  outrider lsp --json\n"
COLUMNS = (
    Column("server", "name", "cyan"),
    Column("is", lambda row: "on" if row["on"] else "off"),
    Column("why"),
)

configure = CommandParser.add_cwd


def report(arguments: Namespace) -> Report:
    """Return the language servers."""
    servers = language_servers()
    notes = () if servers else ("this version of Outrider knows no language server.",)
    return Report("Language servers", {"servers": servers}, (Section(COLUMNS, servers),), notes)


def language_servers() -> list[dict[str, Any]]:
    """Return each language server: its `name`, whether it is `on`, and `why`."""
    return []
