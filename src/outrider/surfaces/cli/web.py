"""`outrider web`: the web tools of a child, for people."""

import asyncio
import os
import tempfile
from argparse import Namespace
from pathlib import Path
from typing import Any

from outrider.delegation.request import working_directory
from outrider.masking import Masker, secret_environment_values
from outrider.protocol.envelope import Envelope, is_success
from outrider.protocol.outcomes import EXIT_FAILED
from outrider.records.activity import ActivityLog, of_call
from outrider.settings.files import load_settings
from outrider.settings.keys import Config
from outrider.settings.places import state_home
from outrider.surfaces.cli import output
from outrider.surfaces.cli.parser import CommandParser, bad_call
from outrider.tools.context import ToolContext
from outrider.tools.executor import ToolExecutor
from outrider.tools.formatting import error_line
from outrider.tools.loading import builtin_tools
from outrider.tools.web.leaks import OutgoingGuard
from outrider.tools.web.session import WebSession
from outrider.tools.web.stored import MAX_CHARACTERS

EXAMPLES = """\
What a child may not reach, this command doesn't reach either: private addresses,
other schemes than http and https. The settings under web. apply.

examples:
  outrider web search "python asyncio timeout"
  outrider web fetch https://docs.python.org/3/library/asyncio-task.html
  outrider web fetch https://example.org https://example.com --json
"""

TOOLS = {"search": "web_search", "fetch": "fetch_content"}
MAX_RESULT_BYTES = 16 << 20


class _Unchecked(OutgoingGuard):
    """People may send what they like: they have read no page that talked them into it."""

    def check(self, outgoing: str) -> None:
        """Let everything pass."""


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
    failed = [page for page in _pages(envelope) if page.get("error")]
    came = is_success(envelope) and (not failed or len(failed) < len(_pages(envelope)))
    if arguments.json:
        output.write_json(envelope)
        return 0 if came else EXIT_FAILED
    if not is_success(envelope):
        output.say(error_line(envelope))
    elif came:
        output.write_text(text)
    for page in failed:
        output.say(f"{page['url']}: {page['error']}")
    return 0 if came else EXIT_FAILED


async def call_tool(
    tool: str, args: dict[str, Any], config: Config, folder: str
) -> tuple[Envelope, str]:
    """Return what a web tool answers to a person, and its text, whole; the call is recorded."""
    state, masker = state_home(os.environ), Masker(secrets=secret_environment_values(os.environ))
    web = WebSession(config.web, keys=os.environ, mask=masker, state=state)
    web.outgoing = _Unchecked(masker)
    convert = config.convert if config.convert.enabled else None
    context = ToolContext(cwd=Path(folder), spill=Path(folder), web=web, convert=convert)
    tools = [one for one in builtin_tools() if one.entry.network]
    async with ToolExecutor(tools, context, result_bytes=MAX_RESULT_BYTES) as executor:
        outcome = await executor.execute(tool, args)
        text = outcome.text
        if tool == TOOLS["fetch"]:
            text = await _whole(executor, outcome.envelope)
    args, envelope = masker.value([args, outcome.envelope])[0]
    ActivityLog(state).add(of_call(tool, args, envelope))
    return outcome.envelope, text


def _pages(envelope: Envelope) -> list[dict[str, Any]]:
    data: Any = envelope["data"]
    return (data.get("pages") or []) if is_success(envelope) else []


async def _whole(executor: ToolExecutor, envelope: Envelope) -> str:
    """Return fetched pages to their last character: a person has no tool to read on with."""
    parts: list[str] = []
    for page in (page for page in _pages(envelope) if not page.get("error")):
        text = ""
        while len(text) < page["characters"]:
            wanted = {"responseId": envelope["data"]["responseId"], "index": page["index"]}
            wanted |= {"offset": len(text), "limit": MAX_CHARACTERS}
            more = (await executor.execute("get_search_content", wanted)).envelope
            if not is_success(more) or not more["data"]["text"]:
                break
            text += more["data"]["text"]
        parts.append(f"# {page.get('title') or page['url']}\n{page['url']}\n\n{text}\n")
    return "\n".join(parts)
