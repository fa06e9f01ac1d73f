"""`outrider land`: puts what a writer's run changed into the user's files."""

import os
import sys
from argparse import Namespace

from outrider.delegation.landing import land_run
from outrider.protocol.changes import LandingConflict
from outrider.protocol.data import to_json
from outrider.surfaces.cli import writers
from outrider.surfaces.parser import argument, bad_call, flag
from outrider.surfaces.terminal import output
from outrider.surfaces.terminal.changes import stat_lines
from outrider.workspaces.layers.landing import CheckFailed

EXAMPLES = """\
All of it lands or nothing. Text that you changed too is merged; where that
can't be done, nothing is changed, the conflicts are named, and the exit code
is 3.

examples:
  outrider land last
  outrider land 1a2b --only src --check "pytest -q"
  outrider land 1a2b --commit "Make the retry limit configurable"
  outrider land 1a2b --branch retry-limit
"""
ARGUMENTS = (
    writers.RUN,
    argument(
        "--only", metavar="PATH", action="append", default=[], help="only this; the rest can wait"
    ),
    flag("--ignored", "also files that git ignores here"),
    argument("--check", metavar="CMD", help="land only if CMD succeeds on the merged tree"),
    argument("--commit", metavar="MESSAGE", nargs="?", const="", help="commit exactly what lands"),
    argument(
        "--branch", metavar="NAME", help="put it on a new branch; your files stay as they are"
    ),
)


def execute(arguments: Namespace) -> int:
    """Land the run; return 3 where it conflicts."""
    if arguments.branch and (arguments.commit is not None or arguments.check):
        raise bad_call("--branch goes with neither --commit nor --check", "land")
    run = writers.named_run(arguments.run)
    only = writers.paths_in(run, arguments.only)
    told = {"runId": run.folder.name}
    try:
        if arguments.branch:
            made = run.branch(arguments.branch, only=only, ignored=arguments.ignored)
            words = (
                f"branch {arguments.branch} has commit {made[:12]}; your files are as they were."
            )
            told |= {"branch": arguments.branch, "commit": made, "state": run.state}
        else:
            drawn = land_run(
                run,
                os.environ,
                only=only,
                ignored=arguments.ignored,
                check=arguments.check,
                commit=arguments.commit,
                output=sys.stderr.fileno(),
            )
            words = "\n".join(stat_lines(drawn))
            words += f" landed. Take it back with: outrider undo {run.folder.name}"
            told |= {"state": run.state, "landed": to_json([one.file for one in drawn])}
    except (LandingConflict, CheckFailed, OSError) as error:
        return writers.failed(error, run, arguments)
    output.write_json(told) if arguments.json else output.write_clean(f"{words}\n")
    return 0
