"""The tools that every installation has."""

from functools import cache
from importlib import import_module

from outrider.protocol.catalogue import CATALOGUE
from outrider.tools.registry import Tool, collect_tools


@cache
def builtin_tools() -> tuple[Tool, ...]:
    """Return the tools of all modules that the catalogue names, in its order."""
    modules = dict.fromkeys(entry.module for entry in CATALOGUE.values() if entry.module)
    return tuple(collect_tools([import_module(module) for module in modules]))
