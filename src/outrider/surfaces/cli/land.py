"""`outrider land`: puts what a writer's run changed into the user's files."""

import os
import sys
from argparse import Namespace
from functools import partial
from typing import Any

from outrider.delegation.landing import landing_check
from outrider.protocol.data import to_json
from outrider.surfaces.cli import writers
from outrider.surfaces.parser import argument, bad_call, flag
from outrider.surfaces.terminal.changes import stat_lines
from outrider.workspaces.layers.landing import WriterRun
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
_ONLY = "only this; the rest can wait"
_BRANCH = "put it on a new branch; your files stay as they are"
ARGUMENTS = (
    writers.RUN,
    argument("--only", metavar="PATH", action="append", default=[], help=_ONLY),
    flag("--ignored", "also files that git ignores here"),
    argument("--check", metavar="CMD", help="land only if CMD succeeds on the merged tree"),
    argument("--commit", metavar="MESSAGE", nargs="?", const="", help="commit exactly what lands"),
    argument("--branch", metavar="NAME", help=_BRANCH),
)


def execute(arguments: Namespace) -> int:
    """Land the run; return 3 where it conflicts."""
    if arguments.branch and (arguments.commit is not None or arguments.check):
        raise bad_call("--branch goes with neither --commit nor --check", "land")
    return writers.settle(arguments, partial(_branch if arguments.branch else _land, arguments))


def _branch(arguments: Namespace, run: WriterRun) -> tuple[str, dict[str, Any]]:
    name, only = arguments.branch, writers.paths_in(run, arguments.only)
    made = run.branch(name, only=only, ignored=arguments.ignored)
    words = f"branch {name} has commit {made[:12]}; your files are as they were."
    return words, {"branch": name, "commit": made}


def _land(arguments: Namespace, run: WriterRun) -> tuple[str, dict[str, Any]]:
    check = landing_check(run, os.environ, None, arguments.check, sys.stderr.fileno())
    only, commit = writers.paths_in(run, arguments.only), arguments.commit
    landed = run.land(only=only, ignored=arguments.ignored, check=check, commit=commit)
    drawn = reviewed(run, landed)
    words = f"landed. Take it back with: outrider undo {run.folder.name}"
    files = to_json([one.file for one in drawn])
    return "\n".join(stat_lines(drawn)) + f" {words}", {"landed": files}
