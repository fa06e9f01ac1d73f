"""The warm process with children that enter no walls, and nothing else changed.

`python without_walls.py MODULE ARGUMENTS…` takes the place of `python -m MODULE ARGUMENTS…`.
"""

import sys

from outrider.processes import walls


class NoWalls(walls.Begun):
    """Walls that hold nothing, and take no time."""

    def __init__(self, guardian: object = None) -> None:
        pass

    def finish(self, walls: walls.Walls) -> tuple[str, ...]:
        """Return what the kernel didn't grant: nothing was asked for."""
        return ()


walls.Begun = NoWalls

if __name__ == "__main__":
    from outrider.child.fork_server import main

    main(sys.argv[2:])
