"""Ranked search: the places in a tree that a question is about, without an index."""
