"""The command line: a module for each command, with `EXAMPLES`, `configure` and `execute`."""
