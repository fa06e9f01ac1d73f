"""Every tool call ends in an envelope: the executor raises only when it is cancelled."""

import asyncio
import difflib
import inspect
import time
from collections.abc import Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from outrider.protocol.envelope import (
    Envelope,
    Meta,
    ToolCode,
    ToolFault,
    build_error_response,
    build_meta,
    is_success,
)
from outrider.protocol.receipt import Effects, Receipt
from outrider.schemas.arguments import CallArguments, read_arguments
from outrider.schemas.values import is_object
from outrider.tools.arguments import ArgumentChecker
from outrider.tools.context import ToolContext
from outrider.tools.cutting import Keep, cut_text, shrink
from outrider.tools.formatting import ResultFormatter
from outrider.tools.registry import DEFAULT_TIMEOUT_MS, Tool
from outrider.tools.returned import envelope_of, envelope_of_fault
from outrider.tools.sessions import SessionLease, SessionPool

RESULT_BYTES = 50_000
DATA_FACTOR = 4
"""How much larger than its text an envelope's data may be, as JSON."""
CANCEL_SECONDS = 2.0
"""How long a cancelled tool may take to let go; then it is left behind."""
OWN_TIMEOUT_SECONDS = 15.0
"""How much later the executor steps in where a tool keeps its deadline itself."""


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """The result of a call."""

    envelope: Envelope
    text: str
    """What the model sees."""
    summary: str
    """One line for people who watch."""
    effects: Effects = field(default_factory=Effects)
    """What the call did beside answering."""


@dataclass(frozen=True, slots=True)
class PreparedCall:
    """A call whose arguments were read and checked, before it is made."""

    name: str
    tool: Tool | None
    """None only beside a fault."""
    timeout_ms: int
    arguments: dict[str, Any] = field(default_factory=dict[str, Any])
    fault: Exception | None = None
    """Why the call can't be made."""


@dataclass(slots=True)
class _Call:
    """What is known of a call while it is under way."""

    prepared: PreparedCall
    context: ToolContext
    session_id: str | None = None
    temporary_session: bool | None = None
    started: float = field(default_factory=time.perf_counter)

    def meta(self) -> Meta:
        tool = self.prepared.tool
        return build_meta(
            self.prepared.name,
            time.perf_counter() - self.started,
            tool.resource if tool else None,
            self.session_id,
            self.temporary_session,
        )


