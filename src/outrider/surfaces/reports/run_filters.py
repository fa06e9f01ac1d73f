"""Which runs `runs` is about: its filters, and the deletion of what passes them."""

import os
import time
from argparse import ArgumentTypeError, Namespace
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from outrider.protocol.outcomes import Outcome
from outrider.records.runs import RecordedRun, delete_run, find_run
from outrider.settings.places import project_name, runs_folder
from outrider.settings.quantities import SettingError, milliseconds
from outrider.surfaces.parser import argument, bad_call
from outrider.surfaces.text import count

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


def is_filtered(arguments: Namespace) -> bool:
    """Whether only some runs are asked for."""
    return any(getattr(arguments, names[0].lstrip("-")) for names, _ in FILTERS)


def filtered_runs(runs: Sequence[RecordedRun], arguments: Namespace) -> list[RecordedRun]:
    """Return the runs that pass every filter; raises `Refusal` for one that there isn't."""
    named = {find_run(runs_folder(os.environ), name).id for name in arguments.run}
    wanted = Path(os.path.realpath(arguments.project or "."))
    project = project_name(wanted, os.environ) if arguments.project else None
    return [
        run
        for run in runs
        if not named or run.id in named
        if arguments.agent in (None, run.opening.get("agent"))
        if arguments.outcome in (None, run.state)
        if project in (None, run.opening.get("project"))
        if arguments.since is None or run.started >= arguments.since
    ]


def delete(runs: Sequence[RecordedRun], arguments: Namespace) -> tuple[list[RecordedRun], str]:
    """Delete runs, and return those that are gone with what is to be said; raises `Refusal`."""
    if not is_filtered(arguments):
        raise bad_call("--delete needs RUN, --agent, --outcome, --project or --since", "runs")
    gone = [run for run in runs if delete_run(run.folder)]
    said = f"{count(len(gone), 'run')} deleted."
    if left := len(runs) - len(gone):
        said += f" {count(left, 'run')} not deleted: still running, or not yours."
    return gone, said
