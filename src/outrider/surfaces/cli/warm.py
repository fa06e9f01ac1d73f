"""`outrider warm`: the process that makes the next `outrider run` start in milliseconds."""

import os
import time
from argparse import Namespace

from outrider.surfaces.cli import output
from outrider.surfaces.cli.parser import CommandParser, bad_call
from outrider.surfaces.cli.text import duration

EXAMPLES = """\
'outrider run' leaves a warmed process of yours behind, for as many minutes as the
setting warm.keepMinutes says (10; 0 for none). It holds no key and no task.

examples:
  outrider warm --status
  outrider warm --stop
  outrider run explorer "…" --no-warm
"""


def configure(parser: CommandParser) -> None:
    """Declare the arguments of `warm`."""
    parser.add_argument("--status", action="store_true", help="tell whether there is one")
    parser.add_argument("--stop", action="store_true", help="end it; running tasks go on")


def execute(arguments: Namespace) -> int:
    """Tell of the warm process, or end it."""
    from outrider.runtimes.native.fork_server import UserForkServer

    if arguments.status == arguments.stop:
        raise bad_call("give either --status or --stop", "warm")
    warmth = UserForkServer(os.environ, minutes=0)
    if arguments.stop:
        stopped = warmth.stop()
        _tell(arguments, {"stopped": stopped}, "stopped." if stopped else "there was none.")
        return 0
    status = warmth.status()
    words = "there is none." if status is None else _words(status)
    _tell(arguments, {"warm": status is not None, **(status or {})}, words)
    return 0


def _words(status: dict[str, float]) -> str:
    age = duration((time.time() - status["startedAt"]) * 1000)
    return f"process {status['pid']} is warm, {age} old, and has started {status['served']}."


def _tell(arguments: Namespace, record: dict[str, object], words: str) -> None:
    if arguments.json:
        output.write_json(record)
    else:
        output.write(f"{words}\n")
