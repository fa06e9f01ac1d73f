"""The MCP server at work: tools that delegate, reports as prompts, agents that change."""

import asyncio
import signal
import sys
from functools import partial
from pathlib import Path

from outrider.agents.definitions import AgentDefinition
from outrider.delegation.project import open_project
from outrider.delegation.request import invalid
from outrider.delegation.run_handle import RunHandle
from outrider.protocol.data import as_object
from outrider.protocol.errors import Refusal
from outrider.protocol.results import refused
from outrider.settings.keys import Config
from outrider.surfaces.mcp.connection import ClientConnection, ClientRequest
from outrider.surfaces.mcp.handshake import INVALID_PARAMS, ClientSession, Json, RpcError
from outrider.surfaces.mcp.offer import CHANGER, READER, Offer
from outrider.surfaces.mcp.results import call_result, checked_run_id, recorded_result
from outrider.surfaces.mcp.runs import Runs, patience, tell_run
from outrider.surfaces.mcp_hosts import advice_for
from outrider.surfaces.reports import REPORTS

LOOK_EVERY_SECONDS = 2.0  # how often it is looked whether agent files have changed
REPORT = """\
import sys
from outrider.surfaces.reports import report
print(*report(sys.argv[1], sys.argv[2:]).lines(100), sep="\\n")
"""


class McpServer:
    """Answers one client."""

    def __init__(self, session: ClientSession, offer: Offer, stdout: int) -> None:
        handlers = {
            "tools/call": self._call_tool,
            "prompts/list": self._list_prompts,
            "prompts/get": self._get_prompt,
        }
        self._connection = ClientConnection(session, handlers, 0, stdout)
        self._offer = offer
        self._runs = Runs()
        self._confirmed: set[AgentDefinition] = set()

    async def serve(self, pending: bytes) -> None:
        """Answer until the client leaves or a signal comes; then end every run."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._connection.closed.set)
        looking = loop.create_task(self._look())
        await self._connection.serve(pending)
        looking.cancel()
        await self._runs.close()

    async def _look(self) -> None:
        """Tell the client when there are other tools than it was told of."""
        while True:
            self._offer.folder = Path(await self._connection.root() or self._offer.folder)
            if self._offer.has_changed():
                self._connection.tools_changed()
            await asyncio.sleep(LOOK_EVERY_SECONDS)

    async def _call_tool(self, request: ClientRequest) -> Json:
        name, arguments = request.params.get("name"), as_object(request.params.get("arguments"))
        try:
            project = open_project(Path(await request.root() or self._offer.folder))
            config = project.config
            others = (READER, CHANGER) if config.subagents.allow_write else (READER,)
            if not config.subagents.enabled or name not in (*others, *config.subagents.tools):
                raise RpcError(INVALID_PARAMS, f"There is no tool {name!r}.")
            if name == CHANGER:
                from outrider.surfaces.mcp.changes import call_changes  # late: few may write

                return await call_changes(request, arguments, project)
            confirm = partial(self._confirm, request) if request.client.can_ask else None
            if name == READER and (told := await self._read_on(request, arguments, config)):
                return told
            return await self._runs.call(request, name, arguments, project, confirm)
        except Refusal as refusal:
            advice = advice_for(request.client.info.get("name"), refusal.message)
            told = Refusal(refusal.code, refusal.message + advice)
            return call_result(refused(told).details, 0)

    async def _confirm(self, request: ClientRequest, agent: AgentDefinition, reason: str) -> bool:
        """Ask the person about a repository's agent, once."""
        if agent not in self._confirmed and await request.agrees(
            "confirm", f"{reason}. Let it run?"
        ):
            self._confirmed.add(agent)
        return agent in self._confirmed

    async def _read_on(self, request: ClientRequest, given: Json, config: Config) -> Json | None:
        """Return a page of a run's answer, when it has ended; a handle where it hasn't in time.

        None means that a message came too late for its run, and is a follow-up.
        """
        run_id = checked_run_id(given)
        limit = min(_number(given, "limit", config.mcp.result_bytes), config.limits.result_bytes)
        wait_ms = _number(given, "waitMs", config.mcp.reply_within_ms)
        seconds = min(wait_ms / 1000, patience(request, config))
        if given.get("tell") is not None:
            return await tell_run(request, run_id, given["tell"], seconds)
        if given.get("stop") is True:
            await RunHandle.find(run_id).stop()
        if late := await self._runs.wait_for(request, run_id, seconds):
            return late
        offset, whole = _number(given, "offset", 0), given.get("details") is True
        return recorded_result(run_id, limit, offset, whole=whole)

    async def _list_prompts(self, _request: ClientRequest) -> Json:
        options = {"name": "options", "description": "Words as on the command line."}
        reports = REPORTS.items() if self._offer.has_prompts() else ()
        prompts = [{"name": name, "description": what} for name, what in reports]
        return {"prompts": [{**prompt, "arguments": [options]} for prompt in prompts]}

    async def _get_prompt(self, request: ClientRequest) -> Json:
        """Return a report, made in a process of its own: it loads much, and may take long."""
        name = str(request.params.get("name"))
        if name not in REPORTS or not self._offer.has_prompts():
            raise RpcError(INVALID_PARAMS, f"There is no prompt {name!r}.")
        words = str(as_object(request.params.get("arguments")).get("options", "")).split()
        making = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-c", REPORT, name, *words),
            cwd=await request.root() or self._offer.folder,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            made, _ = await making.communicate()
        finally:
            if making.returncode is None:
                making.kill()
        text = f"Show me this report of Outrider as it is:\n\n{made.decode(errors='replace')}"
        return {"messages": [{"role": "user", "content": {"type": "text", "text": text}}]}


def _number(given: Json, name: str, default: int) -> int:
    value = given.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise invalid(f"{name} must be a whole number, 0 or more.")
    return value
