"""Reports for every surface: a module for each, with `EXAMPLES`, `ARGUMENTS` and `report`."""

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # who only names the reports loads nothing for them
    from outrider.surfaces.parser import CommandParser
    from outrider.surfaces.table import Report

REPORTS = {
    "agents": "List the agents you can delegate to; show or add one.",
    "models": "List the available models, and which one is used.",
    "runs": "List the recorded runs, newest last, or delete some.",
    "logs": "List searches, fetches, conversions and runs, newest first.",
    "activity": "Show totals for searches, fetches, conversions and runs.",
    "modules": "Show which tools, providers and servers are on, and why.",
    "lsp": "List the language servers, and which are available.",
    "config": "Show every setting and where it comes from, or change one.",
    "doctor": "Check that everything Outrider needs is installed and works.",
    "help": "List the commands.",
}


def parser_for(name: str) -> "CommandParser":
    """Return the parser of a report's arguments; it knows their help and all options."""
    from outrider.surfaces.parser import CommandParser

    return CommandParser(name, REPORTS[name], import_module(f"{__name__}.{name}"))


def report(name: str, words: Sequence[str]) -> "Report":
    """Return a report for arguments as on the command line; raises `Refusal` for bad ones."""
    return import_module(f"{__name__}.{name}").report(parser_for(name).read(words))
