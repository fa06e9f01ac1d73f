"""`outrider lsp`: what language servers know, for people."""

import asyncio
import re
from argparse import Namespace
from pathlib import Path
from typing import Any

from outrider.delegation.project import Project, open_project
from outrider.delegation.request import current_depth
from outrider.settings.keys import PRIVILEGED_LSP_ACTIONS, READ_ONLY_LSP_ACTIONS
from outrider.surfaces.cli import output
from outrider.surfaces.parser import CommandParser, bad_call
from outrider.surfaces.reports import lsp as listing
from outrider.tools.context import ToolContext
from outrider.tools.executor import ToolExecutor, ToolOutcome
from outrider.tools.loading import builtin_tools
from outrider.tools.lsp.session import LspSession

EXAMPLES = """\
Without arguments it lists the language servers and the settings. rename,
codeAction and restart need lsp.tool.allowMutatingActions.

examples:
  outrider lsp symbols src/app.py
  outrider lsp definition src/app.py:12:9
  outrider lsp references src/app.py --symbol Task.run
"""
_PLACE = re.compile(r"(.+?)(?::([1-9]\d*))?(?::([1-9]\d*))?", re.DOTALL)


def configure(parser: CommandParser) -> None:
    """Declare the arguments of `lsp`."""
    actions = (*READ_ONLY_LSP_ACTIONS, *PRIVILEGED_LSP_ACTIONS)
    parser.add_argument("action", nargs="?", choices=actions, metavar="ACTION")
    parser.add_argument("place", nargs="?", default="", metavar="FILE[:LINE[:COL]]")
    parser.add_argument("--symbol", metavar="NAME", help="a name, or Class.method")
    parser.add_argument("--query", metavar="TEXT", help="what to look for, or a code action")
    parser.add_argument("--new-name", metavar="NAME", help="for rename")
    parser.add_argument("--dry-run", action="store_true", help="show what would be changed")
    parser.add_cwd()


def execute(arguments: Namespace) -> int:
    """Ask, and print the answer; without an action, the list of servers."""
    if arguments.action is None:
        listed = listing.report(arguments)
        output.write_json(listed.data) if arguments.json else output.write_report(listed)
        return 0
    project = open_project(arguments.cwd)
    output.warn(project.settings.warnings)
    if not project.config.lsp.enabled:
        raise bad_call("lsp.enabled is off", "lsp")
    place = _PLACE.fullmatch(arguments.place)
    path, line, column = place.groups() if place else (None, None, None)
    given = {"action": arguments.action, "path": path, "line": line and int(line)}
    given |= {"column": column and int(column), "symbol": arguments.symbol}
    given |= {"query": arguments.query, "newName": arguments.new_name, "dryRun": arguments.dry_run}
    outcome = asyncio.run(_ask(_context(project), given))
    return output.write_envelope(outcome.envelope, outcome.text, as_json=arguments.json)


def _context(project: Project) -> ToolContext:
    config = project.config
    # A child that has a shell is still a child.
    may_change = config.lsp.tool.allow_mutating_actions and not current_depth(project.env)
    actions = (*READ_ONLY_LSP_ACTIONS, *(PRIVILEGED_LSP_ACTIONS if may_change else ()))
    return ToolContext(
        cwd=project.folder,
        allowed_roots=tuple(Path(root).expanduser() for root in config.files.allowed_roots),
        allow_credential_files=config.files.allow_credential_files,
        environment=project.plain_env,
        lsp=LspSession(config.lsp, actions, trusted=project.trusted),
    )


async def _ask(context: ToolContext, given: dict[str, Any]) -> ToolOutcome:
    tools = [tool for tool in builtin_tools() if tool.name == "lsp"]
    async with ToolExecutor(tools, context) as executor:
        return await executor.execute("lsp", given)
