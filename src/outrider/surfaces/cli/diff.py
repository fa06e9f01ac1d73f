"""`outrider diff`: what a writer's run changed, before it lands or after."""

import json
from argparse import Namespace
from collections.abc import Iterator, Sequence

from outrider.protocol.data import as_object
from outrider.records.runs import SESSION
from outrider.surfaces.cli import writers
from outrider.surfaces.parser import argument, flag
from outrider.surfaces.terminal import output
from outrider.surfaces.terminal.changes import diff_lines, stat_lines, totals
from outrider.surfaces.text import clean_line, fit
from outrider.surfaces.transcript import event_words, numbered_lines
from outrider.workspaces.layers.landing import WriterRun, is_in
from outrider.workspaces.layers.review import FileDiff, review, with_diffs
from outrider.workspaces.names import unescaped

EXAMPLES = """\
Nothing in the repository changes how the diff is drawn. Control characters,
and those that can't be seen or that reorder text, are spelled out.

examples:
  outrider diff last
  outrider diff 1a2b --stat
  outrider diff 1a2b src/retry.py
  outrider diff 1a2b --by-call        which tool call changed which files
"""
ARGUMENTS = (
    writers.RUN,
    argument("path", metavar="PATH", nargs="*", default=[], help="only these files and folders"),
    flag("--stat", "only how many lines changed in each file"),
    flag("--by-call", "the same, for each tool call that changed files"),
)
MAX_CALL = 100


def execute(arguments: Namespace) -> None:
    """Print the changes."""
    run = writers.named_run(arguments.run)
    only = writers.paths_in(run, arguments.path)
    changes, drawn = review(run)
    if only:
        drawn = [one for one in drawn if any(is_in(unescaped(one.file.path), p) for p in only)]
    if arguments.json:
        return output.write_json({"runId": run.folder.name, **with_diffs(changes, drawn)})
    if arguments.by_call:
        lines = _by_call(run, drawn)
    elif arguments.stat:
        lines = iter(stat_lines(drawn))
    else:
        lines = diff_lines(drawn)
    for line in lines:
        output.write_clean(f"{line}\n")
    output.flush()
    writers.say_reasons("these don't land:", changes.withheld)
    writers.say_reasons("these conflict with your files:", changes.conflicts)
    hints = {"pending": f", not landed: outrider land {run.folder.name}"}
    output.say(f"{totals(drawn)}{hints.get(run.state, f', {run.state}')}")
    return None


def _by_call(run: WriterRun, drawn: Sequence[FileDiff]) -> Iterator[str]:
    """Yield the files that each call changed, below what it was."""
    calls = {call: "" for one in drawn for call in one.file.calls}
    for _, line in numbered_lines(run.folder / SESSION):
        event = as_object(json.loads(line)) if '"tool_start"' in line else {}
        if event.get("id") in calls:
            calls[event["id"]] = fit(clean_line(event_words(event)), MAX_CALL)
    for call, words in calls.items():
        yield output.coloured(f"{clean_line(call)}  {words}".rstrip(), "cyan")
        yield from stat_lines([one for one in drawn if call in one.file.calls])[:-1]
    if unknown := [one for one in drawn if not one.file.calls]:
        yield output.coloured("no call is known", "cyan")
        yield from stat_lines(unknown)[:-1]
