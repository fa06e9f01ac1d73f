"""What the commands about a writer's changes share: the run, its paths, and what is said of it."""

import os
from argparse import Namespace
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from outrider.protocol.changes import LandingConflict, PathReason
from outrider.protocol.data import to_json
from outrider.protocol.errors import ErrorCode, OutriderError, Refusal
from outrider.protocol.exit_codes import EXIT_CONFLICT, EXIT_FAILED
from outrider.records.runs import find_run
from outrider.settings.places import runs_folder
from outrider.surfaces.parser import argument
from outrider.surfaces.terminal import output
from outrider.surfaces.text import count, pad, width
from outrider.workspaces.layers.landing import WriterRun, recover_landing
from outrider.workspaces.layers.review import FileDiff
from outrider.workspaces.names import shown_name, unescaped

MINUS = "\N{MINUS SIGN}"
RUN = argument("run", metavar="RUN", help="a run id, the start of one, or last")


def writer_run(name: str) -> WriterRun:
    """Return a writer's run that has ended; an interrupted landing in its folder is taken back."""
    runs = runs_folder(os.environ)
    found = find_run(runs, name)
    if found.state == "running":
        message = f"Run {found.id} is still running: wait for its end."
        raise Refusal(ErrorCode.INVALID_INPUT, message)
    run = WriterRun(found.folder, os.environ)
    if interrupted := recover_landing(runs, run.project, os.environ):
        output.say(f"took back what run {interrupted} was interrupted in; nothing of it is left.")
    return WriterRun(found.folder, os.environ)


def paths_in(run: WriterRun, given: Iterable[str]) -> list[str]:
    """Return paths as the run knows them: from where the user is, or else from its folder."""
    return [_path_in(str(run.project), one) for one in given]


def _path_in(project: str, given: str) -> str:
    path = os.path.normpath(os.path.join(os.getcwd(), unescaped(given)))
    here = Path(path)
    if here == Path(project) or here.is_relative_to(project):
        return os.path.relpath(path, project)
    return os.path.normpath(unescaped(given))


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
    """`3 files, +40 -7`, with a real minus."""
    plus, minus = sum(one.added for one in files), sum(one.removed for one in files)
    return f"{count(len(files), 'file')}, +{plus} {MINUS}{minus}"


def say_reasons(title: str, reasons: Iterable[PathReason]) -> None:
    """Print paths with their reasons on stderr."""
    for number, one in enumerate(reasons):
        if number == 0:
            output.say(title)
        output.say(f"  {one.path}: {one.reason}")


def failed(error: OSError | OutriderError, run: WriterRun, arguments: Namespace) -> int:
    """Say why nothing was changed, and return the exit code."""
    conflicts = error.conflicts if isinstance(error, LandingConflict) else ()
    if arguments.json:
        told: dict[str, Any] = {"runId": run.folder.name, "state": run.state}
        output.write_json({**told, "conflicts": to_json(conflicts), "error": str(error)})
    elif conflicts:
        say_reasons("nothing was changed, because of conflicts:", conflicts)
    else:
        output.say(f"nothing was changed: {shown_name(str(error))}.")
    return EXIT_CONFLICT if conflicts else EXIT_FAILED
