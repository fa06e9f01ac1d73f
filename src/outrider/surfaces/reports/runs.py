"""The report `runs`: the recorded runs, newest last."""

import os
from argparse import Namespace

from outrider.records.runs import recorded_runs
from outrider.settings.places import runs_folder
from outrider.surfaces.parser import argument, flag, number
from outrider.surfaces.reports.run_filters import FILTERS, delete, filtered_runs, is_filtered
from outrider.surfaces.table import Column, Report, Table
from outrider.surfaces.text import duration, local_time

EXAMPLES = """\
A run's state is its outcome, or running, or interrupted if its parent was
killed. JSON lists all runs, newest first, unless you give --limit.

examples:
  outrider runs --project . --agent explorer --since 2d
  outrider runs --delete --outcome failed
  outrider runs --json | jq -r '.runs[] | select(.state == "failed") | .runId'
"""
DEFAULT_LIMIT = 20
NOTHING = 'no runs yet. Start with: outrider run explorer "Where is …?"'
LIMIT_HELP = f"show at most N runs ({DEFAULT_LIMIT}; JSON: all)"
ARGUMENTS = (
    *FILTERS,
    argument("--limit", metavar="N", type=number, help=LIMIT_HELP),
    flag("--delete", "delete them, except those still running"),
)


def report(arguments: Namespace) -> Report:
    """Return the runs that are asked for, or those that were deleted."""
    found, note = filtered_runs(recorded_runs(runs_folder(os.environ)), arguments), ""
    is_short = arguments.limit is None and not arguments.json and not arguments.delete
    shown = found[: DEFAULT_LIMIT if is_short else arguments.limit]
    if arguments.delete:
        shown, note = delete(shown, arguments)
    elif not shown:
        note = "no runs match." if is_filtered(arguments) else NOTHING
    elif len(shown) < len(found):
        note = f"the newest {len(shown)} of {len(found)} runs; --limit N shows more."
    rows = [run.summary for run in shown]
    data = {"deleted" if arguments.delete else "runs": rows}
    return Report(data, (Table(COLUMNS, rows[::-1]),), (note,) if note else ())


def _tokens(usage: dict[str, int]) -> str:
    return f"{usage.get('input', 0) + usage.get('output', 0):,}"


COLUMNS = (
    Column("run", "runId", "cyan"),
    Column("started", "startedAt", "dim", lambda iso: local_time(iso)[:-3]),
    Column("state"),
    Column("agent"),
    Column("project", form=lambda path: str(path).rpartition("/")[2], optional=True),
    Column("took", "durationMs", form=duration, optional=True),
    Column("tokens", "usage", form=_tokens, optional=True),
    Column("model", colour="dim", optional=True),
    Column("task"),
)
