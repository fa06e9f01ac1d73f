"""`outrider ask`: one question to the main agent, with the answer alone on stdout."""

import asyncio
import os
import signal
import sys
from argparse import Namespace

from outrider.delegation.main_session import MainSession
from outrider.delegation.perform import Caller
from outrider.delegation.preparation import Prepared
from outrider.protocol.results import ToolResult
from outrider.surfaces.chat.board import Board, board
from outrider.surfaces.cli.inputs import whole_task
from outrider.surfaces.cli.options import add_main_options, option_flags
from outrider.surfaces.cli.run import hide_secrets, told
from outrider.surfaces.cli.views import opening
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
    add_main_options(parser)


def execute(arguments: Namespace) -> int:
    """Ask, and print the answer."""
    question = whole_task(arguments.question, ())
    shown = board(shows_answer=False)
    result = asyncio.run(_asked(main_session(arguments, shown), shown, question))
    code = told(result, as_json=arguments.json)
    if result.result is not None:
        shown.end(result)
    return code


def main_session(arguments: Namespace, shown: Board) -> MainSession:
    """Return a session for a command's arguments."""
    flags = option_flags(arguments) | ({"model": arguments.model} if arguments.model else {})

    def started(prepared: Prepared, run_id: str) -> None:
        hide_secrets(prepared)
        if prepared.main and not prepared.main["history"]:
            warnings = (f"warning: {warning}." for warning in prepared.warnings)
            for line in (*warnings, opening(prepared, run_id)):
                shown.say(line)

    can_ask = sys.stdin.isatty() and sys.stderr.isatty()
    caller = Caller(os.environ, flags=flags, on_start=started, one_shot=True)
    decide = shown.decide if can_ask else None
    return MainSession(caller, shown.watch, arguments.cwd, arguments.allow_write, decide)


async def _asked(session: MainSession, shown: Board, question: str) -> ToolResult:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
            loop.add_signal_handler(number, _stop, session, number)
    with shown:
        return await session.turn(question)


def _stop(session: MainSession, number: int) -> None:
    if number != signal.SIGINT or not session.stop_children():
        session.stop()
