"""What a writer changed, as a terminal shows it, and the question what becomes of that."""

import asyncio
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence

from outrider.delegation.landing import changes_of, settle, writer_run
from outrider.processes.shielding import finish
from outrider.protocol.changes import MINUS, Changes, change_totals
from outrider.protocol.errors import OutriderError
from outrider.surfaces.terminal import output
from outrider.surfaces.terminal.asking import read_answer
from outrider.surfaces.terminal.progress import View
from outrider.surfaces.text import clean_line, pad, width
from outrider.workspaces.layers.landing import WriterRun
from outrider.workspaces.layers.review import FileDiff, review

ACTIONS = {"l": "land", "land": "land", "x": "discard", "discard": "discard"}
CHOICES = "[l]and, [d]iff, discard [x], or Enter to decide later: "
COLOURS = {"+": "green", "-": "red", "@": "cyan", "\\": "dim"}


def diff_lines(files: Sequence[FileDiff]) -> Iterator[str]:
    for line in (line for one in files for line in one.lines):
        is_head = line.startswith(("--- ", "+++ "))
        yield output.coloured(line, "bold" if is_head else COLOURS.get(line[:1]))


def stat_lines(files: Sequence[FileDiff]) -> list[str]:
    """Return a line for each file, and one for all."""
    room = max((width(one.file.path) for one in files), default=0)
    lines = [f"  {pad(one.file.path, room)}  {_counts(one)}" for one in files]
    return [*lines, totals(files)]


def _counts(one: FileDiff) -> str:
    plus, minus = f"+{one.added}", f"{MINUS}{one.removed}"
    kind = "" if one.file.kind == "modified" else f"  {one.file.kind}"
    return f"{output.coloured(plus, 'green')} {output.coloured(minus, 'red')}{kind}"


def totals(files: Sequence[FileDiff]) -> str:
    """`3 files, +40 -7`."""
    added, removed = sum(one.added for one in files), sum(one.removed for one in files)
    return change_totals(len(files), added, removed)


async def ask_landing(view: View, flags: Mapping[str, object] | None, run_id: str) -> Changes:
    """Return a run's changes after the person has said what becomes of them."""
    run, _ = writer_run(run_id, os.environ)
    changes, drawn = await asyncio.to_thread(review, run)
    with view.pause():
        _show(stat_lines(drawn)[:-1])  # the sum was said with the run's end
        while changes.state == "pending" and (said := await read_answer(CHOICES)):
            if said in ("d", "diff"):
                _show(diff_lines(drawn))
            elif action := ACTIONS.get(said):
                await finish(asyncio.to_thread(_settle, run, action, flags))
                changes = await asyncio.to_thread(changes_of, run.folder, os.environ)
    view.say(changes.words(run_id))
    return changes


def _settle(run: WriterRun, action: str, flags: Mapping[str, object] | None) -> None:
    """Do what the person says; what can't be done is said, and changes nothing."""
    try:
        settle(run, action, os.environ, flags, output=sys.stderr.fileno())
    except (OSError, OutriderError) as error:
        _show([f"nothing was changed: {clean_line(str(error))}"])


def _show(lines: Iterable[str]) -> None:
    print(*lines, sep="\n", file=sys.stderr, flush=True)
