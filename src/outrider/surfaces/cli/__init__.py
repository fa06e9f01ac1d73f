"""The command line: a module for each command, with `EXAMPLES`, `configure` and `execute`.

`execute` returns the exit code; None stands for 0.
"""
