"""Delegation in Python: `subagent` returns every ending, `delegate` raises for a bad one.

`start` and `attach` return a handle on a run that goes on.
"""

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Generic, TypedDict, TypeVar, Unpack, overload

from outrider.delegation.perform import Caller, OnUpdate, perform
from outrider.delegation.preparation import Prepared
from outrider.delegation.request import Request, invalid
from outrider.delegation.run_handle import RunHandle
from outrider.processes.shielding import finish
from outrider.protocol import jsonl
from outrider.protocol.changes import Changes
from outrider.protocol.data import frozen
from outrider.protocol.errors import ErrorCode, OutriderError, Refusal
from outrider.protocol.results import ToolResult, refused
from outrider.protocol.usage import Usage
from outrider.settings.places import runs_folder

T = TypeVar("T")


class Options(TypedDict, total=False):
    """What a caller may say beside the task; `subagent` takes the same by name."""

    model: str | None
    """The model, as `provider:name`."""
    cwd: str | os.PathLike[str] | None
    """The folder to work in; the current one by default."""
    on_update: OnUpdate | None
    """Called with partial results while the child works."""
    config: Mapping[str, object] | None
    """Settings by their dotted names, as `{"subagents.timeoutMs": 60_000}`; they count as flags."""
    check: str | None
    """A command that has to pass before the task is done."""
    tools: Sequence[Callable[..., Any]]
    """Functions that the agent gets as tools beside its own, made with `@tool`."""
    resume: str | None
    """The run to go on with, however it ended; its model and its folder count."""


async def subagent(
    agent: str,
    task: str,
    output_schema: Mapping[str, Any] | bool | None = None,
    model: str | None = None,
    cwd: str | os.PathLike[str] | None = None,
    on_update: OnUpdate | None = None,
    *,
    config: Mapping[str, object] | None = None,
    check: str | None = None,
    tools: Sequence[Callable[..., Any]] = (),
    resume: str | None = None,
) -> ToolResult:
    """Return the result of delegating `task` to `agent`, however it ended."""
    request = Request(
        agent, task, output_schema, model, cwd, check=check, resume=resume, tools=tools
    )
    return await perform(request, Caller(os.environ, flags=config, on_update=on_update))


def subagent_sync(
    agent: str,
    task: str,
    output_schema: Mapping[str, Any] | bool | None = None,
    **options: Unpack[Options],
) -> ToolResult:
    """Do as `subagent` does, where there is no event loop; where there is one, RuntimeError."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(subagent(agent, task, output_schema, **options))
    raise RuntimeError("An event loop is already running: use `await subagent(…)` instead.")


async def start(
    agent: str,
    task: str,
    output_schema: Mapping[str, Any] | bool | None = None,
    *,
    background: bool = False,
    **options: Unpack[Options],
) -> RunHandle:
    """Return a handle on a run that has begun; raises `DelegationError` where none could.

    It ends with this process. With `background` a process of its own supervises it, and it goes
    on.
    """
    of_caller = ("config", "on_update")
    asked: Any = {name: one for name, one in options.items() if name not in of_caller}
    request = Request(agent, task, output_schema, **asked)
    caller = Caller(os.environ, options.get("config"), on_update=options.get("on_update"))
    if not background:
        return await _begun(request, caller)
    from outrider.delegation.background import start_background

    try:
        return RunHandle(runs_folder(os.environ) / await start_background(request, caller))
    except Refusal as refusal:
        raise _raised(refused(refusal)) from None


async def _begun(request: Request, caller: Caller) -> RunHandle:
    """Return a handle on a run of this process, as soon as it has an id."""
    started: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def on_start(_prepared: Prepared, run_id: str) -> None:
        started.set_result(run_id)

    caller = replace(caller, on_start=on_start)
    task = asyncio.create_task(perform(request, caller))
    try:
        await asyncio.wait({task, started}, return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError:
        task.cancel()
        raise
    if not started.done():
        raise _raised(task.result())
    return RunHandle(runs_folder(caller.env) / started.result(), task)


def attach(run_id: str) -> RunHandle:
    """Return a handle on any run of this user; raises `DelegationError` where there is none."""
    try:
        return RunHandle.find(run_id)
    except Refusal as refusal:
        raise _raised(refused(refusal)) from None


def _raised(result: ToolResult) -> "DelegationError":
    error = result.details.error
    code = error.code if error else ErrorCode.SUBAGENT_FAILED
    return DelegationError(code, error.message if error else result.text, result)


class DelegationError(OutriderError):
    """A delegation that didn't complete: `code` says why, `result` holds all there is."""

    def __init__(self, code: ErrorCode, message: str, result: ToolResult) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.result = result


