"""`outrider stop`: ends runs of any process."""

import asyncio
import os
from argparse import Namespace

from outrider.delegation.run_handle import RunHandle
from outrider.protocol.exit_codes import EXIT_FAILED
from outrider.records.runs import RecordedRun, find_run, running_runs
from outrider.settings.places import runs_folder
from outrider.surfaces.parser import argument, bad_call, flag
from outrider.surfaces.terminal import output

EXAMPLES = """\
examples:
  outrider stop 1a2b3c4d
  outrider stop --agent explorer
  outrider stop --all

Returns when the runs have ended; what they said so far is kept. The exit code
is 1 if one of them can't be stopped.
"""
ARGUMENTS = (
    argument("run", metavar="RUN", nargs="*", help="run ids, starts of ids, or last"),
    flag("--all", "stop every run that is running"),
    argument("--agent", metavar="NAME", help="stop every run of this agent"),
)
MAX_STOP_SECONDS = 30.0  # a child has five seconds to end by itself, and the machine may be busy


def execute(arguments: Namespace) -> int:
    """Stop the runs, and say which; return 1 where one goes on."""
    given = (bool(arguments.run), arguments.all, arguments.agent is not None)
    if sum(given) != 1:
        raise bad_call("stop needs either RUN, --all or --agent", "stop")
    folder, agent = runs_folder(os.environ), arguments.agent
    runs = [find_run(folder, name) for name in arguments.run]
    if not runs:
        runs = [one for one in running_runs(folder) if agent in (None, one.known.get("agent"))]
    asyncio.run(_stop(runs))
    states = {run.id: find_run(folder, run.id).state for run in runs}
    if arguments.json:
        rows = [{"runId": run_id, "state": state} for run_id, state in states.items()]
        output.write_json({"runs": rows})
    for run_id, state in states.items() if not arguments.json else ():
        words = "goes on: it is landing, or its process is stopped" if state == "running" else state
        output.say(f"run {run_id}: {words}")
    if not states:
        output.say("nothing is running.")
    return EXIT_FAILED if "running" in states.values() else 0


async def _stop(runs: list[RecordedRun]) -> None:
    """Stop runs all at once, and return when they have ended, or don't."""
    stopping = [asyncio.ensure_future(RunHandle(run.folder).stop()) for run in runs]
    if stopping:
        await asyncio.wait(stopping, timeout=MAX_STOP_SECONDS)
