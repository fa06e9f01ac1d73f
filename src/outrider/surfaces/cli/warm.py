"""`outrider warm`: the fork server that makes the next `outrider run` start in milliseconds."""

import os
import time
from argparse import Namespace

from outrider.runtimes.native.fork_server import UserForkServer
from outrider.surfaces.parser import argument, bad_call
from outrider.surfaces.terminal import output
from outrider.surfaces.text import duration

EXAMPLES = """\
'outrider run' leaves a warm process of yours behind, for as many minutes as the
setting warm.keepMinutes says (10; 0 for none). It holds no key and no task.

examples:
  outrider warm --status
  outrider warm --stop
  outrider run explorer "…" --no-warm
"""
ARGUMENTS = (
    argument("--status", action="store_true", help="show whether there is one"),
    argument("--stop", action="store_true", help="stop it; running tasks go on"),
)


def execute(arguments: Namespace) -> None:
    """Show the warm process, or stop it."""
    if arguments.status == arguments.stop:
        raise bad_call("give either --status or --stop", "warm")
    server = UserForkServer(os.environ, minutes=0)
    if arguments.stop:
        stopped = server.stop()
        record, words = {"stopped": stopped}, "stopped." if stopped else "there was none."
    elif status := server.status():
        age = duration((time.time() - status["startedAt"]) * 1000)
        record = {"warm": True, **status}
        words = f"process {status['pid']} is warm, {age} old, and has started {status['served']}."
    else:
        record, words = {"warm": False}, "there is none."
    output.write_json(record) if arguments.json else output.write_clean(f"{words}\n")
