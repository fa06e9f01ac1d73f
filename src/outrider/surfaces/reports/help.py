"""The report `help`: the commands with a line each."""

from argparse import Namespace
from collections.abc import Mapping

from outrider.surfaces.parser import CommandParser
from outrider.surfaces.reports import REPORTS
from outrider.surfaces.reports.report import Column, Report, Section

EXAMPLES = "examples:\n  outrider help\n  outrider help run\n"
GROUPS = {"": REPORTS}
COLUMNS = (Column(entry="name", colour="cyan", least=10), Column(entry="summary"))


def configure(parser: CommandParser) -> None:
    """Declare the arguments of `help`; that of a command is answered by the command itself."""
    parser.add_argument("name", metavar="COMMAND", nargs="?", help="show the help of this one")


def report(arguments: Namespace, groups: Mapping[str, Mapping[str, str]] = GROUPS) -> Report:
    """Return the commands with a line each: the reports, or those of another surface in groups."""
    rows = {
        title: [{"name": name, "summary": summary} for name, summary in group.items()]
        for title, group in groups.items()
    }
    sections = tuple(Section(COLUMNS, group, title, wraps=True) for title, group in rows.items())
    return Report("Help", {"commands": [row for group in rows.values() for row in group]}, sections)
