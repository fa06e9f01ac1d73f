"""`outrider resume`: a follow-up question to a run that has ended."""

from argparse import Namespace

from outrider.delegation.request import Request
from outrider.surfaces.cli.run import delegate_to
from outrider.surfaces.cli.run_options import BACKGROUND, OPTIONS, WRITING
from outrider.surfaces.cli.task_input import whole_task
from outrider.surfaces.parser import argument

EXAMPLES = """\
examples:
  outrider resume last "And where is it tested?"
A new run with a budget of its own. Agent, model, tools, folder, schema and
conversation are those of the earlier one; other options are given again. The
exit codes are those of 'outrider run'.
"""
ARGUMENTS = (
    argument("run", metavar="RUN", help="a run id, the start of one, or last"),
    argument("task", metavar="TASK", help="what to ask or do now; - reads it from stdin"),
    *WRITING,
    *BACKGROUND,
    *(option for option in OPTIONS if not {"--model", "--cwd"} & {*option[0]}),
)


def execute(arguments: Namespace) -> int:
    task = whole_task(arguments.task, ())
    return delegate_to(Request("", task, check=arguments.check, resume=arguments.run), arguments)
