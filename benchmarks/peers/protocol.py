"""What all drivers share: orders on stdin, answers on stdout, one JSON object a line.

A driver starts with `{"ready": true, "version": …}`. Then:

`{"op": "delegate", "tasks": […], "concurrent": n or null}`
    runs the tasks at once, and answers `{"results": [{start, end, answer, error, cpu_s}]}`;
    `cpu_s` is the CPU time of the driver's own process, shared equally by the tasks
`{"op": "offer", "task": …}`
    has a parent with the delegation tool ask the model once, and answers `{"tool": name, …}`

Times are `time.monotonic()`, which all processes of a machine share.
"""

import asyncio
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

Delegate = Callable[[str], Awaitable["str | Timed"]]
Offer = Callable[[str], Awaitable[dict[str, Any]]]
Prepare = Callable[[int, int | None], Awaitable[None]]

MODEL = "scripted"
DESCRIPTION = "Finds where things are in this codebase."


@dataclass(frozen=True)
class Timed:
    """An answer with its own times, for a driver whose call is more than the delegation."""

    answer: str
    start: float
    end: float


def read_note(path: str) -> str:
    """The tool of the peers that run in this process; the others have their own `read`."""
    with open(path) as file:
        return file.read()


async def output_of(command: Sequence[str]) -> str:
    """Return what a command prints; raises `RuntimeError` if it fails."""
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"exit code {process.returncode}: {err.decode()[-400:]}")
    return out.decode()


def serve(
    delegate: Delegate,
    *,
    version: str,
    offer: Offer | None = None,
    prepare: Prepare | None = None,
) -> None:
    """Follow orders until stdin ends; `prepare(tasks, concurrent)` is called before the timing."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints must not look like an answer
    asyncio.run(_serve(delegate, version, offer, prepare, answers))


async def _serve(delegate, version, offer, prepare, answers) -> None:
    def tell(answer: dict[str, Any]) -> None:
        answers.write(json.dumps(answer) + "\n")
        answers.flush()

    if prepare:
        await prepare(1, None)
    tell({"ready": True, "version": version})
    while line := await asyncio.to_thread(sys.stdin.readline):
        order = json.loads(line)
        if order["op"] == "offer":
            tell(await offer(order["task"]) if offer else {"tool": None})
            continue
        tasks = order["tasks"]
        if prepare:
            await prepare(len(tasks), order.get("concurrent"))
        spent = time.process_time()
        results = await asyncio.gather(*(_timed(delegate, task) for task in tasks))
        cpu_s = (time.process_time() - spent) / len(tasks)
        tell({"results": [{**result, "cpu_s": cpu_s} for result in results]})


async def _timed(delegate: Delegate, task: str) -> dict[str, Any]:
    start = time.monotonic()
    try:
        answer, error = await delegate(task), None
    except Exception as fault:
        answer, error = "", f"{type(fault).__name__}: {fault}"[:500]
    if isinstance(answer, Timed):
        return {"start": answer.start, "end": answer.end, "answer": answer.answer, "error": None}
    return {"start": start, "end": time.monotonic(), "answer": answer, "error": error}
