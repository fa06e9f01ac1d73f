"""The command line: a module for each command, whose `execute` returns the exit code or None."""
