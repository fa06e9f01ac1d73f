"""Tools as a person calls them: by the rules of a child's; calls of the web are recorded too."""

import asyncio
import os
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from outrider.delegation.project import Project
from outrider.masking import Masker, secret_environment_values
from outrider.protocol.envelope import Envelope, ToolCode, ToolFault, is_success
from outrider.records.activity import ActivityLog, of_call
from outrider.settings.keys import Config
from outrider.settings.places import state_home
from outrider.tools.context import ToolContext
from outrider.tools.executor import ToolExecutor, ToolOutcome
from outrider.tools.formatting import error_line
from outrider.tools.loading import builtin_tools
from outrider.tools.web.leaks import OutgoingGuard
from outrider.tools.web.session import WebSession
from outrider.tools.web.web_search import shown_searches

SEARCH, FETCH = "web_search", "fetch_content"
MAX_RESULT_BYTES = 16 << 20


def project_context(project: Project, **more: Any) -> ToolContext:
    """Return what a tool may use that looks at a project's files."""
    files = project.config.files
    return ToolContext(
        cwd=project.folder,
        allowed_roots=tuple(Path(root).expanduser() for root in files.allowed_roots),
        allow_credential_files=files.allow_credential_files,
        **more,
    )


async def call_tool(tool: str, args: dict[str, Any], context: ToolContext) -> ToolOutcome:
    tools = [one for one in builtin_tools() if one.name == tool]
    async with ToolExecutor(tools, context, result_bytes=MAX_RESULT_BYTES) as executor:
        return await executor.execute(tool, args)


class _Unchecked(OutgoingGuard):
    """People may send what they like: they have read no page that talked them into it."""

    def check(self, outgoing: str) -> None:
        """Let everything pass."""


def call_web(tool: str, args: dict[str, Any], config: Config) -> tuple[Envelope, str]:
    """Return what a web tool answers, and its text, whole; the call is recorded."""
    state, masker = state_home(os.environ), Masker(secrets=secret_environment_values(os.environ))
    web = WebSession(config.web, keys=os.environ, mask=masker)
    web.outgoing = _Unchecked(masker)
    convert = config.convert if config.convert.enabled else None
    with tempfile.TemporaryDirectory(prefix="outrider-web-") as folder:
        context = ToolContext(cwd=Path(folder), spill=Path(folder), web=web, convert=convert)
        outcome = asyncio.run(call_tool(tool, args, context))
        envelope, text = outcome.envelope, outcome.text
        if tool == FETCH and is_success(envelope):
            # To the last character: a person has no tool to read on with. Long pages are in files.
            pages = web.responses[envelope["data"]["responseId"]]
            came = (page for page in pages if "error" not in page.about)
            text = "\n".join(f"# {one.title or one.url}\n{one.url}\n\n{one.text}\n" for one in came)
        elif is_success(envelope) and envelope["data"]["responseId"]:
            text = f"{shown_searches(envelope['data'])}\n\n[read a page: outrider web fetch URL]"
    args, masked = masker.value([args, envelope])[0]
    ActivityLog(state).add(of_call(tool, args, masked))
    return envelope, text


def search_once(provider: str, config: Config) -> str:
    """Ask one search provider a small question; raises `ToolFault` where it gives no answer."""
    config = replace(config, web=replace(config.web, provider=provider))
    envelope, _ = call_web(SEARCH, {"query": "weather"}, config)
    if not is_success(envelope):
        raise ToolFault(ToolCode.UPSTREAM_FAILED, error_line(envelope))
    return "it answers"