@frozen
class Delegation(Generic[T]):
    """A delegation that completed."""

    output: T
    result: ToolResult
    config: Mapping[str, object] | None = None
    """The settings that it was asked with, which count for its landing too."""

    @property
    def run_id(self) -> str:
        """The run's id, by which `outrider show` finds it again."""
        return self.result.details.run_id or ""

    @property
    def usage(self) -> Usage:
        """What the run used."""
        return self.result.details.results[0].usage

    @property
    def receipt(self) -> Mapping[str, Any]:
        """What the child was seen to do."""
        return self.result.details.results[0].receipt

    @property
    def changes(self) -> Changes | None:
        """What a writer had changed at its end; None for an agent that only reads."""
        return self.result.details.results[0].changes

    async def land(self, only: Sequence[str] = (), check: str | None = None) -> Changes:
        """Put the changes into the folder, all or nothing, and return them as they are then.

        `only` names paths in the folder; `check` is a command that has to succeed on the merged
        files. Raises `LandingConflict`, and `OutriderError` for any other reason not to land.
        """
        return await self._settled("land", only=only, check=check)

    async def undo(self) -> Changes:
        """Take what has landed out of the folder again; raises `LandingConflict`."""
        return await self._settled("undo")

    async def discard(self) -> Changes:
        """Remove the changes that haven't landed, for good."""
        return await self._settled("discard")

    async def _settled(self, action: str, **how: Any) -> Changes:
        from outrider.delegation.landing import changes_of, settle, writer_run

        def work() -> Changes:
            run, _ = writer_run(self.run_id, os.environ)
            settle(run, action, os.environ, self.config, **how)
            return changes_of(run.folder, os.environ)

        return await finish(asyncio.to_thread(work))


@overload
async def delegate(
    agent: str, task: str, *, output_type: type[T], **options: Unpack[Options]
) -> Delegation[T]: ...


@overload
async def delegate(
    agent: str, task: str, *, output_type: None = None, **options: Unpack[Options]
) -> Delegation[str]: ...


@overload
async def delegate(
    agent: str, task: str, *, output_type: Any, **options: Unpack[Options]
) -> Delegation[Any]: ...


async def delegate(
    agent: str, task: str, *, output_type: Any = None, **options: Unpack[Options]
) -> Delegation[Any]:
    """Return the answer of a delegation that completed; raises `DelegationError` for any other.

    With `output_type`, a pydantic model, dataclass or any type, the answer is a value of it.
    """
    schema = None if output_type is None else schema_of_type(output_type)
    result = await subagent(agent, task, schema, **options)
    single = result.result
    if single is None or not result.completed:
        raise _raised(result)
    if output_type is None:
        return Delegation(single.output, result, options.get("config"))
    try:
        value = value_of_type(output_type, single.structured_output)
    except ValueError as error:
        raise DelegationError(ErrorCode.SUBAGENT_OUTPUT_INVALID, str(error), result) from error
    return Delegation(value, result, options.get("config"))


def value_of_type(output_type: Any, reported: Any) -> Any:
    """Return what a child reported as a value of a type.

    Raises `ValueError`: the schema can't say all that a type checks, and masking may have changed
    the value.
    """
    from pydantic import TypeAdapter

    # Read as JSON, which it was: a tuple, a date or an enum then counts even in strict models.
    return TypeAdapter(output_type).validate_json(jsonl.encode(reported))


def schema_of_type(output_type: Any) -> Any:
    """Return the JSON Schema of a type; raises `DelegationError` for one that has none."""
    from pydantic import PydanticUndefinedAnnotation, PydanticUserError, TypeAdapter

    try:
        return TypeAdapter(output_type).json_schema()
    except (PydanticUserError, PydanticUndefinedAnnotation) as error:
        reason = error.message.split("\n", 1)[0]
        refusal = invalid(f"output_type {output_type!r} has no JSON Schema: {reason}")
        raise _raised(refused(refusal)) from error
