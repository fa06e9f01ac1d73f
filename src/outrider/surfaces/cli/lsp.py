"""`outrider lsp`: what language servers know, for people."""

import asyncio
import re
from argparse import Namespace

from outrider.delegation.depth import current_depth
from outrider.delegation.project import open_project
from outrider.settings.keys import PRIVILEGED_LSP_ACTIONS, READ_ONLY_LSP_ACTIONS
from outrider.surfaces.parser import CWD, argument, bad_call, flag
from outrider.surfaces.reports import lsp as listing
from outrider.surfaces.terminal import output
from outrider.surfaces.tool_calls import call_tool, project_context
from outrider.tools.lsp.session import LspSession

EXAMPLES = """\
Without arguments, lists the language servers and their settings. rename,
codeAction and restart need lsp.tool.allowMutatingActions.

examples:
  outrider lsp symbols src/app.py
  outrider lsp definition src/app.py:12:9
  outrider lsp references src/app.py --symbol Task.run
"""
ACTIONS = (*READ_ONLY_LSP_ACTIONS, *PRIVILEGED_LSP_ACTIONS)
_ACTION = "definition, references, hover, symbols, diagnostics, …"
ARGUMENTS = (
    argument("action", nargs="?", choices=ACTIONS, metavar="ACTION", help=_ACTION),
    argument("place", nargs="?", default="", metavar="FILE[:LINE[:COL]]", help="where to look"),
    argument("--symbol", metavar="NAME", help="a symbol: name or Class.method"),
    argument("--query", metavar="TEXT", help="the text to search for, or the code action to apply"),
    argument("--new-name", metavar="NAME", help="the new name, for rename"),
    flag("--dry-run", "show the changes without making them"),
    CWD,
)
_PLACE = re.compile(r"(.+?)(?::([1-9]\d*))?(?::([1-9]\d*))?", re.DOTALL)


def execute(arguments: Namespace) -> int:
    """Ask, and print the answer; without an action, the list of servers."""
    if arguments.action is None:
        output.write_report(listing.report(arguments), as_json=arguments.json)
        return 0
    project = open_project(arguments.cwd)
    output.warn(project.settings.warnings)
    if not project.config.lsp.enabled:
        raise bad_call("lsp.enabled is off; set it to true to use language servers", "lsp")
    place = _PLACE.fullmatch(arguments.place)
    path, line, column = place.groups() if place else (None, None, None)
    given = {"action": arguments.action, "path": path, "line": line and int(line)}
    given |= {"column": column and int(column), "symbol": arguments.symbol}
    given |= {"query": arguments.query, "newName": arguments.new_name, "dryRun": arguments.dry_run}
    # A child that has a shell is still a child.
    may_change = project.config.lsp.tool.allow_mutating_actions and not current_depth(project.env)
    actions = (*READ_ONLY_LSP_ACTIONS, *(PRIVILEGED_LSP_ACTIONS if may_change else ()))
    lsp = LspSession(project.config.lsp, actions, trusted=project.trusted)
    context = project_context(project, environment=project.plain_env, lsp=lsp)
    outcome = asyncio.run(call_tool("lsp", given, context))
    return output.write_envelope(outcome.envelope, outcome.text, as_json=arguments.json)
