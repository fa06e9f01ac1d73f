"""JSON Schema and JSON arguments: nothing is filled in, guessed or relaxed."""
