"""What the commands about a writer's changes share: the run, its paths, and what is said of it."""

import os
from argparse import Namespace
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from outrider.delegation.landing import writer_run
from outrider.protocol.changes import LandingConflict, PathReason
from outrider.protocol.data import to_json
from outrider.protocol.exit_codes import EXIT_CONFLICT, EXIT_FAILED
from outrider.surfaces.parser import argument
from outrider.surfaces.terminal import output
from outrider.workspaces.layers.landing import CheckFailed, WriterRun
from outrider.workspaces.names import shown_name, unescaped

RUN = argument("run", metavar="RUN", help="a run id, the start of one, or last")


def named_run(name: str) -> WriterRun:
    """Return a writer's run that has ended; say where an interrupted landing was taken back."""
    run, interrupted = writer_run(name, os.environ)
    if interrupted:
        output.say(f"took back what run {interrupted} was interrupted in; nothing of it is left.")
    return run


def paths_in(run: WriterRun, given: Iterable[str]) -> list[str]:
    """Return paths as the run knows them: from where the user is, or else from its folder."""
    return [_path_in(str(run.project), one) for one in given]


def _path_in(project: str, given: str) -> str:
    path = os.path.abspath(unescaped(given))
    is_inside = Path(path).is_relative_to(project)
    return os.path.relpath(path, project) if is_inside else os.path.normpath(unescaped(given))


def say_reasons(title: str, reasons: Iterable[PathReason]) -> None:
    """Print paths with their reasons on stderr."""
    for number, one in enumerate(reasons):
        if number == 0:
            output.say(title)
        output.say(f"  {one.path}: {one.reason}")


def settle(arguments: Namespace, act: Callable[[WriterRun], tuple[str, dict[str, Any]]]) -> int:
    """Do something about a run's changes, say what, and return the exit code.

    `act` returns words for a person, and what the JSON has beside the run and its state.
    """
    run = named_run(arguments.run)
    code, conflicts = 0, ()
    try:
        words, more = act(run)
    except (LandingConflict, CheckFailed, OSError) as error:
        conflicts = error.conflicts if isinstance(error, LandingConflict) else ()
        code = EXIT_CONFLICT if conflicts else EXIT_FAILED
        words = f"nothing was changed: {shown_name(str(error))}."
        more = {"conflicts": to_json(conflicts), "error": str(error)}
    if arguments.json:
        output.write_json({"runId": run.folder.name, "state": run.state, **more})
    elif conflicts:
        say_reasons("nothing was changed, because of conflicts:", conflicts)
    else:
        output.say(words) if code else output.write_clean(f"{words}\n")
    return code
