"""What a main agent has beyond other children: a parent to ask.

It asks that parent to delegate, and to let it make a call that writes. What a subagent said comes
back as data with its origin.
"""

import asyncio
import os
from typing import Any

from outrider.child.emitter import Emit
from outrider.protocol import jsonl
from outrider.protocol.brief import HostTool, MainTurn
from outrider.protocol.envelope import ToolCode, ToolFault
from outrider.protocol.events import ParentRequestEvent
from outrider.protocol.quoting import marked
from outrider.tools.formatting import Arguments, Formatter
from outrider.tools.registry import Tool

CHUNK_BYTES = 1 << 16
DENIED = (
    "The user does not allow this call of {name}. Don't try it in another way: go on without it, "
    "or say what it was for."
)


class Parent:
    """Sends requests as events; the answers come over the link that brought the brief."""

    def __init__(self, turn: MainTurn, timeout_ms: int, emit: Emit, link: int) -> None:
        self._turn = turn
        self._timeout_ms = timeout_ms
        self._emit = emit
        self._link = link
        self._received = b""
        self._asked = 0
        self._waiting: dict[str, asyncio.Future[Any]] = {}
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(link, self._on_readable)

    async def ask(self, kind: str, name: str, args: Any) -> Any:
        """Return the parent's answer to one request."""
        self._asked += 1
        request = str(self._asked)
        self._waiting[request] = self._loop.create_future()
        self._emit(ParentRequestEvent(request, kind, name, args))
        return await self._waiting[request]

    async def refusal(self, name: str, args: Any) -> ToolFault | None:
        """Return why a call may not be made; None where nobody objects."""
        asked = {name, f"{name} {args.get('action')}"}.intersection(self._turn.ask_before)
        if not asked or await self.ask("permit", name, args) is True:
            return None
        return ToolFault(ToolCode.DENIED, DENIED.format(name=name))

    def tools(self) -> list[Tool]:
        """Return the tools that the parent carries out."""
        return [self._tool(offered) for offered in self._turn.host_tools]

    def _tool(self, offered: HostTool) -> Tool:
        async def run(**arguments: Any) -> Any:
            return await self.ask("delegate", offered.name, arguments)

        named = (offered.name, "agent", "delegate", offered.description, offered.parameters)
        limit_ms = self._timeout_ms  # the subagent has a deadline of its own
        told = Formatter(_quoted, _summary)
        return Tool(*named, run, timeout_ms=limit_ms, writes=False, format=told, keep="ends")

    def _on_readable(self) -> None:
        data = os.read(self._link, CHUNK_BYTES)
        if not data:  # the parent has let go, and the guardian ends this process
            self._loop.remove_reader(self._link)
        *lines, self._received = (self._received + data).split(b"\n")
        for line in lines:
            reply = jsonl.decode(line)
            waiting = self._waiting.pop(reply["id"], None)
            if waiting is not None and not waiting.done():
                waiting.set_result(reply["answer"])


def _quoted(data: Any, _arguments: Arguments) -> str:
    origin = {"agent": data["agent"], "run": data["runId"], "outcome": data["outcome"]}
    origin |= {"changes": data["changes"]} if "changes" in data else {}
    return marked("subagent-output", data["text"], **origin)


def _summary(data: Any, _arguments: Arguments) -> str:
    return f"{data['agent']} → {data['outcome']}, run {data['runId']}"
