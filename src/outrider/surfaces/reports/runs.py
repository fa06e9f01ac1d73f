"""The report `runs`: the recorded runs that pass its filters, newest last, or their deletion."""

import os
import time
from argparse import ArgumentTypeError, Namespace
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from outrider.protocol.data import member
from outrider.protocol.outcomes import Outcome
from outrider.records.runs import (
    SESSION,
    RecordedRun,
    delete_run,
    find_run,
    is_in_use,
    landing_of,
    recorded_runs,
    run_folders,
)
from outrider.settings.places import project_name, runs_folder
from outrider.settings.quantities import SettingError, milliseconds
from outrider.surfaces.parser import argument, bad_call, flag, number
from outrider.surfaces.table import Column, Report, Row, Table
from outrider.surfaces.text import call_line, count, duration, local_time
from outrider.surfaces.transcript import tail

EXAMPLES = """\
A run's state is its outcome, or running, or interrupted if its parent was
killed. "record incomplete" means that some of its files are damaged or missing;
'outrider show' says which. JSON lists all runs, newest first, unless you give
--limit.

examples:
  outrider runs --project . --agent explorer --since 2d
  outrider runs --delete --outcome failed
  outrider runs --json | jq -r '.runs[] | select(.state == "failed") | .runId'
"""
DEFAULT_LIMIT = 20
TAIL_BYTES = 1 << 20  # of a transcript: results of tools are long
NOTHING = 'no runs yet. Start with: outrider run explorer "Where is …?"'
LIMIT_HELP = f"show at most N runs ({DEFAULT_LIMIT}; JSON: all)"
STATES = (*map(str, Outcome), "running", "interrupted")


def _moment(given: str) -> float:
    with suppress(ValueError, OverflowError):
        return datetime.fromisoformat(given).timestamp()
    try:
        return time.time() - milliseconds(given, "s") / 1000
    except SettingError:
        raise ArgumentTypeError(f"{given!r} is not a time: write 90m, 2d or 2026-11-16") from None


FILTERS = (
    argument("run", metavar="RUN", nargs="*", help="only these: ids, starts of ids, last, -2"),
    argument("--agent", metavar="AGENT", help="only runs of this agent"),
    argument("--outcome", metavar="STATE", choices=STATES, help="only runs in this state"),
    argument("--project", metavar="DIR", help="only runs in the project that DIR is in"),
    argument("--since", metavar="WHEN", type=_moment, help="only later runs: 90m, 2d, 2026-11-16"),
)
ARGUMENTS = (
    *FILTERS,
    argument("--limit", metavar="N", type=number, help=LIMIT_HELP),
    flag("--running", "only runs that are running"),
    flag("--delete", "delete them, except those still running"),
)


def report(arguments: Namespace) -> Report:
    """Return the runs that are asked for, or those that were deleted."""
    found, note = _filtered(recorded_runs(runs_folder(os.environ)), arguments), ""
    found.sort(key=lambda run: run.state != "running")  # those first
    is_short = arguments.limit is None and not arguments.json and not arguments.delete
    shown = found[: DEFAULT_LIMIT if is_short else arguments.limit]
    if arguments.delete:
        shown, note = _delete(shown, arguments)
    elif not shown:
        note = "no runs match." if _is_filtered(arguments) else NOTHING
    elif len(shown) < len(found):
        note = f"the newest {len(shown)} of {len(found)} runs; --limit N shows more."
    running = [run for run in shown if run.state == "running" and not arguments.delete]
    now = [_under_way(run) for run in running]
    rows = [*now, *(run.summary for run in shown[len(now) :])]
    data = {"deleted" if arguments.delete else "runs": rows}
    table = Table(COLUMNS, rows[len(now) :][::-1])
    tables = (Table(RUNNING, now, "running"), table) if now else (table,)
    return Report(data, tables, (note,) if note else ())


