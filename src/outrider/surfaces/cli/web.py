"""`outrider web`: the web tools of a child, for people."""

import asyncio
import os
import tempfile
from argparse import Namespace

from outrider.delegation.request import working_directory
from outrider.protocol.envelope import is_success
from outrider.settings.files import load_settings
from outrider.surfaces.cli import output
from outrider.surfaces.parser import CommandParser, bad_call
from outrider.surfaces.web_calls import TOOLS, call_tool

EXAMPLES = """\
What a child may not reach, this command doesn't reach either: private
addresses, other schemes than http and https. The settings under web. apply.

examples:
  outrider web search "python asyncio timeout"
  outrider web fetch https://docs.python.org/3/library/asyncio-task.html
  outrider web fetch https://example.org https://example.com --json
"""


def configure(parser: CommandParser) -> None:
    """Declare the arguments of `web`."""
    parser.add_argument("action", choices=list(TOOLS), help="search, or fetch pages")
    parser.add_argument("what", metavar="WHAT", nargs="+", help="queries, or addresses")
    parser.add_cwd()


def execute(arguments: Namespace) -> int:
    """Search or fetch, and print what was found."""
    settings = load_settings(working_directory(arguments.cwd), os.environ)
    output.warn(settings.warnings)
    if not settings.config.web.enabled:
        raise bad_call("web.enabled is off", "web")
    name = "queries" if arguments.action == "search" else "urls"
    with tempfile.TemporaryDirectory(prefix="outrider-web-") as folder:
        call = call_tool(TOOLS[arguments.action], {name: arguments.what}, settings.config, folder)
        envelope, text = asyncio.run(call)
    if not arguments.json and is_success(envelope):
        for page in (page for page in envelope["data"].get("pages", ()) if "error" in page):
            output.say(f"{page['url']}: {page['error']}")
    return output.write_envelope(envelope, text, as_json=arguments.json)
