"""`outrider discard`: removes what a writer's run changed and hasn't landed."""

from argparse import Namespace
from typing import Any

from outrider.surfaces.cli import writers
from outrider.workspaces.layers.landing import WriterRun

EXAMPLES = """\
Your files stay as they are, and so does the run's record. What has landed
stays too, and can still be undone.

examples:
  outrider discard last
"""
ARGUMENTS = (writers.RUN,)


def execute(arguments: Namespace) -> int:
    """Discard the changes."""
    return writers.settle(arguments, _discard)


def _discard(run: WriterRun) -> tuple[str, dict[str, Any]]:
    run.discard()
    return f"the changes of run {run.folder.name} are discarded.", {}
