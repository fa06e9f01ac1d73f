"""The tools that every installation has."""

from functools import cache

from outrider.tools.registry import Tool, collect_tools


@cache
def builtin_tools() -> tuple[Tool, ...]:
    """Return the tools for files and the shell."""
    from outrider.tools import files, shell

    return (*collect_tools(files), *collect_tools(shell))
