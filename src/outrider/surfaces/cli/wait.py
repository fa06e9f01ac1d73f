"""`outrider wait`: the answers of runs, when they have ended."""

import asyncio
from argparse import Namespace

from outrider.delegation.run_handle import RunHandle
from outrider.protocol.errors import ErrorCode, Refusal
from outrider.protocol.exit_codes import EXIT_TIMED_OUT
from outrider.protocol.results import ToolResult, refused
from outrider.settings.quantities import milliseconds
from outrider.surfaces.cli.run import print_ended, print_result
from outrider.surfaces.parser import argument, flag, time_span

EXAMPLES = """\
examples:
  outrider wait last
  outrider wait 1a2b3c4d 5e6f7a8b --any --timeout 5m

Prints each answer as 'outrider run' does. The exit code is that of the run, or
of the first that didn't complete; 124 if the time was over before.
"""
ARGUMENTS = (
    argument("run", metavar="RUN", nargs="+", help="run ids, starts of ids, or last"),
    flag("--any", "wait for the first to end, not for all"),
    argument("--timeout", metavar="TIME", type=time_span, help="wait at most so long: 90s, 5m"),
)


def execute(arguments: Namespace) -> int:
    handles = [RunHandle.find(name) for name in arguments.run]
    results = asyncio.run(_ended(handles, arguments))
    codes = [print_ended(result, as_json=arguments.json) for result in results]
    if results and (arguments.any or len(results) == len(handles)):
        return next(filter(None, codes), 0)
    ids = ", ".join(one.id for one in handles if one.id not in [r.details.run_id for r in results])
    why = f"Still running after {arguments.timeout}: {ids}."
    print_result(refused(Refusal(ErrorCode.SUBAGENT_TIMEOUT, why)), as_json=arguments.json)
    return EXIT_TIMED_OUT


async def _ended(handles: list[RunHandle], arguments: Namespace) -> list[ToolResult]:
    """Return the results of the runs that have ended in time, in the order they were asked for."""
    tasks = [asyncio.ensure_future(one.result()) for one in handles]
    when = asyncio.FIRST_COMPLETED if arguments.any else asyncio.ALL_COMPLETED
    seconds = arguments.timeout and milliseconds(arguments.timeout, "s") / 1000
    done, _ = await asyncio.wait(tasks, timeout=seconds, return_when=when)
    return [task.result() for task in tasks if task in done][: 1 if arguments.any else None]
