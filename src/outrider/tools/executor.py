"""Every tool call ends in an envelope: the executor raises only when it is cancelled."""

import asyncio
import difflib
import inspect
import time
from collections.abc import Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn, cast

from outrider.protocol.data import frozen
from outrider.protocol.envelope import Envelope, Meta, build_meta
from outrider.protocol.receipt import Effects, Receipt
from outrider.schemas.arguments import CallArguments, read_arguments
from outrider.schemas.output_schema import CompiledSchema, load_schema
from outrider.schemas.values import is_object
from outrider.tools import Tool, ToolCode, ToolContext, ToolFault, build_error_response
from outrider.tools.formatting import Keep, ResultFormatter, cut_text, error_line, shrink
from outrider.tools.registry import DEFAULT_TIMEOUT_MS
from outrider.tools.result_envelope import envelope_of, envelope_of_fault
from outrider.tools.sessions import SessionLease, SessionPool

RESULT_BYTES = 50_000
DATA_FACTOR = 4  # how much larger than its text an envelope's data may be, as JSON
CANCEL_SECONDS = 2.0  # how long a cancelled tool may take to let go; then it is left behind
OWN_TIMEOUT_SECONDS = 15.0  # how much later we step in where a tool keeps its deadline itself


@frozen
class ToolOutcome:
    envelope: Envelope
    text: str  # what the model sees
    summary: str  # one line for people who watch
    effects: Effects = field(default_factory=Effects)
    is_cut: bool = False  # the envelope doesn't tell what the model sees: one of them is cut


@dataclass(slots=True)
class CheckedCall:
    """One call, its arguments read and checked, or the fault that keeps it from being made."""

    name: str
    tool: Tool | None
    timeout_ms: int
    context: ToolContext
    arguments: dict[str, Any] = field(default_factory=dict[str, Any])
    fault: Exception | None = None
    session_id: str | None = None
    temporary_session: bool = False
    started: float = field(default_factory=time.perf_counter)

    def meta(self) -> Meta:
        """Return what is known of the call by now."""
        resource = self.tool.resource if self.tool else None
        elapsed = time.perf_counter() - self.started
        return build_meta(self.name, elapsed, resource, self.session_id, self.temporary_session)


