"""`outrider lsp`: what language servers know, for people."""

import asyncio
import re
from argparse import Namespace
from pathlib import Path
from typing import Any

from outrider.delegation.project import Project, open_project
from outrider.delegation.request import current_depth
from outrider.protocol.envelope import is_success
from outrider.protocol.outcomes import EXIT_FAILED
from outrider.settings.keys import PRIVILEGED_LSP_ACTIONS, READ_ONLY_LSP_ACTIONS
from outrider.settings.layers import effective
from outrider.surfaces.cli import output
from outrider.surfaces.cli.parser import CommandParser, bad_call
from outrider.surfaces.cli.text import as_text
from outrider.tools.context import ToolContext
from outrider.tools.executor import ToolExecutor, ToolOutcome
from outrider.tools.formatting import error_line
from outrider.tools.loading import builtin_tools
from outrider.tools.lsp.session import LspSession

EXAMPLES = """\
Without arguments it lists the language servers and the settings. rename, codeAction
and restart need lsp.tool.allowMutatingActions.

examples:
  outrider lsp
  outrider lsp symbols src/app.py
  outrider lsp definition src/app.py:12:9
  outrider lsp references src/app.py --symbol Task.run
"""

_PLACE = re.compile(r"(?P<path>.+?)(?::(?P<line>[1-9]\d*))?(?::(?P<column>[1-9]\d*))?")


def configure(parser: CommandParser) -> None:
    """Declare the arguments of `lsp`."""
    actions = (*READ_ONLY_LSP_ACTIONS, *PRIVILEGED_LSP_ACTIONS)
    parser.add_argument("action", nargs="?", default="servers", choices=actions, metavar="ACTION")
    parser.add_argument("place", nargs="?", metavar="FILE[:LINE[:COL]]", help="what it is about")
    parser.add_argument("--symbol", metavar="NAME", help="a name, or Class.method")
    parser.add_argument("--query", metavar="TEXT", help="what to look for, or a code action")
    parser.add_argument("--new-name", metavar="NAME", help="for rename")
    parser.add_argument("--dry-run", action="store_true", help="show what would be changed")
    parser.add_cwd()


def execute(arguments: Namespace) -> int:
    """Ask, and print the answer."""
    project = open_project(arguments.cwd)
    output.warn(project.settings.warnings)
    if not project.config.lsp.enabled:
        raise bad_call("lsp.enabled is off", "lsp")
    given: dict[str, Any] = {"action": arguments.action, "symbol": arguments.symbol}
    given |= {"query": arguments.query, "newName": arguments.new_name}
    given |= {"dryRun": arguments.dry_run or None}
    if arguments.place and (place := _PLACE.fullmatch(arguments.place)):
        given |= {
            name: part if name == "path" else part and int(part)
            for name, part in place.groupdict().items()
        }
    outcome = asyncio.run(_ask(project, given))
    if arguments.json:
        output.write_json(outcome.envelope)
    elif is_success(outcome.envelope):
        output.write_text(outcome.text)
        if arguments.action == "servers":
            settings = (
                f"{key.name} {as_text(value)}"
                for key, value in effective(project.config)
                if key.name.startswith("lsp.")
            )
            output.write_text("\n".join(settings))
    else:
        output.say(error_line(outcome.envelope))
    return 0 if is_success(outcome.envelope) else EXIT_FAILED


async def _ask(project: Project, given: dict[str, Any]) -> ToolOutcome:
    config = project.config
    # A child that has a shell is still a child.
    may_change = config.lsp.tool.allow_mutating_actions and not current_depth(project.env)
    mutating = PRIVILEGED_LSP_ACTIONS if may_change else ()
    session = LspSession(config.lsp, (*READ_ONLY_LSP_ACTIONS, *mutating), trusted=project.trusted)
    context = ToolContext(
        cwd=project.folder,
        allowed_roots=tuple(Path(root).expanduser() for root in config.files.allowed_roots),
        allow_credential_files=config.files.allow_credential_files,
        environment=project.plain_env,
        lsp=session,
    )
    tools = [tool for tool in builtin_tools() if tool.name == "lsp"]
    async with ToolExecutor(tools, context) as executor:
        return await executor.execute("lsp", {k: v for k, v in given.items() if v is not None})
