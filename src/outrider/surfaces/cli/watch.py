"""`outrider watch`: the live view of runs, whoever started them."""

import asyncio
import os
import time
from argparse import Namespace
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

from outrider.delegation.request import invalid
from outrider.delegation.run_handle import RunHandle
from outrider.protocol.events import MessageUpdateEvent, TurnStartEvent
from outrider.protocol.exit_codes import result_exit_code
from outrider.protocol.results import Details, Streaming, ToolResult, text_result
from outrider.records.runs import OUTPUT, RecordedRun, find_run, recorded_runs
from outrider.settings.places import runs_folder
from outrider.surfaces.cli.run import print_ended
from outrider.surfaces.parser import argument
from outrider.surfaces.terminal.progress import Row, View, progressed
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
    results = watch(arguments.run)
    if len(results) == 1:
        return print_ended(results[0], as_json=arguments.json)
    codes = [result_exit_code(one) for one in results]
    return next(filter(None, codes), 0)


def watch(name: str | None) -> list[ToolResult]:
    """Return the results of the run of this name, or of all that are running, when they have any.

    Raises `Refusal` where there is nothing to watch.
    """
    runs = runs_folder(os.environ)
    if name is not None:
        watched = [find_run(runs, name)]
    elif not (watched := [run for run in recorded_runs(runs) if run.state == "running"]):
        raise invalid(NOTHING)
    with closing(View()) as view:
        return asyncio.run(_watch(watched, view))


async def _watch(runs: Sequence[RecordedRun], view: View) -> list[ToolResult]:
    if len(runs) > 1:
        return [*await asyncio.gather(*(_watch_row(run, view) for run in runs))]
    view.show_row("", _row(runs[0]))
    text = asyncio.ensure_future(_follow_text(runs[0].folder / OUTPUT, view))
    try:
        return [await _watch_one(RunHandle(runs[0].folder), "", view)]
    finally:
        text.cancel()


def _row(run: RecordedRun) -> Row:
    begun = time.monotonic() - (time.time() - run.started)
    return Row(f"{run.known.get('agent', 'run')} {run.id}", begun=begun)


async def _watch_row(run: RecordedRun, view: View) -> ToolResult:
    """Show one of several runs in a row of its own."""
    view.show_row(run.id, _row(run))
    result = await _watch_one(RunHandle(run.folder), run.id, view)
    view.watch(run.id, result)
    return result


async def _watch_one(handle: RunHandle, key: str, view: View) -> ToolResult:
    show, so_far = partial(view.watch, key), Streaming()
    async for event in handle.events():
        so_far = progressed(so_far, event)
        if not key:
            show(event)
        show(text_result("", Details(run_id=handle.id, streaming=so_far)))
    return await handle.result()


async def _follow_text(output: Path, view: View) -> None:
    """Show the text of a message as it comes: the file has it first, and each message anew."""
    shown = 0
    while True:
        text, size = new_text(output, shown)
        if size < shown or text:
            view.watch("", TurnStartEvent(0) if size < shown else MessageUpdateEvent(0, text))
            shown = 0 if size < shown else size
        await asyncio.sleep(LOOK_EVERY_SECONDS)