class ToolExecutor:
    """Calls the tools that a child was given, and ends what they started."""

    def __init__(
        self,
        tools: Sequence[Tool],
        context: ToolContext,
        *,
        result_bytes: int = RESULT_BYTES,
        not_given: Collection[str] = (),
    ) -> None:
        """Take the child's tools; `not_given` names those that exist but that it may not use."""
        self.tools = tuple(tools)
        self.context = context
        self.receipt = Receipt()
        self._by_name = {tool.name: tool for tool in tools}
        self._result_bytes = result_bytes
        self._not_given = frozenset(not_given)
        self._sessions = SessionPool()
        self._schemas: dict[str, CompiledSchema] = {}
        self._formatter = ResultFormatter({one.name: one.format for one in tools if one.format})

    async def __aenter__(self) -> "ToolExecutor":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        await self._sessions.aclose()
        for session in (self.context.web, self.context.lsp):
            if session is not None:
                await session.aclose()

    def prepare(self, name: str, arguments: CallArguments) -> CheckedCall:
        """Return a call that can be made, or one that knows why it can't."""
        tool = self._by_name.get(name)
        timeout_ms = tool.timeout_ms if tool else DEFAULT_TIMEOUT_MS
        call = CheckedCall(name, tool, timeout_ms, replace(self.context))
        try:
            call.arguments = self._checked(tool, arguments) if tool else self._unknown(name)
        except Exception as fault:
            call.fault = fault
        if tool and tool.own_timeout:
            call.timeout_ms = call.arguments.get("timeoutMs", timeout_ms)
        return call

    async def execute(
        self, name: str, arguments: str | Mapping[str, Any], *, session_id: str | None = None
    ) -> ToolOutcome:
        """Return the result of one call, also of one that can't be made or fails."""
        return await self.run(self.prepare(name, read_arguments(arguments)), session_id=session_id)

    async def run(self, call: CheckedCall, *, session_id: str | None = None) -> ToolOutcome:
        """Return the result of a call that was prepared; raises only when it is cancelled."""
        call.started = time.perf_counter()
        try:
            envelope = await self._envelope(call, session_id)
        except Exception as fault:
            envelope = envelope_of_fault(fault)
        effects = call.context.effects.effects()
        self.receipt.add(call.name, effects, envelope)
        try:
            return self._outcome(call, envelope, effects)
        except Exception as fault:  # a mask or a disk that fails: nothing unmasked may pass
            why = f"{call.name[:100]} ran, but its result can't be shown ({type(fault).__name__})."
            envelope = build_error_response(ToolCode.INTERNAL, why)
            text = error_line(envelope)
            return ToolOutcome({**envelope, "meta": call.meta()}, text, text, effects)

    def text_of(self, earlier: Mapping[str, Any]) -> str:
        """Return what the model sees of a call that was made before, by its record."""
        if earlier.get("text") is not None:
            return earlier["text"]
        name, args = earlier["name"], earlier.get("args")
        tool = self._by_name.get(name)
        whole = self._formatter.long(name, args if is_object(args) else {}, earlier["envelope"])
        return self._cut(whole, tool.keep if tool else "head")

    def _unknown(self, name: str) -> NoReturn:
        own = ", ".join(sorted(self._by_name)) or "none"
        if name in self._not_given:
            raise ToolFault(ToolCode.DENIED, f"This agent may not use {name!r}. Its tools: {own}.")
        near = difflib.get_close_matches(name[:100], self._by_name, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        message = f"There is no tool {name[:100]!r}.{hint} Tools: {own}."
        raise ToolFault(ToolCode.UNKNOWN_TOOL, message)

    def _checked(self, tool: Tool, arguments: CallArguments) -> dict[str, Any]:
        """Return arguments as the tool takes them; raises a ToolFault that names every fault."""
        if arguments.fault is not None:
            message = f"{arguments.fault.message}. Send one JSON object."
            raise ToolFault(ToolCode.ARGUMENTS_NOT_JSON, message)
        if tool.name not in self._schemas:
            self._schemas[tool.name] = load_schema(tool.parameters)
        given, properties = arguments.value, tool.parameters.get("properties", {})
        if is_object(given):  # many models send null for what is not given
            optional = properties.keys() - tool.parameters.get("required", [])
            left_out = {name for name in optional & given.keys() if given[name] is None}
            given = {name: value for name, value in given.items() if name not in left_out}
        faults = [str(fault) for fault in self._schemas[tool.name].faults(given, arguments.size)]
        if arguments.size.wide_words:
            faults.append("$: an integer doesn't fit in 64 bits")
        if faults:
            raise ToolFault(ToolCode.BAD_PARAMETER, "; ".join(faults))
        checked = cast("dict[str, Any]", given)
        for name, value in checked.items():  # to JSON Schema 3.0 is an integer, to Python it isn't
            if isinstance(value, float) and properties.get(name, {}).get("type") == "integer":
                checked[name] = int(value)
        return checked

    async def _envelope(self, call: CheckedCall, session_id: str | None) -> Envelope:
        if call.fault is not None:
            raise call.fault
        tool = cast("Tool", call.tool)
        if tool.session is None:
            return await self._in_time(call, tool, None)
        wanted = session_id or self.context.session_id
        async with self._sessions.lease(tool.resource, wanted, tool.session) as turn:
            call.session_id, call.temporary_session = turn.session_id, turn.temporary
            return await self._in_time(call, tool, turn)

    async def _in_time(self, call: CheckedCall, tool: Tool, turn: SessionLease | None) -> Envelope:
        seconds = call.timeout_ms / 1000 + (OWN_TIMEOUT_SECONDS if tool.own_timeout else 0)
        task = asyncio.create_task(_contain(self._run(call, tool, turn)))
        try:
            if (await asyncio.wait({task}, timeout=seconds))[0]:
                return task.result()
            raise TimeoutError(f"{tool.name} took longer than {call.timeout_ms} ms and was ended.")
        finally:
            call.context.stop.set()  # a thread can't be ended, only told to end
            if not task.done():
                if turn is not None:
                    turn.broken = True  # nobody knows in which state the call has left it
                task.cancel()
                await asyncio.wait({task}, timeout=CANCEL_SECONDS)

    async def _run(self, call: CheckedCall, tool: Tool, turn: SessionLease | None) -> Envelope:
        own = {"timeoutMs": call.timeout_ms} if tool.own_timeout else {}
        arguments = call.arguments | own
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

    def _outcome(self, call: CheckedCall, envelope: Envelope, effects: Effects) -> ToolOutcome:
        name, tool = call.name, call.tool
        keep = tool.keep if tool else "head"
        # Masked here, once. Formatters may repeat the arguments, which a model may have put a
        # secret into: these are masked as well, so that no text needs another pass.
        envelope, arguments = self._masked(envelope), self._masked(call.arguments)
        whole = self._formatter.long(name, arguments, envelope)
        if self.context.web is not None and tool is not None and not tool.entry.network:
            self.context.web.remember(whole)
        summary = self._formatter.short(name, arguments, envelope)
        data = shrink(envelope["data"], self._result_bytes * DATA_FACTOR, keep)
        sent: Envelope = {**envelope, "data": data, "meta": call.meta()}
        text = self._cut(whole, keep)
        is_cut = text is not whole or data is not envelope["data"]
        return ToolOutcome(sent, text, summary, effects, is_cut)

    def _masked(self, value: Any) -> Any:
        return self.context.mask.value(value)[0] if self.context.mask else value

    def _cut(self, whole: str, keep: Keep) -> str:
        if (ends := cut_text(whole, self._result_bytes, keep)) is None:
            return whole
        kept_as = self.context.keep_whole(whole)
        on = f"read `{kept_as}` with offset to go on" if kept_as else "ask for less to see more"
        shown, total = sum(len(end.encode()) for end in ends), len(whole.encode())
        note = f"[cut: showing {shown:,} of {total:,} bytes; {on}]"
        return "\n".join(part for part in (ends[0].rstrip("\n"), note, ends[1]) if part)


async def _contain(running: Coroutine[Any, Any, Envelope]) -> Envelope:
    """Return what a tool answers, its faults too; raises only when it is cancelled from here."""
    try:
        return await running
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        return envelope_of_fault(RuntimeError("the tool's own work was cancelled"))
    except Exception as fault:
        return envelope_of_fault(fault)
    except BaseException as fault:  # else a tool that calls sys.exit() would end the child
        return envelope_of_fault(RuntimeError(f"the tool tried to end with {type(fault).__name__}"))
