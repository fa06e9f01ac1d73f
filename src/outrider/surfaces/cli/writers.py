"""What the commands about a writer's changes share: the run, its paths, and what is said of it."""

import os
from argparse import Namespace
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from outrider.delegation.landing import writer_run
from outrider.protocol.changes import LandingConflict, PathReason
from outrider.protocol.data import to_json
from outrider.protocol.errors import OutriderError
from outrider.protocol.exit_codes import EXIT_CONFLICT, EXIT_FAILED
from outrider.surfaces.parser import argument
from outrider.surfaces.terminal import output
from outrider.workspaces.layers.landing import WriterRun
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


def tell(run: WriterRun, arguments: Namespace, words: str, **more: Any) -> int:
    """Print what was done, and return the exit code."""
    told = {"runId": run.folder.name, "state": run.state, **more}
    output.write_json(told) if arguments.json else output.write_clean(f"{words}\n")
    return 0


def failed(error: OSError | OutriderError, run: WriterRun, arguments: Namespace) -> int:
    """Say why nothing was changed, and return the exit code."""
    conflicts = error.conflicts if isinstance(error, LandingConflict) else ()
    if arguments.json:
        tell(run, arguments, "", conflicts=to_json(conflicts), error=str(error))
    elif conflicts:
        say_reasons("nothing was changed, because of conflicts:", conflicts)
    else:
        output.say(f"nothing was changed: {shown_name(str(error))}.")
    return EXIT_CONFLICT if conflicts else EXIT_FAILED
