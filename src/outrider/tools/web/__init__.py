"""Searching the web and reading pages, safe to hand to a model that reads hostile ones."""
