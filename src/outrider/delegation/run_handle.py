"""A handle on a run, whoever supervises it: follow it, talk to it, stop it, get its result."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from outrider.delegation.control import ask_run
from outrider.delegation.request import Request, check_input, invalid
from outrider.models.endings import StopReason
from outrider.protocol import jsonl
from outrider.protocol.data import from_json, frozen
from outrider.protocol.errors import ErrorCode
from outrider.protocol.events import (
    Event,
    MessageEndEvent,
    UserMessageEvent,
    event_from_json,
    is_event,
)
from outrider.protocol.exit_codes import EXIT_FAILED
from outrider.protocol.outcomes import Outcome
from outrider.protocol.results import Details, ErrorInfo, SingleResult, ToolResult, text_result
from outrider.records.runs import OUTPUT, SESSION, RecordedRun, find_run, is_running
from outrider.settings.places import runs_folder

LOOK_EVERY_SECONDS = 0.05
MAX_PART_BYTES = 256 << 10
"""How much of a transcript is read at once, and kept while a slow reader takes it in."""
INTERRUPTED = "The run was interrupted: the process that supervised it ended before it did."


@frozen
class TranscriptLine:
    """One line of a transcript: its bytes, and what it says."""

    begin: int
    end: int
    data: dict[str, Any]


class RunHandle:
    """A run that goes on, or has ended."""

    def __init__(self, folder: Path, own: "asyncio.Task[ToolResult] | None" = None) -> None:
        """`own` is the task that supervises it, where that is in this process."""
        self.folder = folder
        self._own = own

    @classmethod
    def find(cls, name: str) -> Self:
        """Return a handle on the run whose id is or starts with `name`; raises `Refusal`."""
        return cls(find_run(runs_folder(os.environ), name).folder)

    @property
    def id(self) -> str:
        """The run's id."""
        return self.folder.name

    async def result(self) -> ToolResult:
        """Return its result, when it has ended. Whoever stops waiting doesn't stop the run."""
        if self._own is not None:
            return await asyncio.shield(self._own)
        while is_running(self.folder):
            await asyncio.sleep(LOOK_EVERY_SECONDS)
        return result_of(find_run(self.folder.parent, self.id))

    def events(self) -> AsyncIterator[Event]:
        """Return its events from the first on, until it has ended; text that comes in pieces whole.

        They are read from its transcript, so what it is doing doesn't wait for whoever watches.
        """
        return _events(self.folder)

    async def tell(self, text: str) -> int | None:
        """Tell the child something, and return in which turn the model has read it.

        A message counts as read when the model has answered the request that carries it. None
        means that the run ended before. Raises `Refusal` for what can't be told.
        """
        check_input(Request("any", text))
        begin, is_carried = os.stat(self.folder / SESSION).st_size, False
        answer = await ask_run(self.folder, {"tell": text}) or {}
        if "refused" in answer:
            raise invalid(str(answer["refused"]))
        if "id" not in answer:
            return None
        async for event in _events(self.folder, begin):
            match event:
                case UserMessageEvent(id=message):
                    is_carried |= message == answer["id"]
                case MessageEndEvent(turn=turn, stop_reason=reason) if is_carried:
                    if reason != StopReason.FAILED:
                        return turn
                case _:
                    pass
        return None

    async def stop(self) -> ToolResult:
        """Stop it, and return its result."""
        await ask_run(self.folder, {"stop": True})
        return await self.result()


async def _events(folder: Path, begin: int = 0) -> AsyncIterator[Event]:
    """Yield the events of a run's transcript from a position on, and those that come."""
    async for lines in followed(folder, begin):
        for line in lines:
            if is_event(line.data):
                with suppress(ValueError):
                    yield event_from_json(line.data)


async def followed(folder: Path, begin: int = 0) -> AsyncIterator[list[TranscriptLine]]:
    """Yield the lines of a run's transcript from a position on, and those that come."""
    async for lines in appended(folder / SESSION, lambda: is_running(folder), begin):
        yield lines


async def appended(
    path: Path, is_written: Callable[[], bool], begin: int = 0
) -> AsyncIterator[list[TranscriptLine]]:
    """Yield the lines of a file of JSON objects from a position on, while somebody writes to it.

    They come some at a time, and none each time that there is nothing new.
    """
    held, at, is_over = bytearray(), begin, False
    with open(path, "rb") as file:  # noqa: ASYNC230
        file.seek(begin)
        while not is_over:
            has_ended = not is_written()  # first: what was written before the end is read below
            part = file.read(MAX_PART_BYTES)
            held += part
            lines, found = list[bytes](), list[TranscriptLine]()
            if b"\n" in part:
                *lines, rest = bytes(held).split(b"\n")
                held = bytearray(rest)
            for line in lines:
                if data := jsonl.decoded_object(line):  # else it was cut by a full disk
                    found.append(TranscriptLine(at, at + len(line) + 1, data))
                at += len(line) + 1
            yield found
            is_over = has_ended and not part
            if not (part or is_over):
                await asyncio.sleep(LOOK_EVERY_SECONDS)


def result_of(run: RecordedRun) -> ToolResult:
    """Return the result of a run that has ended, from its record, as far as that goes."""
    with suppress(ValueError):  # another version's record may say other things
        return from_json(ToolResult, run.result).with_changes()
    file, opening, output = run.folder / OUTPUT, run.opening, ""
    with suppress(OSError):
        output = file.read_text("utf-8", "replace")
    single = SingleResult(
        agent=str(opening.get("agent", "")),
        task=str(opening.get("task", "")),
        outcome=Outcome.FAILED,
        exit_code=EXIT_FAILED,
        output=output,
        error=run.problem or INTERRUPTED,
        model=opening.get("model"),
        session_file=str(run.folder / SESSION),
        output_file=str(file) if file.is_file() else None,
        record_problem=run.problem,
    )
    error = ErrorInfo(ErrorCode.SUBAGENT_FAILED, single.error or "")
    return text_result(
        output or error.message, Details(run_id=run.id, results=(single,), error=error)
    )
