"""`outrider tell`: a message for a child at work."""

import asyncio
from argparse import Namespace

from outrider.delegation.run_handle import RunHandle
from outrider.protocol.exit_codes import EXIT_FAILED
from outrider.surfaces.parser import argument, bad_call, flag
from outrider.surfaces.terminal import output

EXAMPLES = """\
examples:
  outrider tell 1a2b3c4d "Leave the tests alone"
  outrider tell 1a2b3c4d --finish

The child reads it before its next request to the model. The command returns
when the model has answered that request. The exit code is 1 if the run ended
before.
"""
ARGUMENTS = (
    argument("run", metavar="RUN", help="a run id, the start of one, or last"),
    argument("message", metavar="MESSAGE", nargs="?", help="what to tell it"),
    flag("--finish", "ask it to answer now, with what it has"),
)
FINISH = (
    "Please wrap up now. Start nothing new, and give your result with what you have; say what is "
    "missing."
)


def execute(arguments: Namespace) -> int:
    """Tell it, and say in which turn it was read; return 1 where the run ended before."""
    if arguments.message is None and not arguments.finish:
        raise bad_call("tell needs MESSAGE or --finish", "tell")
    parts = filter(None, (arguments.message, FINISH if arguments.finish else None))
    run = RunHandle.find(arguments.run)
    turn = asyncio.run(run.tell("\n\n".join(parts)))
    if arguments.json:
        output.write_json({"runId": run.id, "turn": turn})
    elif turn is not None:
        output.write_text(f"read in turn {turn}")
    else:
        hint = f"'outrider resume {run.id}' goes on with it."
        output.say(f"run {run.id} ended before it read the message. {hint}")
    return EXIT_FAILED if turn is None else 0
