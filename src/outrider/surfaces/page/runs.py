"""A run as the page shows it: its row in the list, its head, its steps and its changes."""

import itertools
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from outrider.delegation.landing import writer_run
from outrider.delegation.request import invalid
from outrider.delegation.run_handle import TranscriptLine, followed
from outrider.delegation.session_history import recorded_events
from outrider.protocol import jsonl
from outrider.protocol.data import as_list, as_object, member
from outrider.records import runs as records
from outrider.records.runs import LAYER, OUTPUT, SESSION, RecordedRun
from outrider.surfaces.text import call_line
from outrider.surfaces.transcript import tail
from outrider.workspaces.layers.review import review

Json = dict[str, Any]
MAX_CELL, MAX_ANSWER_BYTES = 500, 1 << 20
MAX_EVENT_BYTES, MAX_TEXT = 1_500, 6_000
"""How long an event and a message may be that are sent whole, before somebody opens them."""
_LEFT_OUT = {"task", "output", "displayItems", "sessionFile", "outputFile", "folder", "kept"}


def row_of(run: RecordedRun) -> Json:
    """Return a run as the list shows it, with its last step and whether somebody has to act."""
    calls = (one for one in tail(run.folder / SESSION) if one.get("type") == "tool_start")
    step = next((call_line(str(one.get("name")), one.get("args")) for one in calls), "")
    known = {**run.summary, "step": step}
    row = {
        key: value[:MAX_CELL] if isinstance(value, str) else value for key, value in known.items()
    }
    if run.state == "running":
        last = [*tail(run.folder / SESSION)]
        used = (as_object(one.get("usage")) for one in last if one.get("type") == "turn_end")
        return {**row, "usage": next(used, None), "needs": "question" if _asks(last) else ""}
    return {**row, "needs": "changes" if row.get("changes") == "pending" else ""}


def _asks(last: list[Json]) -> bool:
    """Whether a main agent waits for a person: it asked about a call that hasn't begun."""
    begun = set[object]()
    for one in last:
        if one.get("kind") == "permit":
            return one.get("name") not in begun
        begun |= {one.get("name")} if str(one.get("type")).startswith("tool_") else set()
    return False


def runs_with(runs: Path, words: str) -> list[str]:
    """Return the ids of the runs in whose task or answer these words stand."""
    found = (
        (folder.name, _opening(folder), _answer(folder)) for folder in records.run_folders(runs)
    )
    return [name for name, *texts in found if words.casefold() in "\n".join(texts).casefold()]


def _opening(folder: Path) -> str:
    with suppress(OSError, ValueError, RecursionError), open(folder / SESSION, "rb") as session:
        return str(member(jsonl.decode(session.readline(MAX_ANSWER_BYTES)), "task") or "")
    return ""


def _answer(folder: Path) -> str:
    with suppress(OSError), open(folder / OUTPUT, "rb") as output:
        return output.read(MAX_ANSWER_BYTES).decode(errors="replace")
    return ""


def head_of(run: RecordedRun) -> Json:
    """Return what stands above a run's steps: what was asked, how it ended, what it answered."""
    details = as_object(run.result.get("details"))
    result = as_object(next(iter(as_list(details.get("results"))), None))
    shown = {name: value for name, value in result.items() if name not in _LEFT_OUT}
    asked = {name: value for name, value in run.opening.items() if name != "folder"}
    is_writer = (run.folder / LAYER).is_dir() or "changes" in result
    known = {"opening": asked, "result": shown, "delegations": as_list(details.get("delegations"))}
    return {**row_of(run), **known, "isWriter": is_writer, "answer": _answer(run.folder)}


def changes_in(name: str, env: Mapping[str, str]) -> Json:
    """Return what a writer's run changed, with the diff of each file; raises `Refusal`."""
    changes, drawn = review(writer_run(name, env)[0])
    files = [{**asdict(one.file), "diff": "\n".join(one.lines)} for one in drawn]
    return {**changes.to_dict(), "files": files}


def folder_of(run: RecordedRun) -> str:
    """Return the folder that a run worked in, as one of its first lines has it."""
    events = itertools.islice(recorded_events(run.folder / SESSION), 2)
    return next((str(one["folder"]) for one in events if "folder" in one), os.devnull)


async def run_news(folder: Path, start: int) -> AsyncIterator[tuple[str, Any, int]]:
    """Yield the events of a run from a byte on, and its end, each with its place.

    Nothing is kept of them: whoever is cut off goes on from the place of the last one.
    """
    with suppress(FileNotFoundError):  # just deleted
        async for lines in followed(folder, start):
            if lines:
                start = lines[-1].end
                yield "events", [bounded(one) for one in lines], start
    yield "end", {}, start


def bounded(line: TranscriptLine, most: int = MAX_EVENT_BYTES) -> Json:
    """Return an event with its place; of a long one only what tells how it went."""
    event = {name: value for name, value in line.data.items() if name not in ("folder", "kept")}
    event |= {"begin": line.begin, "bytes": line.end - line.begin}
    if event.get("type") == "tool_start":
        event["words"] = call_line("", event.get("args"))
    if event["bytes"] <= most:
        return event
    data, text = member(event.get("envelope"), "data"), str(event.get("text", ""))
    short = {name: value for name, value in event.items() if len(jsonl.encode(value)) <= 500}
    if "envelope" in event:  # a delegation's run stays named
        told = as_object(event["envelope"]) | {"data": {"runId": member(data, "runId")}}
        return {**short, "envelope": told, "isCut": True}
    return {**short, "text": text[:MAX_TEXT], "isCut": not text or len(text) > MAX_TEXT}


def event_at(folder: Path, begin: int) -> Json:
    """Return the whole event that begins at a byte; raises `Refusal` where none does."""
    with open(folder / SESSION, "rb") as session:
        session.seek(max(0, begin - 1))
        if (begin == 0 or session.read(1) == b"\n") and (line := session.readline()):
            event = as_object(jsonl.decode(line))
            return bounded(TranscriptLine(begin, begin + len(line), event), len(line))
    raise invalid(f"No event begins at byte {begin} of run {folder.name}.")
