"""`outrider warm`: the fork server that makes the next `outrider run` start in milliseconds."""

import os
import time
from argparse import Namespace

from outrider.runtimes.native.fork_client import UserForkServer
from outrider.surfaces.parser import bad_call, flag
from outrider.surfaces.terminal import output
from outrider.surfaces.text import count, duration

EXAMPLES = """\
'outrider run' leaves a warm process behind so that the next run starts faster.
It holds no key and no task, and ends after warm.keepMinutes (10; 0 for none).

examples:
  outrider warm --status
  outrider warm --stop
  outrider run explorer "…" --no-warm
"""
ARGUMENTS = (
    flag("--status", "show whether one is running"),
    flag("--stop", "stop it; running tasks continue"),
)


def execute(arguments: Namespace) -> None:
    """Show the warm process, or stop it."""
    if arguments.status == arguments.stop:
        raise bad_call("give either --status or --stop", "warm")
    server = UserForkServer(os.environ, minutes=0)
    if arguments.stop:
        stopped = server.stop()
        record, words = {"stopped": stopped}, "stopped." if stopped else "none was running."
    elif status := server.status():
        age = duration((time.time() - status["startedAt"]) * 1000)
        record = {"warm": True, **status}
        words = f"process {status['pid']}, up for {age}, {count(status['served'], 'run')} started."
    else:
        record, words = {"warm": False}, "none is running."
    output.write_json(record) if arguments.json else output.write_clean(f"{words}\n")
