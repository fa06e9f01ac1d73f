"""`outrider warm`: the fork servers that make the next `outrider run` start in milliseconds."""

import os
import time
from argparse import Namespace
from typing import Any

from outrider.runtimes.native.fork_client import UserForkServer
from outrider.surfaces.parser import bad_call, flag
from outrider.surfaces.terminal import output
from outrider.surfaces.text import count, duration

EXAMPLES = """\
'outrider run' leaves a warm process behind so that the next run starts faster.
Each kind of model has its own. It holds no key and no task, and ends after
warm.keepMinutes (10; 0 for none).

examples:
  outrider warm --status
  outrider warm --stop
  outrider run explorer "…" --no-warm
"""
ARGUMENTS = (
    flag("--status", "show those that are running"),
    flag("--stop", "stop them; running tasks continue"),
)


def execute(arguments: Namespace) -> None:
    if arguments.status == arguments.stop:
        raise bad_call("give either --status or --stop", "warm")
    servers = UserForkServer(os.environ, minutes=0)
    if arguments.stop:
        stopped = servers.stop()
        record, words = {"stopped": stopped}, "stopped." if stopped else "none was running."
    else:
        running = servers.status()
        record = {"warm": bool(running), "processes": running}
        words = "\n".join(map(_described, running)) or "none is running."
    output.write_json(record) if arguments.json else output.write_clean(f"{words}\n")


def _described(status: dict[str, Any]) -> str:
    age = duration((time.time() - status["startedAt"]) * 1000)
    begun = count(status["served"], "run")
    return f"process {status['pid']} for {status['loads']}, up for {age}, {begun} started."
