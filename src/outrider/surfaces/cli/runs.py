"""`outrider runs`: the recorded runs, newest first."""

import os
from argparse import Namespace
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from outrider.records.runs import RecordedRun, recorded_runs
from outrider.settings.places import runs_folder
from outrider.surfaces.cli import output
from outrider.surfaces.cli.parser import CommandParser
from outrider.surfaces.cli.text import duration

EXAMPLES = """\
A run's state is its outcome, or running, or interrupted where its parent was killed.

examples:
  outrider runs
  outrider runs --json | jq -r '.runs[] | select(.state == "failed") | .runId'
"""

MAX_TASK = 200
COLUMNS = ("run", "started", "state", "agent", "took", "tokens", "model", "task")
NARROW_COLUMNS = ("run", "started", "state", "agent", "task")
MIN_WIDTH_FOR_ALL = 110
COLOURS = {"run": "cyan", "started": "dim", "model": "dim"}


def configure(parser: CommandParser) -> None:
    """Declare nothing: `runs` takes no arguments of its own."""


def execute(arguments: Namespace) -> None:
    """List the runs."""
    records = [record(run) for run in recorded_runs(runs_folder(os.environ))]
    if arguments.json:
        output.write_json({"runs": records})
        return
    if not records:
        output.say('no runs yet. Begin with: outrider run explorer "Where is …?"')
        return
    room = output.terminal_columns()
    columns = NARROW_COLUMNS if room is not None and room < MIN_WIDTH_FOR_ALL else COLUMNS
    rows = [[_cells(one)[column] for column in columns] for one in records]
    output.write_table(columns, rows, colours=[COLOURS.get(column) for column in columns])


def record(run: RecordedRun) -> dict[str, Any]:
    """Return what a listing shows of a run."""
    # A run without a result is known from the first line of its transcript.
    known = run.details or run.opening
    lines = str(known.get("task", "")).strip().splitlines()
    return {
        "runId": run.id,
        "startedAt": datetime.fromtimestamp(run.started, UTC).isoformat(timespec="milliseconds"),
        "state": run.state,
        "agent": known.get("agent", ""),
        "model": known.get("model", ""),
        "task": lines[0][:MAX_TASK] if lines else "",
        **{name: known.get(name) for name in ("durationMs", "usage", "exitCode", "error")},
    }


def _cells(one: Mapping[str, Any]) -> dict[str, str]:
    started = datetime.fromisoformat(one["startedAt"]).astimezone()
    usage: Mapping[str, int] = one["usage"] or {}
    took = one["durationMs"]
    return {
        "run": one["runId"],
        "started": f"{started:%Y-%m-%d %H:%M:%S}",
        "took": "" if took is None else duration(took),
        "tokens": f"{usage.get('input', 0) + usage.get('output', 0):,}" if usage else "",
        **{name: one[name] for name in ("state", "agent", "model", "task")},
    }
