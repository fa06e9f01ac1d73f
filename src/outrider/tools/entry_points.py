"""Tools that people bring: from packages, and from the modules their configuration names."""

import importlib
from collections.abc import Callable, Sequence
from importlib import metadata

from outrider.protocol.catalogue import is_own
from outrider.tools.registry import Tool, collect_tools

GROUP = "outrider.tools"


def load_tools(
    modules: Sequence[str], *, entry_points: bool = True
) -> tuple[list[Tool], list[str]]:
    """Return the tools that load, and what is wrong with those that don't."""
    tools: dict[str, Tool] = {}
    problems: list[str] = []
    for title, load in [*(_packaged() if entry_points else []), *_named(modules)]:
        try:
            found = collect_tools(load())
        except (Exception, SystemExit) as fault:  # foreign code, which may do anything
            problems.append(f"{title} can't be loaded: {type(fault).__name__}: {fault}")
            continue
        if not found:
            problems.append(f"{title} has no tools: decorate its functions with @tool")
        for one in found:
            _add(tools, one, title, problems)
    return list(tools.values()), problems


def _add(tools: dict[str, Tool], one: Tool, title: str, problems: list[str]) -> None:
    if is_own(one.name):
        problems.append(
            f"{title} brings a tool called {one.name!r}, a name of ours: give it another"
        )
    elif one.name in tools:
        problems.append(f"{title} brings a second tool called {one.name!r}: the first one is kept")
    else:
        tools[one.name] = one


def _packaged() -> list[tuple[str, Callable[[], object]]]:
    found = metadata.entry_points(group=GROUP)
    return [(f"the entry point {one.name} = {one.value}", one.load) for one in found]


def _named(modules: Sequence[str]) -> list[tuple[str, Callable[[], object]]]:
    return [
        (f"the module {name} of tools.modules", lambda name=name: importlib.import_module(name))
        for name in modules
    ]
