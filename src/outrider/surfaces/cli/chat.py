"""`outrider chat`: the main agent in a terminal."""

import asyncio
import sys
from argparse import Namespace

from outrider.surfaces.cli.run_options import MAIN_OPTIONS, main_flags
from outrider.surfaces.parser import argument, bad_call, flag

EXAMPLES = """\
examples:
  outrider chat
  outrider chat --continue          continue the last session in this folder
  outrider chat --resume 1a2b3c4d   continue this session

Type /help to list the commands. Ctrl-C stops the subagents first, then the
turn, then the program.
"""
ARGUMENTS = (
    flag("--continue", "continue the last session here", dest="go_on"),
    argument("--resume", metavar="RUN", help="continue the session with this id"),
    *MAIN_OPTIONS,
)


def execute(arguments: Namespace) -> int:
    if not sys.stdin.isatty() or not sys.stdout.isatty():
        raise bad_call("chat needs a terminal; in a script, use 'outrider ask'", "chat")
    from outrider.surfaces.chat.app import run_chat

    return asyncio.run(run_chat(arguments, main_flags(arguments)))
