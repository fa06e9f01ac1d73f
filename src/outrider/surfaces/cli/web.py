"""`outrider web`: the web tools of a child, for people."""

import os
from argparse import Namespace

from outrider.delegation.request import working_directory
from outrider.protocol.envelope import is_success
from outrider.settings.files import load_settings
from outrider.surfaces.parser import CWD, argument, bad_call
from outrider.surfaces.terminal import output
from outrider.surfaces.tool_calls import FETCH, SEARCH, call_web

EXAMPLES = """\
The same limits apply as for agents: only http and https, no private addresses,
and your settings under web.

examples:
  outrider web search "python asyncio timeout"
  outrider web fetch https://docs.python.org/3/library/asyncio-task.html
  outrider web fetch https://example.org https://example.com --json
"""
TOOLS = {"search": (SEARCH, "queries"), "fetch": (FETCH, "urls")}
ARGUMENTS = (
    argument("action", choices=list(TOOLS), help="search or fetch"),
    argument("what", metavar="WHAT", nargs="+", help="search queries, or URLs to fetch"),
    CWD,
)


def execute(arguments: Namespace) -> int:
    settings = load_settings(working_directory(arguments.cwd), os.environ)
    output.warn(settings.warnings)
    if not settings.config.web.enabled:
        raise bad_call("web.enabled is off; set it to true to use the web", "web")
    tool, name = TOOLS[arguments.action]
    envelope, text = call_web(tool, {name: arguments.what}, settings.config)
    if not arguments.json and is_success(envelope):
        for page in (page for page in envelope["data"].get("pages", ()) if "error" in page):
            output.say(f"{page['url']}: {page['error']}")
    return output.write_envelope(envelope, text, as_json=arguments.json)
