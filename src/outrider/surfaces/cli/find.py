"""`outrider find`: the places that a question is about, best first, for people."""

import asyncio
from argparse import Namespace

from outrider.delegation.project import open_project
from outrider.surfaces.parser import CWD, argument, number
from outrider.surfaces.terminal import output
from outrider.surfaces.tool_calls import call_tool, project_context

EXAMPLES = """\
It needs no key, no model and no index. Each place begins with path:line, which
terminals and editors open.

examples:
  outrider find "where is the idle timeout enforced"
  outrider find "retry backoff" --in src --limit 3
"""
ARGUMENTS = (
    argument("about", nargs="+", metavar="WORD", help="a question, or a few words"),
    argument("--in", dest="path", default=".", metavar="DIR", help="only in this folder"),
    argument("--limit", type=number, default=8, metavar="N", help="how many places (8)"),
    CWD,
)


def execute(arguments: Namespace) -> int:
    """Search, and print the places."""
    project = open_project(arguments.cwd)
    output.warn(project.settings.warnings)
    asked = {"about": " ".join(arguments.about), "path": arguments.path, "limit": arguments.limit}
    outcome = asyncio.run(call_tool("find", asked, project_context(project)))
    return output.write_envelope(outcome.envelope, outcome.text, as_json=arguments.json)
