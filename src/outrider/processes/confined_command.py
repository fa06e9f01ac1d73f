"""A command on a folder as it would be with a layer over it: behind walls, and in a cell.

`main` is called with a descriptor, and a JSON object that has the fields of the walls, the layer,
what the command may write to, and the command. It ends as the command ends. Where the layer is
mounted it says so to the descriptor, and else it runs nothing.
"""

import json
import os
import sys

from outrider.processes import cell, walls
from outrider.processes.cell import NO_NETWORK

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def main() -> "NoReturn":
    """Confine this process, and run the command."""
    cell.end_with_parent()
    tell, told = int(sys.argv[1]), json.loads(sys.argv[2])
    os.chdir(told["folder"])
    layered = walls.LayeredFolder(told["folder"], told["layer"], names=told["names"])
    walls.enter(walls.Walls(**told["walls"], layered=layered))
    if not layered.kind:
        os._exit(1)
    os.write(tell, b"\n")  # not by an exit code: the command may choose any
    os.close(tell)
    cell.enter_cell(NO_NETWORK, told["writable"])
    cell.run_below(["/bin/sh", "-c", told["command"]])
