"""`outrider ask`: one question to the main agent, with the answer alone on stdout."""

import asyncio
from argparse import Namespace

from outrider.surfaces.chat.conversation import Conversation
from outrider.surfaces.cli.inputs import whole_task
from outrider.surfaces.cli.options import add_options
from outrider.surfaces.cli.run import STOP_SIGNALS, told
from outrider.surfaces.parser import CommandParser

EXAMPLES = """\
examples:
  outrider ask "How does a request reach the database?"
  git diff | outrider ask -
  outrider ask "Fix the typo in README.md" --allow-write

The main agent reads, and delegates what takes more. It writes and runs
commands only with --allow-write, or when you say yes. The exit code is that of
'outrider run'.
"""


def configure(parser: CommandParser) -> None:
    """Declare the arguments of `ask`."""
    parser.add_argument("question", metavar="QUESTION", help="what to do; - reads it from stdin")
    add_options(parser, main=True)


def execute(arguments: Namespace) -> int:
    """Ask, and print the answer."""
    question = whole_task(arguments.question, ())
    conversation = Conversation(arguments)
    result = asyncio.run(conversation.turn(question, STOP_SIGNALS))
    code = told(result, as_json=arguments.json)
    if result.result is not None:
        conversation.view.end(result)
    return code
