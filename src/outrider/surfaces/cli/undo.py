"""`outrider undo`: takes what a writer's run has landed out of the user's files again."""

from argparse import Namespace

from outrider.protocol.changes import LandingConflict
from outrider.surfaces.cli import writers
from outrider.surfaces.text import count

EXAMPLES = """\
What you have changed since then stays: text is merged. Where that can't be
done, nothing is changed, the conflicts are named, and the exit code is 3.

examples:
  outrider undo last
"""
ARGUMENTS = (writers.RUN,)


def execute(arguments: Namespace) -> int:
    """Undo the landing; return 3 where it conflicts."""
    run = writers.named_run(arguments.run)
    paths = len(run.landed)
    try:
        run.undo()
    except (LandingConflict, OSError) as error:
        return writers.failed(error, run, arguments)
    again = f"The run can land again: outrider land {run.folder.name}"
    return writers.tell(run, arguments, f"{count(paths, 'path')} undone. {again}")
