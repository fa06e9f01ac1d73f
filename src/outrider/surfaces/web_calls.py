"""Web tools as a person calls them: by the rules of a child's, and recorded like a child's."""

import asyncio
import os
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from outrider.masking import Masker, secret_environment_values
from outrider.protocol.envelope import Envelope, ToolCode, ToolFault, is_success
from outrider.records.activity import ActivityLog, of_call
from outrider.settings.keys import Config
from outrider.settings.places import state_home
from outrider.tools.context import ToolContext
from outrider.tools.executor import ToolExecutor
from outrider.tools.formatting import error_line
from outrider.tools.loading import builtin_tools
from outrider.tools.web.leaks import OutgoingGuard
from outrider.tools.web.session import StoredPage, WebSession

TOOLS = {"search": "web_search", "fetch": "fetch_content"}
MAX_RESULT_BYTES = 16 << 20


class _Unchecked(OutgoingGuard):
    """People may send what they like: they have read no page that talked them into it."""

    def check(self, outgoing: str) -> None:
        """Let everything pass."""


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
    if tool == TOOLS["fetch"] and is_success(outcome.envelope):
        text = _whole(web.responses[outcome.envelope["data"]["responseId"]])
    args, envelope = masker.value([args, outcome.envelope])[0]
    ActivityLog(state).add(of_call(tool, args, envelope))
    return outcome.envelope, text


def search_once(provider: str, config: Config) -> str:
    """Ask one search provider a small question; raises `ToolFault` where it gives no answer."""
    config = replace(config, web=replace(config.web, provider=provider))
    with tempfile.TemporaryDirectory(prefix="outrider-web-") as folder:
        envelope, _ = asyncio.run(call_tool(TOOLS["search"], {"query": "weather"}, config, folder))
    if not is_success(envelope):
        raise ToolFault(ToolCode.UPSTREAM_FAILED, error_line(envelope))
    return "it answers"


def _whole(pages: list[StoredPage]) -> str:
    """Return fetched pages to their last character: a person has no tool to read on with."""
    came = (page for page in pages if "error" not in page.about)
    return "\n".join(f"# {one.title or one.url}\n{one.url}\n\n{one.text}\n" for one in came)
