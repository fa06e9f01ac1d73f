"""`outrider watch`: the live view of runs, whoever started them."""

import asyncio
import os
import time
from argparse import Namespace
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from outrider.delegation.request import invalid
from outrider.delegation.run_handle import RunHandle
from outrider.protocol.exit_codes import result_exit_code
from outrider.protocol.results import ToolResult
from outrider.records.runs import OUTPUT, RecordedRun, find_run, running_runs
from outrider.settings.places import runs_folder
from outrider.surfaces.cli.run import print_ended
from outrider.surfaces.parser import argument
from outrider.surfaces.terminal.progress import Row, View
from outrider.surfaces.transcript import new_text

EXAMPLES = """\
examples:
  outrider watch              what is running now
  outrider watch 1a2b3c4d     one run, from its beginning to its answer

Ctrl-C stops watching, never the run. The exit code is that of the run, or of
the first that didn't complete.
"""
ARGUMENTS = (argument("run", metavar="RUN", nargs="?", help="a run id, the start of one, or last"),)
LOOK_EVERY_SECONDS = 0.1
NOTHING = "No run is running. 'outrider runs' lists those that have ended."


def execute(arguments: Namespace) -> int:
    """Show runs until they have ended, and print the answer of a single one."""
    runs = runs_folder(os.environ)
    watched = [find_run(runs, arguments.run)] if arguments.run else running_runs(runs)
    if not watched:
        raise invalid(NOTHING)
    with closing(View()) as view:
        results = asyncio.run(_watch(watched, view))
    if len(results) == 1:
        return print_ended(results[0], as_json=arguments.json)
    return next((code for one in results if (code := result_exit_code(one))), 0)


async def _watch(runs: Sequence[RecordedRun], view: View) -> list[ToolResult]:
    if len(runs) > 1:
        return [*await asyncio.gather(*(_follow(run, run.id, view) for run in runs))]
    text = asyncio.ensure_future(_follow_text(runs[0].folder / OUTPUT, view))
    try:
        return [await _follow(runs[0], "", view)]
    finally:
        text.cancel()


async def _follow(run: RecordedRun, key: str, view: View) -> ToolResult:
    """Show a run to its end; with a key it is one of several, in a row of its own."""
    begun = time.monotonic() - (time.time() - run.started)
    view.show_row(key, Row(f"{run.known.get('agent', 'run')} {run.id}", begun))
    handle = RunHandle(run.folder)
    async for event in handle.events():
        view.watch(key, event)
    result = await handle.result()
    if key:
        view.watch(key, result)
    return result


async def _follow_text(output: Path, view: View) -> None:
    """Show the text of a message as it comes: the transcript has it only when it is whole."""
    while True:
        view.show_answer(new_text(output, 0)[0])
        await asyncio.sleep(LOOK_EVERY_SECONDS)
