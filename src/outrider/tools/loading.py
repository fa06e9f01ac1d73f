"""Which tools there are: ours, and those of the user's packages and configured modules."""

from collections.abc import Sequence
from functools import cache
from importlib import import_module, metadata

from outrider.protocol.tool_catalogue import CATALOGUE, is_own
from outrider.tools.registry import Tool, collect_tools

ENTRY_POINT_GROUP = "outrider.tools"


@cache
def builtin_tools() -> tuple[Tool, ...]:
    """Return the tools that every installation has, in the catalogue's order."""
    modules = dict.fromkeys(entry.module for entry in CATALOGUE.values())
    return tuple(collect_tools([import_module(module) for module in modules]))


def load_tools(modules: Sequence[str]) -> tuple[list[Tool], list[str]]:
    """Return the user's tools that load, and what is wrong with those that don't."""
    tools: dict[str, Tool] = {}
    problems: list[str] = []
    group = ENTRY_POINT_GROUP
    named = [(one, f"the entry point {one.name}") for one in metadata.entry_points(group=group)]
    # What `tools.modules` names may be a function too, and is loaded like an entry point.
    named += [(metadata.EntryPoint(name, name, group), "tools.modules") for name in modules]
    for point, where in named:
        title = f"{point.value} of {where}"
        try:
            found = collect_tools(point.load())
        except (Exception, SystemExit) as fault:  # foreign code, which may do anything
            problems.append(f"{title} can't be loaded: {type(fault).__name__}: {fault}")
            continue
        if not found:
            problems.append(f"{title} has no tools: decorate its functions with @tool")
        for one in found:
            if is_own(one.name):
                problems.append(f"{title} defines {one.name!r}, a built-in name: rename it")
            elif tools.setdefault(one.name, one) is not one:
                problems.append(f"{title} defines {one.name!r} again: the first one is used")
    return list(tools.values()), problems
