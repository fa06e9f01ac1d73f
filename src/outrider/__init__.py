"""Delegate one focused task to a child agent in its own process."""

__version__ = "0.1.0"
