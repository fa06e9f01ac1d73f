"""A run that goes on without whoever asked for it: one detached process supervises it, and ends.

There is no daemon. The process is in a session of its own, has no terminal, and does what
`outrider run` does. All that can be refused is refused, and the person is asked, before it starts.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from functools import partial
from typing import Any, BinaryIO

from outrider.agents.definitions import AgentDefinition
from outrider.delegation.depth import current_depth
from outrider.delegation.perform import Caller, perform
from outrider.delegation.preparation import prepare
from outrider.delegation.request import Request, invalid
from outrider.delegation.telemetry import headers_above
from outrider.delegation.user_admission import user_place
from outrider.protocol.brief import NOTIFY_VARIABLES
from outrider.protocol.data import to_json
from outrider.protocol.errors import ErrorCode, Refusal
from outrider.protocol.results import ToolResult
from outrider.runtimes.native.links import PYTHON
from outrider.settings.layers import FlagValue
from outrider.settings.places import state_home

REQUESTED = ("agent", "task", "output_schema", "model", "check")
NO_TOOLS = "A background run takes no functions as tools. Name their module in tools.modules."
NOT_BEGUN = "The background process ended before the run began."


async def start_background(request: Request, caller: Caller, notify: str | None = None) -> str:
    """Return the id of a run that has begun, or waits for its place; raises `Refusal`.

    `notify` is a shell command for when it has ended.
    """
    if request.tools:
        raise invalid(NO_TOOLS)
    confirmed: list[Any] = []

    async def confirm(agent: AgentDefinition, reason: str) -> bool:
        confirmed.append(to_json(agent))
        return caller.confirm is not None and await caller.confirm(agent, reason)

    ask = confirm if caller.confirm else None
    prepared = await prepare(request, env=caller.env, flags=caller.flags, confirm=ask)
    asked = {name: getattr(request, name) for name in REQUESTED}
    asked["cwd"] = request.cwd and os.fspath(request.cwd)
    asked["resume"] = prepared.past and prepared.past.run_id  # `last` may soon be another one
    order = {
        "request": asked,
        "flags": {name: FlagValue.of(name, one) for name, one in (caller.flags or {}).items()},
        "confirmed": confirmed if caller.confirm else None,
        "notify": notify,
    }
    match await _spawn(order, caller):
        case {"runId": run_id}:
            return run_id
        case {"code": code, "message": message}:
            raise Refusal(ErrorCode(code), message)
        case _:
            raise Refusal(ErrorCode.SUBAGENT_FAILED, NOT_BEGUN)


async def _spawn(order: dict[str, Any], caller: Caller) -> Any:
    above = {name.upper(): value for name, value in headers_above(caller.above, {}).items()}
    try:
        process = await asyncio.create_subprocess_exec(
            *(*PYTHON, "outrider.delegation.background"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**caller.env, **above},
            start_new_session=True,
        )
    except OSError as error:
        why = f"The background process can't be started: {error.strerror}."
        raise Refusal(ErrorCode.SUBAGENT_FAILED, why) from None
    # JSON in ASCII keeps what is no Unicode: a folder's name can be any bytes.
    said, _ = await process.communicate(json.dumps(order).encode())
    return json.loads(said or b"{}")


def main() -> None:
    """Supervise one run to its end, as stdin asks for it; stdout gets its id."""
    order = json.load(sys.stdin)
    if os.fork():  # a process that nobody has to wait for, and that can't get a terminal
        os._exit(0)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    starter, null = os.fdopen(os.dup(1), "wb"), os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1):
        os.dup2(null, stream)
    result = asyncio.run(_supervise(order, starter))
    if result.result is None:
        _tell(starter, to_json(result.details.error))
    elif order["notify"]:
        told = (result.details.run_id or "", str(result.result.outcome))
        env = {**os.environ, **dict(zip(NOTIFY_VARIABLES, told, strict=True))}
        with suppress(OSError):
            subprocess.Popen(["/bin/sh", "-c", order["notify"]], env=env)


async def _supervise(order: dict[str, Any], starter: BinaryIO) -> ToolResult:
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)

    async def confirm(agent: AgentDefinition, _reason: str) -> bool:
        return to_json(agent) in order["confirmed"]

    # A run below another run needs no place: that one has one, and may be waiting for it.
    place = partial(user_place, state_home(os.environ) / "places")
    caller = Caller(
        os.environ,
        {name: FlagValue(*one) for name, one in order["flags"].items()},
        confirm=None if order["confirmed"] is None else confirm,
        on_start=lambda _, run_id: _tell(starter, {"runId": run_id}),
        cancelled=stopped,
        place=None if current_depth(os.environ) else place,
        one_shot=True,
    )
    return await perform(Request(**order["request"]), caller)


def _tell(starter: BinaryIO, news: Any) -> None:
    """Tell whoever asked for the run, if they are still there, and let them go."""
    with suppress(OSError), starter:
        starter.write(json.dumps(news).encode())


if __name__ == "__main__":
    sys.exit(main())
