"""Where a child's files are: `workspace` is the interface of tools, `path_guard` a real folder.

A workspace decides which paths may be used, opens what it decided on, and replaces files.
"""
