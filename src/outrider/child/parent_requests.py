"""The parent of a child at work: what a person tells the child comes from there.

A main agent can also ask it: to delegate, and to let it make a call that writes. What a subagent
said comes back as data with its origin.
"""

import asyncio
import socket
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
    """Sends requests as events; answers and messages come over the link that brought the brief."""

    def __init__(self, turn: MainTurn, timeout_ms: int, emit: Emit, link: int) -> None:
        self._turn = turn
        self._timeout_ms = timeout_ms
        self._emit = emit
        self._link = socket.socket(fileno=link)
        self._received = b""
        self._told: list[tuple[str, str]] = []
        self._asked = 0
        self._waiting: dict[str, asyncio.Future[Any]] = {}
        self._loop = asyncio.get_running_loop()
        if turn.host_tools or turn.ask_before:  # all others look when they have use for it
            self._loop.add_reader(link, self._read)

    def told(self) -> list[tuple[str, str]]:
        """Return what came since the last time of what a person says: ids and texts."""
        self._read()
        told, self._told = self._told, []
        return told

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

    def _read(self) -> None:
        try:
            while data := self._link.recv(CHUNK_BYTES, socket.MSG_DONTWAIT):
                self._received += data
        except BlockingIOError:
            pass
        else:  # the parent has let go, and the guardian ends this process
            self._loop.remove_reader(self._link)
        *lines, self._received = self._received.split(b"\n")
        for line in lines:
            self._take(jsonl.decode(line))

    def _take(self, came: dict[str, Any]) -> None:
        if "text" in came:
            self._told.append((came["id"], came["text"]))
            return
        waiting = self._waiting.pop(came["id"], None)
        if waiting is not None and not waiting.done():
            waiting.set_result(came["answer"])


def _quoted(data: Any, _arguments: Arguments) -> str:
    origin = {"agent": data["agent"], "run": data["runId"], "outcome": data["outcome"]}
    origin |= {"changes": data["changes"]} if "changes" in data else {}
    return marked("subagent-output", data["text"], **origin)


def _summary(data: Any, _arguments: Arguments) -> str:
    return f"{data['agent']} → {data['outcome']}, run {data['runId']}"
