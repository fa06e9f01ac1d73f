"""`outrider undo`: takes what a writer's run has landed out of the user's files again."""

from argparse import Namespace
from typing import Any

from outrider.surfaces.cli import writers
from outrider.surfaces.text import count
from outrider.workspaces.layers.landing import WriterRun

EXAMPLES = """\
What you have changed since then stays: text is merged. Where that can't be
done, nothing is changed, the conflicts are named, and the exit code is 3.

examples:
  outrider undo last
"""
ARGUMENTS = (writers.RUN,)


def execute(arguments: Namespace) -> int:
    """Undo the landing; return 3 where it conflicts."""
    return writers.settle(arguments, _undo)


def _undo(run: WriterRun) -> tuple[str, dict[str, Any]]:
    paths = count(len(run.landed), "path")
    run.undo()
    return f"{paths} undone. The run can land again: outrider land {run.folder.name}", {}
