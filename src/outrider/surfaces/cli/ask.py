"""`outrider ask`: one question to the main agent, with the answer alone on stdout."""

import asyncio
from argparse import Namespace

from outrider.surfaces.chat.session import ChatSession
from outrider.surfaces.cli.run import print_result, stop_signals
from outrider.surfaces.cli.run_options import MAIN_OPTIONS, main_flags
from outrider.surfaces.cli.task_input import whole_task
from outrider.surfaces.parser import argument

EXAMPLES = """\
examples:
  outrider ask "How does a request reach the database?"
  git diff | outrider ask -
  outrider ask "Fix the typo in README.md" --allow-write

The main agent reads code itself and delegates larger jobs. It writes files and
runs commands only with --allow-write or after you say yes. The exit codes are
those of 'outrider run'.
"""
ARGUMENTS = (
    argument("question", metavar="QUESTION", help="what to ask; - reads it from stdin"),
    *MAIN_OPTIONS,
)


def execute(arguments: Namespace) -> int:
    question = whole_task(arguments.question, ())
    session = ChatSession(arguments, main_flags(arguments))
    result = asyncio.run(session.turn(question, stop_signals()))
    code = print_result(result, as_json=arguments.json)
    if result.result is not None:
        session.view.end(result)
    return code
