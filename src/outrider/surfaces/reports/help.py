"""The report `help`: the commands with a line each."""

from argparse import Namespace
from collections.abc import Mapping

from outrider.surfaces.parser import argument
from outrider.surfaces.reports import REPORTS
from outrider.surfaces.table import Column, Report, Table

EXAMPLES = "examples:\n  outrider help\n  outrider help run\n"
ARGUMENTS = (argument("name", metavar="COMMAND", nargs="?", help="show the help for COMMAND"),)
COLUMNS = (Column(entry="name", colour="cyan"), Column(entry="summary"))


def report(arguments: Namespace, commands: Mapping[str, str] = REPORTS) -> Report:
    rows = [{"name": name, "summary": summary} for name, summary in commands.items()]
    return Report({"commands": rows}, (Table(COLUMNS, rows, wraps=True),))
