"""The report `runs`: the recorded runs, newest last, and the deletion of some."""

import os
import time
from argparse import ArgumentTypeError, Namespace
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from outrider.protocol.outcomes import Outcome
from outrider.records.runs import RecordedRun, delete_run, find_run, recorded_runs
from outrider.settings.places import project_name, runs_folder
from outrider.settings.quantities import SettingError, milliseconds
from outrider.surfaces.parser import argument, bad_call, number
from outrider.surfaces.reports.logs import local_time
from outrider.surfaces.reports.report import Column, Report, Section
from outrider.surfaces.text import count, duration

EXAMPLES = """\
A run's state is its outcome, or running, or interrupted where its parent was
killed. JSON has the newest first, and all of them unless --limit is given.

examples:
  outrider runs --project . --agent explorer --since 2d
  outrider runs --delete --outcome failed
  outrider runs --json | jq -r '.runs[] | select(.state == "failed") | .runId'
"""

FILTERS = ("run", "agent", "outcome", "project", "since")
STATES = (*map(str, Outcome), "running", "interrupted")
DEFAULT_LIMIT = 20
MAX_TASK = 200
NOTHING = 'no runs yet. Begin with: outrider run explorer "Where is …?"'


def _moment(given: str) -> float:
    with suppress(ValueError, OverflowError):
        return datetime.fromisoformat(given).timestamp()
    try:
        return time.time() - milliseconds(given, "s") / 1000
    except SettingError:
        problem = f"{given!r} is no time: write 90m, 2d or 2026-11-16"
        raise ArgumentTypeError(problem) from None


ARGUMENTS = (
    argument("run", metavar="RUN", nargs="*", help="only these: ids, how they begin, last, -2"),
    argument("--agent", metavar="AGENT", help="only those of this agent"),
    argument("--outcome", metavar="STATE", choices=STATES, help="only those that ended so"),
    argument("--project", metavar="DIR", help="only those in the project of DIR"),
    argument("--since", metavar="WHEN", type=_moment, help="only later ones: 90m, 2d, 2026-11-16"),
    argument(
        "--limit", metavar="N", type=number, help=f"at most N runs ({DEFAULT_LIMIT}, JSON: all)"
    ),
    argument("--delete", action="store_true", help="delete them; one that is running stays"),
)


def report(arguments: Namespace) -> Report:
    """Return the runs that are asked for, or what was deleted of them."""
    found, is_filtered = _matching(arguments), any(getattr(arguments, name) for name in FILTERS)
    most = arguments.limit
    if arguments.delete:
        if not is_filtered:
            raise bad_call("--delete needs RUN, --agent, --outcome, --project or --since", "runs")
        wanted = [(record(run), run.folder) for run in found[:most]]
        records = [known for known, folder in wanted if delete_run(folder)]
        notes = [f"{count(len(records), 'run')} deleted."]
        if left := len(wanted) - len(records):
            notes.append(f"{count(left, 'run')} not deleted: running, or not yours to delete.")
        data = {"deleted": records}
    else:
        most = DEFAULT_LIMIT if most is None and not arguments.json else most
        records = [record(run) for run in found[:most]]
        notes = [] if records else ["no run is like that." if is_filtered else NOTHING]
        if 0 < len(records) < len(found):
            notes = [f"the newest {len(records)} of {len(found)} runs; --limit N shows more."]
        data = {"runs": records}
    return Report(data, (Section(COLUMNS, records[::-1]),), tuple(notes))


def _matching(arguments: Namespace) -> list[RecordedRun]:
    """Return the runs that pass every filter, newest first."""
    folder, wanted = runs_folder(os.environ), Path(os.path.realpath(arguments.project or "."))
    named = {find_run(folder, name).id for name in arguments.run}
    project = project_name(wanted, os.environ) if arguments.project else None
    return [
        run
        for run in recorded_runs(folder)
        if not named or run.id in named
        if arguments.agent in (None, run.opening.get("agent"))
        if arguments.outcome in (None, run.state)
        if project in (None, run.opening.get("project"))
        if arguments.since is None or run.started >= arguments.since
    ]


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
        "project": run.opening.get("project"),
        "task": lines[0][:MAX_TASK] if lines else "",
        **{name: known.get(name) for name in ("durationMs", "usage", "exitCode", "error")},
    }


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
