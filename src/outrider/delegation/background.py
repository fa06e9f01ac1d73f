"""A run that goes on without whoever asked for it: one detached process supervises it, and ends.

There is no daemon. The process is in a session of its own, has no terminal, and does what
`outrider run` does; it tells its starter the run's id, or why there is no run, and asks it the one
question that a person has to answer.
"""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from dataclasses import fields
from functools import partial
from typing import Any

from outrider.agents.definitions import AgentDefinition
from outrider.delegation.depth import current_depth
from outrider.delegation.perform import Caller, perform
from outrider.delegation.preparation import Prepared
from outrider.delegation.request import Request, invalid
from outrider.delegation.user_admission import user_place
from outrider.protocol.brief import NOTIFY_VARIABLES
from outrider.protocol.data import camel, from_json, to_json
from outrider.protocol.errors import ErrorCode, Refusal
from outrider.protocol.results import ErrorInfo, ToolResult
from outrider.runtimes.native.links import PYTHON
from outrider.settings.layers import FlagValue
from outrider.settings.places import state_home

MAX_LINE_BYTES = 16 << 20
_NOTHING = dict.fromkeys(camel(one.name) for one in fields(AgentDefinition))
REQUESTED = ("agent", "task", "output_schema", "model", "check", "resume")
NO_TOOLS = "A background run takes no functions as tools. Name their module in tools.modules."


async def start_background(request: Request, caller: Caller, notify: str | None = None) -> str:
    """Return the id of a run that has begun, or waits for its place; raises `Refusal`.

    `notify` is a shell command for when it has ended.
    """
    if request.tools:
        raise invalid(NO_TOOLS)
    asked = {name: getattr(request, name) for name in REQUESTED}
    order = {
        "request": {**asked, "cwd": request.cwd and os.fspath(request.cwd)},
        "flags": {key: _pair(value) for key, value in (caller.flags or {}).items()},
        "canAsk": caller.confirm is not None,
        "notify": notify,
    }
    ours, theirs = socket.socketpair()
    with theirs:
        starting = _spawn(theirs, caller)
    reader, writer = await asyncio.open_unix_connection(sock=ours, limit=MAX_LINE_BYTES)
    try:
        writer.write(_line(order))
        while line := await reader.readline():
            match json.loads(line):
                case {"runId": run_id}:
                    return run_id
                case {"refused": error}:
                    told = from_json(ErrorInfo, error)
                    raise Refusal(told.code, told.message)
                case {"agent": agent, "reason": reason} if caller.confirm:
                    asked = from_json(AgentDefinition, {**_NOTHING, **agent})
                    yes = await caller.confirm(asked, reason)
                    writer.write(_line({"yes": yes}))
                case _:
                    break
    except ConnectionError:
        pass
    finally:
        writer.close()
        starting.wait()  # it has forked long since
    raise Refusal(ErrorCode.SUBAGENT_FAILED, "The background process ended before the run began.")


def _spawn(link: socket.socket, caller: Caller) -> "subprocess.Popen[bytes]":
    try:
        return subprocess.Popen(
            [*PYTHON, "outrider.delegation.background"],
            stdin=link.fileno(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=caller.env,
            start_new_session=True,
        )
    except OSError as error:
        why = f"The background process can't be started: {error.strerror}."
        raise Refusal(ErrorCode.SUBAGENT_FAILED, why) from None


def _pair(flag: object) -> FlagValue:
    """Return the value of a flag with how it was given, which is empty where nobody typed it."""
    return flag if isinstance(flag, FlagValue) else FlagValue(flag, "")


def _line(value: Any) -> bytes:
    # JSON in ASCII keeps what is no Unicode: a folder's name can be any bytes.
    return json.dumps(value).encode() + b"\n"


def main() -> None:
    """Supervise one run to its end, as whoever holds the other end of stdin asks for it."""
    if os.fork():  # a process that nobody has to wait for, and that can't get a terminal
        os._exit(0)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    link = socket.socket(fileno=os.dup(0))
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.close(null)
    asyncio.run(_supervise(_Starter(link)))


class _Starter:
    """Whoever asked for the run, until that has begun."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._file = link.makefile("rb")

    def read(self) -> Any:
        """Return what comes next; an empty object where nothing does."""
        return json.loads(self._file.readline() or b"{}")

    def tell(self, value: Any) -> None:
        """Tell it something, if it is still there."""
        with suppress(OSError):
            self._link.sendall(_line(value))

    async def confirm(self, agent: AgentDefinition, reason: str) -> bool:
        """Ask it about a repository's agent."""
        self.tell({"agent": to_json(agent), "reason": reason})
        return self.read().get("yes") is True

    def on_start(self, _prepared: Prepared, run_id: str) -> None:
        """Let it go: the run has begun, or waits for its place."""
        self.tell({"runId": run_id})
        self.close()

    def close(self) -> None:
        """Let it go."""
        self._file.close()
        self._link.close()


async def _supervise(starter: _Starter) -> None:
    order, stopped = starter.read(), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    flags = {key: FlagValue(*pair) if pair[1] else pair[0] for key, pair in order["flags"].items()}
    # A run below another run needs no place: that one has one, and may be waiting for it.
    place = partial(user_place, state_home(os.environ) / "places")
    caller = Caller(
        os.environ,
        flags,
        confirm=starter.confirm if order["canAsk"] else None,
        on_start=starter.on_start,
        cancelled=stopped,
        place=None if current_depth(os.environ) else place,
        one_shot=True,
    )
    result = await perform(Request(**order["request"]), caller)
    if result.result is None:
        starter.tell({"refused": to_json(result.details.error)})
        starter.close()
    elif order["notify"]:
        _notify(order["notify"], result)


def _notify(command: str, result: ToolResult) -> None:
    """Start the command that wants to know of the end, with the run's id and its outcome."""
    outcome = str(result.result.outcome) if result.result else ""
    told = dict(zip(NOTIFY_VARIABLES, (result.details.run_id or "", outcome), strict=True))
    with suppress(OSError):
        subprocess.Popen(["/bin/sh", "-c", command], env={**os.environ, **told})


if __name__ == "__main__":
    sys.exit(main())
