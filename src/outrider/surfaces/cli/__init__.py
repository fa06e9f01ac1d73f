"""The command line: one module for each command, each with `configure` and `execute`."""
