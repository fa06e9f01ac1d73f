"""The report `runs`: the recorded runs, newest last, and the deletion of some."""

import os
import time
from argparse import ArgumentTypeError, Namespace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from outrider.protocol.outcomes import Outcome
from outrider.records.runs import RecordedRun, delete_run, find_run, recorded_runs
from outrider.settings.places import project_name, runs_folder
from outrider.settings.quantities import SettingError, milliseconds
from outrider.surfaces.parser import CommandParser, bad_call
from outrider.surfaces.reports.logs import local_time
from outrider.surfaces.reports.report import Column, Report, Row, Section
from outrider.surfaces.text import count, duration

EXAMPLES = """\
A run's state is its outcome, or running, or interrupted where its parent was
killed. JSON has the newest first, and all of them unless --limit is given.

examples:
  outrider runs --agent explorer --since 2d
  outrider runs --project . --outcome failed --limit 100
  outrider runs --delete 1a2b3c4d last
  outrider runs --delete --outcome failed
  outrider runs --json | jq -r '.runs[] | select(.state == "failed") | .runId'
"""

STATES = (*map(str, Outcome), "running", "interrupted")
DEFAULT_LIMIT = 20
MAX_TASK = 200
NOTHING = 'no runs yet. Begin with: outrider run explorer "Where is …?"'


def configure(parser: CommandParser) -> None:
    """Declare the arguments of `runs`."""
    add = parser.add_argument
    add("run", metavar="RUN", nargs="*", help="only these: ids, how they begin, last, -2")
    add("--agent", metavar="AGENT", help="only those of this agent")
    add("--outcome", metavar="STATE", choices=STATES, help="only those that ended so")
    add("--project", metavar="DIR", help="only those in the project of DIR")
    add("--since", metavar="WHEN", type=_moment, help="only later ones: 90m, 2d, 2026-11-16")
    parser.add_limit(None, f"runs, the newest; {DEFAULT_LIMIT} unless for JSON")
    add("--delete", action="store_true", help="delete them; one that is running stays")


def _moment(given: str) -> float:
    try:
        return datetime.fromisoformat(given).timestamp()
    except (ValueError, OverflowError):
        pass
    try:
        return time.time() - milliseconds(given, "s") / 1000
    except SettingError:
        problem = f"{given!r} is no time: write 90m, 2d or 2026-11-16"
        raise ArgumentTypeError(problem) from None


def report(arguments: Namespace) -> Report:
    """Return the runs that are asked for, or what was deleted of them."""
    found = _matching(arguments)
    if arguments.delete:
        return _deleted(found[: arguments.limit], arguments)
    limit = arguments.limit
    if limit is None and not arguments.json:
        limit = DEFAULT_LIMIT
    records = [record(run) for run in found[:limit]]
    notes = () if records else ("no run is like that." if _filters(arguments) else NOTHING,)
    if 0 < len(records) < len(found):
        notes = (f"the newest {len(records)} of {len(found)} runs; --limit N shows more.",)
    return Report("Runs", {"runs": records}, (Section(COLUMNS, records[::-1]),), notes)


def _filters(arguments: Namespace) -> bool:
    names = ("run", "agent", "outcome", "project", "since")
    return any(getattr(arguments, name) for name in names)


def _matching(arguments: Namespace) -> list[RecordedRun]:
    """Return the runs that pass every filter, newest first."""
    folder = runs_folder(os.environ)
    wanted = {find_run(folder, name).id for name in arguments.run}
    project = arguments.project and project_name(
        Path(os.path.realpath(arguments.project)), os.environ
    )
    return [
        run
        for run in recorded_runs(folder)
        if not wanted or run.id in wanted
        if arguments.agent in (None, run.opening.get("agent"))
        if arguments.outcome in (None, run.state)
        if project in (None, run.opening.get("project"))
        if arguments.since is None or run.started >= arguments.since
    ]


def _deleted(found: list[RecordedRun], arguments: Namespace) -> Report:
    if not _filters(arguments):
        raise bad_call("--delete needs RUN, --agent, --outcome, --project or --since", "runs")
    gone = [record(run) for run in found if delete_run(run.folder)]
    notes = [f"{count(len(gone), 'run')} deleted."]
    if left := len(found) - len(gone):
        notes.append(f"{count(left, 'run')} not deleted: still running, or not yours to delete.")
    return Report("Deleted runs", {"deleted": gone}, (Section(COLUMNS, gone[::-1]),), tuple(notes))


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


def _tokens(run: Row) -> int | None:
    usage: dict[str, int] = run["usage"] or {}
    return usage.get("input", 0) + usage.get("output", 0) if usage else None


COLUMNS = (
    Column("run", "runId", "cyan"),
    Column("started", "startedAt", "dim", lambda iso: local_time(iso)[:-3]),
    Column("state"),
    Column("agent"),
    Column("project", form=lambda path: str(path).rpartition("/")[2], optional=True),
    Column("took", "durationMs", form=duration, optional=True),
    Column("tokens", _tokens, form="{:,}".format, optional=True),
    Column("model", colour="dim", optional=True),
    Column("task"),
)
