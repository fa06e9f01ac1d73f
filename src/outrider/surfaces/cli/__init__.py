"""The command line: a module for each command, with `EXAMPLES`, `ARGUMENTS` and `execute`.

`execute` returns the exit code; None stands for 0.
"""
