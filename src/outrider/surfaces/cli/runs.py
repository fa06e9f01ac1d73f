"""`outrider runs`: what was delegated, newest first."""

import os
import sys
from argparse import Namespace
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from outrider.records.runs import KeptRun, kept_runs
from outrider.settings.places import runs_folder
from outrider.surfaces.cli import output
from outrider.surfaces.cli.parser import CommandParser
from outrider.surfaces.cli.text import duration

EXAMPLES = """\
A run's state is how it ended, or running, or interrupted where its parent was killed.

examples:
  outrider runs
  outrider runs --json | jq -r '.runs[] | select(.state == "failed") | .runId'
"""

MAX_TASK = 200
COLUMNS = ("run", "started", "state", "agent", "took", "tokens", "model", "task")
NARROW = ("run", "started", "state", "agent", "task")
WIDE_ENOUGH = 110
PAINTS = {"run": "cyan", "started": "dim", "model": "dim"}


def configure(parser: CommandParser) -> None:
    """Declare the arguments of `runs`."""


def execute(arguments: Namespace) -> int:
    """List the runs."""
    records = [record(run) for run in kept_runs(runs_folder(os.environ))]
    if arguments.json:
        output.write_json({"runs": records})
        return 0
    if not records:
        output.say('no runs yet. Begin with: outrider run explorer "Where is …?"')
        return 0
    room = output.terminal_columns(sys.stdout)
    columns = NARROW if room is not None and room < WIDE_ENOUGH else COLUMNS
    rows = [[_cells(one)[column] for column in columns] for one in records]
    colours = [PAINTS.get(column) for column in columns]
    output.write_table(columns, rows, colours=colours)
    return 0


def record(run: KeptRun) -> dict[str, Any]:
    """Return what a listing tells of a run."""
    # A run that hasn't ended is known from how its transcript begins.
    known: Mapping[str, Any] = run.details or run.opening
    lines = str(known.get("task", "")).strip().splitlines()
    return {
        "runId": run.id,
        "startedAt": datetime.fromtimestamp(run.started, UTC).isoformat(timespec="milliseconds"),
        "state": run.state,
        "agent": known.get("agent", ""),
        "model": known.get("model", ""),
        "task": lines[0][:MAX_TASK] if lines else "",
        "durationMs": known.get("durationMs"),
        "usage": known.get("usage"),
        "exitCode": known.get("exitCode"),
        "error": known.get("error"),
    }


def _cells(one: Mapping[str, Any]) -> dict[str, str]:
    started = datetime.fromisoformat(one["startedAt"]).astimezone()
    usage: Mapping[str, int] = one["usage"] or {}
    took = one["durationMs"]
    return {
        "run": one["runId"],
        "started": f"{started:%Y-%m-%d %H:%M:%S}",
        "state": one["state"],
        "agent": one["agent"],
        "took": "" if took is None else duration(took),
        "tokens": f"{usage.get('input', 0) + usage.get('output', 0):,}" if usage else "",
        "model": one["model"],
        "task": one["task"],
    }
