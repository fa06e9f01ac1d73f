"""Tools that people bring: from packages, and from the modules their configuration names."""

import importlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import metadata

from outrider.protocol.catalogue import is_own
from outrider.tools.registry import Tool, collect_tools

GROUP = "outrider.tools"
Source = tuple[str, Callable[[], object]]
"""What a problem calls it, and what loads it."""


def load_tools(
    modules: Sequence[str], *, entry_points: bool = True
) -> tuple[list[Tool], list[str]]:
    """Return the tools that load, and what is wrong with those that don't."""
    tools: dict[str, Tool] = {}
    problems: list[str] = []
    for title, load in _sources(modules, entry_points=entry_points):
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


def _sources(modules: Sequence[str], *, entry_points: bool) -> Iterator[Source]:
    for one in metadata.entry_points(group=GROUP) if entry_points else ():
        yield f"the entry point {one.name} = {one.value}", one.load
    for name in modules:
        yield f"the module {name} of tools.modules", partial(importlib.import_module, name)