def _under_way(run: RecordedRun) -> Row:
    """Return a run that is running with its turn, last step and usage, as they are recorded."""
    events = [*tail(run.folder / SESSION, TAIL_BYTES)]
    last = {str(event.get("type")): event for event in reversed(events)}
    call = last.get("tool_start")
    return {
        **run.summary,
        "turn": member(last.get("turn_start"), "turn") or 0,
        "step": call_line(str(call.get("name")), call.get("args")) if call else "",
        "usage": member(last.get("turn_end"), "usage"),
    }


def _is_filtered(arguments: Namespace) -> bool:
    named = (getattr(arguments, names[0].lstrip("-")) for names, _ in FILTERS)
    return arguments.running or any(named)


def _filtered(runs: Sequence[RecordedRun], arguments: Namespace) -> list[RecordedRun]:
    """Return the runs that pass every filter; raises `Refusal` for one that there isn't."""
    named = {find_run(runs_folder(os.environ), name).id for name in arguments.run}
    wanted = Path(os.path.realpath(arguments.project or "."))
    project = project_name(wanted, os.environ) if arguments.project else None
    return [
        run
        for run in runs
        if not named or run.id in named
        if arguments.agent in (None, run.known.get("agent"))
        if arguments.outcome in (None, run.state)
        if not arguments.running or run.state == "running"
        if project in (None, run.known.get("project"))
        if arguments.since is None or run.started >= arguments.since
    ]


def _delete(runs: Sequence[RecordedRun], arguments: Namespace) -> tuple[list[RecordedRun], str]:
    """Delete runs, and return those that are gone with what is to be said; raises `Refusal`."""
    if not _is_filtered(arguments):
        raise bad_call("--delete needs RUN, --agent, --outcome, --project or --since", "runs")
    gone = [run for run in runs if delete_run(run.folder)]
    said = f"{count(len(gone), 'run')} deleted."
    if left := len(runs) - len(gone):
        said += f" {count(left, 'run')} not deleted: still running, or not yours."
    return gone, said


def _since(iso: str) -> float:
    """Return how many milliseconds ago a time was."""
    return max(0.0, time.time() - datetime.fromisoformat(iso).timestamp()) * 1000


def _tokens(usage: dict[str, int]) -> str:
    return f"{usage.get('input', 0) + usage.get('output', 0):,}"


RUNNING = (
    Column("run", "runId", "cyan"),
    Column("agent"),
    # It has changes from when its child has ended until they have landed.
    Column("turn", lambda run: "landing" if "changes" in run else run.get("turn") or "starting"),
    Column("last step", lambda run: run.get("step", "")),
    Column("time", "startedAt", "dim", lambda iso: duration(_since(iso))),
    Column("tokens", "usage", form=_tokens, optional=True),
    Column("project", form=lambda path: str(path).rpartition("/")[2], optional=True),
    Column("task"),
)


def landings(runs: Path) -> Iterator[tuple[str, str]]:
    """Yield, for `doctor`, changes that wait to be landed and landings that were interrupted."""
    for folder in run_folders(runs):
        landing = {} if is_in_use(folder) else landing_of(folder)  # else it is being landed
        if "operation" in landing:
            take_back = f"take it back with: outrider diff {folder.name}"
            yield "warn", f"run {folder.name} was interrupted in {landing['folder']}: {take_back}"
        elif landing.get("state") == "pending":
            yield "ok", f"run {folder.name} waits for: outrider land {folder.name}"


def _states(run: Row) -> Iterator[str]:
    yield run["state"]
    if "recordProblem" in run:
        yield "record incomplete"
    if run.get("changes", "none") != "none":
        yield "not landed" if run["changes"] == "pending" else run["changes"]


COLUMNS = (
    Column("run", "runId", "cyan"),
    Column("started", "startedAt", "dim", lambda iso: local_time(iso)[:-3]),
    Column("state", lambda run: ", ".join(_states(run))),
    Column("agent"),
    Column("project", form=lambda path: str(path).rpartition("/")[2], optional=True),
    Column("took", "durationMs", form=duration, optional=True),
    Column("tokens", "usage", form=_tokens, optional=True),
    Column("model", colour="dim", optional=True),
    Column("task"),
)
