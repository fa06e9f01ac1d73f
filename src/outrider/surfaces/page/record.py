"""One run as the page shows it: its head, its events in bounded form, its changes."""

import itertools
import os
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, cast

from outrider.delegation.landing import writer_run
from outrider.delegation.request import invalid
from outrider.delegation.run_handle import TranscriptLine, followed
from outrider.delegation.session_history import recorded_events
from outrider.protocol import jsonl
from outrider.protocol.data import as_list, as_object, member
from outrider.records.runs import LAYER, OUTPUT, SESSION, RecordedRun
from outrider.surfaces.page.listing import row_of
from outrider.surfaces.transcript import new_text
from outrider.workspaces.layers.review import review, with_diffs

Json = dict[str, Any]
MAX_ANSWER_BYTES = 1 << 20
MAX_EVENT_BYTES = 1_500
"""How long an event may be that is sent whole, before somebody opens it."""
MAX_TEXT = 6_000
MAX_ARGUMENT, MAX_ENTRIES, MAX_DEPTH = 300, 20, 6
_NOT_SHOWN = frozenset({"folder", "kept"})  # an absolute path, and what only the provider reads
_NOT_IN_HEAD = frozenset({"task", "output", "displayItems", "sessionFile", "outputFile"})


def head_of(run: RecordedRun) -> Json:
    """Return what stands above a run's steps: what was asked, how it ended, what it answered."""
    details = as_object(run.result.get("details"))
    result = as_object(next(iter(as_list(details.get("results"))), None))
    answer, size = _answer(run.folder)
    return {
        **row_of(run),
        "opening": {k: v for k, v in run.opening.items() if k not in _NOT_SHOWN},
        "result": {k: v for k, v in result.items() if k not in _NOT_IN_HEAD},
        "delegations": as_list(details.get("delegations")),
        "isWriter": (run.folder / LAYER).is_dir() or "changes" in result,
        "answer": answer,
        "answerBytes": size,
    }


def _answer(folder: Path) -> tuple[str, int]:
    """Return the beginning of what a run said, and how much it is."""
    try:
        with open(folder / OUTPUT, "rb") as output:
            text = output.read(MAX_ANSWER_BYTES).decode(errors="ignore")
            return text, os.fstat(output.fileno()).st_size
    except OSError:
        return "", 0


def changes_in(name: str, env: Mapping[str, str]) -> Json:
    """Return what a writer's run changed, with the diff of each file; raises `Refusal`."""
    return with_diffs(*review(writer_run(name, env)[0]))


async def run_news(folder: Path, start: int) -> AsyncIterator[tuple[str, Any, int]]:
    """Yield the events of a run from a byte on, the text that comes, and at last its end.

    Nothing is kept: each has its kind, its data, and the byte from which to go on.
    """
    shown = 0
    async for lines in followed(folder, start):
        if lines:
            start = lines[-1].end
            yield "events", [bounded(one) for one in lines], start
        text, size = new_text(folder / OUTPUT, shown)
        if text or size < shown:
            is_new = not shown or size < shown
            yield "text", {"text": text, "isNew": is_new}, start
            shown = size if text else 0
    yield "end", {}, start


def bounded(line: TranscriptLine, most: int = MAX_EVENT_BYTES) -> Json:
    """Return an event as the page gets it at first, and the byte at which all of it is."""
    event = {k: v for k, v in line.data.items() if k not in _NOT_SHOWN}
    size = line.end - line.begin
    event |= {"begin": line.begin, "bytes": size}
    if size <= most:
        return event
    event["isCut"] = True
    if event.get("type") == "tool_result_end":
        return {**_short(event, MAX_ARGUMENT), "envelope": _verdict(event.get("envelope"))}
    if "toolCalls" in event:  # each says again what it is called with when it begins
        calls = as_list(event["toolCalls"])
        event["toolCalls"] = [
            {"id": member(one, "id"), "name": member(one, "name")} for one in calls
        ]
        return {**_short(event, MAX_TEXT), "isCut": len(str(event.get("text"))) > MAX_TEXT}
    return _short(event, MAX_TEXT if "text" in event else MAX_ARGUMENT)


def _verdict(envelope: Any) -> Json:
    """Return how a call went, without what it gave; a delegation's run stays named."""
    run_id = member(member(envelope, "data"), "runId")
    told = {"code": member(envelope, "code"), "message": _short(member(envelope, "message"), 300)}
    return {**told, **({"data": {"runId": run_id}} if isinstance(run_id, str) else {})}


def _short(value: Any, most: int, depth: int = 0) -> Any:
    """Return a value with its texts and lists cut."""
    if isinstance(value, str):
        return value if len(value) <= most else f"{value[:most]}…"
    if isinstance(value, list):
        items = cast("list[Any]", value)[: MAX_ENTRIES if depth < MAX_DEPTH else 0]
        return [_short(one, most, depth + 1) for one in items]
    if isinstance(value, dict):
        entries = list(cast("Json", value).items())[: MAX_ENTRIES if depth < MAX_DEPTH else 0]
        return {k[:MAX_ARGUMENT]: _short(item, most, depth + 1) for k, item in entries}
    return value


def event_at(folder: Path, begin: int) -> Json:
    """Return the whole event that begins at a byte; raises `Refusal` where none does."""
    with open(folder / SESSION, "rb") as session:
        session.seek(max(0, begin - 1))
        if begin == 0 or session.read(1) == b"\n":
            line = session.readline()
            if line.endswith(b"\n"):
                found = TranscriptLine(begin, begin + len(line), as_object(jsonl.decode(line)))
                return bounded(found, len(line))
    raise invalid(f"No event begins at byte {begin} of run {folder.name}.")


def folder_of(run: RecordedRun) -> str:
    """Return the folder that a run worked in, as its first lines have it."""
    events = itertools.islice(recorded_events(run.folder / SESSION), 2)
    return next((str(one["folder"]) for one in events if "folder" in one), os.devnull)