class ToolExecutor:
    """Calls the tools that a child was given, and ends what they started."""

    def __init__(
        self,
        tools: Sequence[Tool],
        context: ToolContext,
        *,
        result_bytes: int = RESULT_BYTES,
        not_given: Collection[str] = (),
        sessions: SessionPool | None = None,
    ) -> None:
        """Take the child's tools; `not_given` names those that exist but that it may not use."""
        self.tools = tuple(tools)
        self.context = context
        self.receipt = Receipt()
        self._by_name = {tool.name: tool for tool in tools}
        self._result_bytes = result_bytes
        self._not_given = frozenset(not_given)
        self._sessions = sessions or SessionPool()
        self._checkers: dict[str, ArgumentChecker] = {}
        self._formatter = ResultFormatter({one.name: one.format for one in tools if one.format})

    async def __aenter__(self) -> "ToolExecutor":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """End all sessions and what they started."""
        await self._sessions.aclose()
        for session in (self.context.web, self.context.lsp):
            if session is not None:
                await session.aclose()

    def prepare(self, name: str, arguments: CallArguments) -> PreparedCall:
        """Return a call that can be made, or one that knows why it can't."""
        tool = self._by_name.get(name)
        if tool is None:
            return PreparedCall(name, None, DEFAULT_TIMEOUT_MS, fault=self._unknown(name))
        try:
            if name not in self._checkers:
                self._checkers[name] = ArgumentChecker(tool.parameters)
            checked = self._checkers[name].check(arguments)
        except Exception as fault:
            return PreparedCall(name, tool, tool.timeout_ms, fault=fault)
        asked = checked.get("timeoutMs", tool.timeout_ms)
        return PreparedCall(name, tool, asked if tool.own_timeout else tool.timeout_ms, checked)

    async def execute(
        self, name: str, arguments: str | Mapping[str, Any], *, session_id: str | None = None
    ) -> ToolOutcome:
        """Return the result of one call, also of one that can't be made or fails."""
        return await self.run(self.prepare(name, read_arguments(arguments)), session_id=session_id)

    async def run(self, prepared: PreparedCall, *, session_id: str | None = None) -> ToolOutcome:
        """Return the result of a call that was prepared; raises only when it is cancelled."""
        call = _Call(prepared, self.context.for_call())
        try:
            envelope = await self._envelope(call, session_id)
        except Exception as fault:
            envelope = envelope_of_fault(fault)
        self.receipt.add(call.context.effects.effects(), failed=not is_success(envelope))
        try:
            return self._outcome(call, envelope)
        except Exception as fault:  # a mask or a disk that fails: nothing unmasked may pass
            return _without_result(call, type(fault).__name__)

    def text_of(self, earlier: Mapping[str, Any]) -> str:
        """Return what the model sees of a call that was made before, by its record."""
        name, args = earlier["name"], earlier.get("args")
        arguments = args if is_object(args) else {}
        tool = self._by_name.get(name)
        whole = self._formatter.long(name, arguments, earlier["envelope"])
        return self._cut(whole, tool.keep if tool else "head")

    def _unknown(self, name: str) -> ToolFault:
        names = ", ".join(sorted(self._by_name)) or "none"
        if name in self._not_given:
            message = f"This agent may not use {name!r}. Its tools: {names}."
            return ToolFault(ToolCode.DENIED, message)
        near = difflib.get_close_matches(name[:100], self._by_name, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        message = f"There is no tool {name[:100]!r}.{hint} Tools: {names}."
        return ToolFault(ToolCode.UNKNOWN_TOOL, message)

    async def _envelope(self, call: _Call, session_id: str | None) -> Envelope:
        if call.prepared.fault is not None:
            raise call.prepared.fault
        tool = cast("Tool", call.prepared.tool)
        if tool.session is None:
            return await self._in_time(call, tool, None)
        wanted = session_id or self.context.session_id
        async with self._sessions.lease(tool.resource, wanted, tool.session) as turn:
            call.session_id, call.temporary_session = turn.session_id, turn.temporary
            return await self._in_time(call, tool, turn)

    async def _in_time(self, call: _Call, tool: Tool, turn: SessionLease | None) -> Envelope:
        timeout_ms = call.prepared.timeout_ms
        seconds = timeout_ms / 1000 + (OWN_TIMEOUT_SECONDS if tool.own_timeout else 0)
        task = asyncio.create_task(_contained(self._run(call, tool, turn)))
        try:
            done, _ = await asyncio.wait({task}, timeout=seconds)
        except asyncio.CancelledError:
            await _let_go(task, turn)
            raise
        if done:
            return task.result()
        await _let_go(task, turn)
        raise TimeoutError(f"{tool.name} took longer than {timeout_ms} ms and was ended.")

    async def _run(self, call: _Call, tool: Tool, turn: SessionLease | None) -> Envelope:
        arguments = call.prepared.arguments
        if tool.own_timeout:
            arguments = {**arguments, "timeoutMs": call.prepared.timeout_ms}
        session = None if turn is None else await turn.session(self.context)
        if tool.signature is not None:
            try:
                arguments = tool.signature.bind(arguments, call.context, session)
            except ValueError as fault:  # what a schema can't say, a type may still refuse
                raise ToolFault(ToolCode.BAD_PARAMETER, str(fault)[:1000]) from None
        value = await tool.run(**arguments)
        if inspect.isawaitable(value):  # a plain function around an async one
            value = await value
        return envelope_of(value)

    def _outcome(self, call: _Call, envelope: Envelope) -> ToolOutcome:
        name, tool = call.prepared.name, call.prepared.tool
        keep = tool.keep if tool else "head"
        # Masked here, once. Formatters may repeat the arguments, which a model may have put a
        # secret into: these are masked as well, so that no text needs another pass.
        envelope, arguments = self._masked(envelope), self._masked(call.prepared.arguments)
        whole = self._formatter.long(name, arguments, envelope)
        if self.context.web is not None and tool is not None and not tool.entry.network:
            self.context.web.outgoing.remember(whole)
        summary = self._formatter.short(name, arguments, envelope)
        data = shrink(envelope["data"], self._result_bytes * DATA_FACTOR, keep)
        sent: Envelope = {**envelope, "data": data, "meta": call.meta()}
        return ToolOutcome(sent, self._cut(whole, keep), summary, call.context.effects.effects())

    def _masked(self, value: Any) -> Any:
        return self.context.mask.value(value)[0] if self.context.mask else value

    def _cut(self, whole: str, keep: Keep) -> str:
        cut = cut_text(whole, self._result_bytes, keep)
        if cut is None:
            return whole
        kept_as = self.context.keep_whole(whole)
        on = f"read `{kept_as}` with offset to go on" if kept_as else "ask for less to see more"
        shown = f"[cut: showing {cut.shown_bytes:,} of {cut.total_bytes:,} bytes; {on}]"
        return "\n".join(part for part in (cut.head.rstrip("\n"), shown, cut.tail) if part)


async def _contained(running: Coroutine[Any, Any, Envelope]) -> Envelope:
    try:
        return await running
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise RuntimeError("the tool's own work was cancelled") from None
    except Exception:
        raise
    except BaseException as fault:  # else a tool that calls sys.exit() would end the child
        raise RuntimeError(f"the tool tried to end with {type(fault).__name__}") from None


async def _let_go(task: asyncio.Task[Envelope], turn: SessionLease | None) -> None:
    if turn is not None:
        turn.broken = True  # nobody knows in which state a call that was cut short left it
    task.add_done_callback(_forget_fault)
    task.cancel()
    await asyncio.wait({task}, timeout=CANCEL_SECONDS)


def _forget_fault(task: asyncio.Task[Envelope]) -> None:
    if not task.cancelled():
        task.exception()


def _without_result(call: _Call, fault: str) -> ToolOutcome:
    message = f"{call.prepared.name[:100]} ran, but its result could not be prepared ({fault})."
    envelope = build_error_response(ToolCode.INTERNAL, message)
    envelope["meta"] = call.meta()
    text = f"Error {envelope['code']}: {message}"
    return ToolOutcome(envelope, text, text, call.context.effects.effects())
