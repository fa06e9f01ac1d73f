"""The tools that every installation has."""

from outrider.tools.registry import Tool, collect_tools


def builtin_tools() -> list[Tool]:
    """Return the tools for files and the shell."""
    from outrider.tools import files, shell

    return [*collect_tools(files), *collect_tools(shell)]
