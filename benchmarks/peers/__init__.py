"""One driver for each peer; it runs in the peer's own environment and is told what to do by lines.

A driver is told `{"op": "delegate", "tasks": [...]}` and answers with the time at which each task
was handed over, the time at which its answer was there, and the answer. See `protocol`.
"""
