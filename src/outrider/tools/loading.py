"""Which tools there are: ours, and those of the user's packages and configured modules."""

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib import import_module, metadata

from outrider.protocol.catalogue import CATALOGUE, is_own
from outrider.tools.registry import Tool, collect_tools

ENTRY_POINT_GROUP = "outrider.tools"


@cache
def builtin_tools() -> tuple[Tool, ...]:
    """Return the tools that every installation has, in the catalogue's order."""
    modules = dict.fromkeys(entry.module for entry in CATALOGUE.values() if entry.module)
    return tuple(collect_tools([import_module(module) for module in modules]))


def load_tools(modules: Sequence[str]) -> tuple[list[Tool], list[str]]:
    """Return the user's tools that load, and what is wrong with those that don't."""
    tools: dict[str, Tool] = {}
    problems: list[str] = []
    for title, load in _sources(modules):
        try:
            found = collect_tools(load())
        except (Exception, SystemExit) as fault:  # foreign code, which may do anything
            problems.append(f"{title} can't be loaded: {type(fault).__name__}: {fault}")
            continue
        if not found:
            problems.append(f"{title} has no tools: decorate its functions with @tool")
        for one in found:
            if is_own(one.name):
                named = f"brings a tool called {one.name!r}"
                problems.append(f"{title} {named}, a name of ours: give it another")
            elif tools.setdefault(one.name, one) is not one:
                named = f"brings a second tool called {one.name!r}"
                problems.append(f"{title} {named}: the first one is kept")
    return list(tools.values()), problems


def _sources(modules: Sequence[str]) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield what a problem calls a source, and what loads it."""
    for one in metadata.entry_points(group=ENTRY_POINT_GROUP):
        yield f"the entry point {one.name} = {one.value}", one.load
    for name in modules:
        found = metadata.EntryPoint(name, name, ENTRY_POINT_GROUP)  # may name a function too
        yield f"the module {name} of tools.modules", found.load
