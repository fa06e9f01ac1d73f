"""`outrider discard`: removes what a writer's run changed and hasn't landed."""

from argparse import Namespace

from outrider.surfaces.cli import writers

EXAMPLES = """\
Your files stay as they are, and so does the run's record. What has landed
stays too, and can still be undone.

examples:
  outrider discard last
"""
ARGUMENTS = (writers.RUN,)


def execute(arguments: Namespace) -> int:
    """Discard the changes."""
    run = writers.named_run(arguments.run)
    run.discard()
    return writers.tell(run, arguments, f"the changes of run {run.folder.name} are discarded.")
