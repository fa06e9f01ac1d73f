"""`outrider find`: the places that a question is about, best first, for people."""

import asyncio
from argparse import Namespace

from outrider.delegation.project import open_project
from outrider.surfaces.parser import CWD, argument, number
from outrider.surfaces.terminal import output
from outrider.surfaces.tool_calls import call_tool, project_context

EXAMPLES = """\
Needs no API key, model or index. Each match starts with path:line, which most
terminals and editors can open.

examples:
  outrider find "where is the idle timeout enforced"
  outrider find "retry backoff" --in src --limit 3
"""
ARGUMENTS = (
    argument("about", nargs="+", metavar="WORD", help="a question or a few words"),
    argument("--in", dest="path", default=".", metavar="DIR", help="search only this folder"),
    argument("--limit", type=number, default=8, metavar="N", help="show at most N matches (8)"),
    CWD,
)


def execute(arguments: Namespace) -> int:
    project = open_project(arguments.cwd)
    output.warn(project.settings.warnings)
    asked = {"about": " ".join(arguments.about), "path": arguments.path, "limit": arguments.limit}
    outcome = asyncio.run(call_tool("find", asked, project_context(project)))
    return output.write_envelope(outcome.envelope, outcome.text, as_json=arguments.json)
