"""`outrider land`: puts what a writer's run changed into the user's files."""

import os
import sys
from argparse import Namespace

from outrider.delegation.project import open_project
from outrider.protocol.changes import LandingConflict
from outrider.protocol.data import to_json
from outrider.surfaces.cli import writers
from outrider.surfaces.parser import argument, bad_call, flag
from outrider.surfaces.terminal import output
from outrider.workspaces.layers.landing import CheckFailed
from outrider.workspaces.layers.merged_check import check_of
from outrider.workspaces.layers.review import reviewed

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
    run = writers.writer_run(arguments.run)
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
            check = check_of(_command(arguments), os.environ, sys.stderr.fileno())
            landed = run.land(
                only=only, ignored=arguments.ignored, check=check, commit=arguments.commit
            )
            drawn = reviewed(run, landed)
            words = "\n".join(writers.stat_lines(drawn))
            words += f" landed. Take it back with: outrider undo {run.folder.name}"
            told |= {"state": run.state, "landed": to_json([one.file for one in drawn])}
    except (LandingConflict, CheckFailed, OSError) as error:
        return writers.failed(error, run, arguments)
    output.write_json(told) if arguments.json else output.write_clean(f"{words}\n")
    return 0


def _command(arguments: Namespace) -> str | None:
    """Return what has to pass: the user's own check of every landing, and that of this one."""
    checks = (open_project().config.subagents.land_check, arguments.check)
    return " && ".join(f"({one})" for one in checks if one) or None
