"""`outrider find`: the places that a question is about, best first, for people."""

import asyncio
from argparse import Namespace
from pathlib import Path
from typing import Any

from outrider.delegation.project import open_project
from outrider.protocol.envelope import is_success
from outrider.protocol.outcomes import EXIT_FAILED
from outrider.surfaces.cli import output
from outrider.surfaces.parser import CommandParser
from outrider.tools.context import ToolContext
from outrider.tools.executor import ToolExecutor, ToolOutcome
from outrider.tools.formatting import error_line
from outrider.tools.loading import builtin_tools

EXAMPLES = """\
It needs no key, no model and no index. Each place begins with path:line, which
terminals and editors open.

examples:
  outrider find "where is the idle timeout enforced"
  outrider find "retry backoff" --in src --limit 3
"""


def configure(parser: CommandParser) -> None:
    """Declare the arguments of `find`."""
    parser.add_argument("about", nargs="+", metavar="WORD", help="a question, or a few words")
    parser.add_argument("--in", dest="path", default=".", metavar="DIR", help="only in this folder")
    parser.add_argument("--limit", type=int, default=8, metavar="N", help="how many places (8)")
    parser.add_cwd()


def execute(arguments: Namespace) -> int:
    """Search, and print the places."""
    project = open_project(arguments.cwd)
    output.warn(project.settings.warnings)
    files = project.config.files
    context = ToolContext(
        cwd=project.folder,
        allowed_roots=tuple(Path(root).expanduser() for root in files.allowed_roots),
        allow_credential_files=files.allow_credential_files,
    )
    asked = {"about": " ".join(arguments.about), "path": arguments.path, "limit": arguments.limit}
    outcome = asyncio.run(_found(context, asked))
    if arguments.json:
        output.write_json(outcome.envelope)
    elif not is_success(outcome.envelope):
        output.say(error_line(outcome.envelope))
    else:
        output.write_text(outcome.text)
    return 0 if is_success(outcome.envelope) else EXIT_FAILED


async def _found(context: ToolContext, asked: dict[str, Any]) -> ToolOutcome:
    tools = [tool for tool in builtin_tools() if tool.name == "find"]
    async with ToolExecutor(tools, context) as executor:
        return await executor.execute("find", asked)
