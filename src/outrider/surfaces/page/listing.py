"""The runs as the page lists them: each is read once, and again when it has changed."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from outrider.protocol import jsonl
from outrider.protocol.data import as_object
from outrider.records.runs import OUTPUT, SESSION, RecordedRun, find_run, read_run, run_folders
from outrider.surfaces.text import call_line

Row = dict[str, Any]
LOOK_EVERY_SECONDS = 1.0
TAIL_BYTES = 16 << 10
MAX_SEARCHED_BYTES = 1 << 20


class Listing:
    """The rows of all runs, for all who look at them."""

    def __init__(self, runs: Path) -> None:
        self._runs = runs
        self._rows: dict[str, tuple[int, int, Row]] = {}
        """Of each run: when its folder changed, the version that its row came with, its row."""
        self._version = 0
        self._looking = asyncio.Lock()

    async def news(self, seen: int = 0) -> AsyncIterator[tuple[list[Row], int]]:
        """Yield the rows that are new since a version, then those that change, each with theirs."""
        while True:
            async with self._looking:
                await asyncio.to_thread(self._look)
            rows = [row for _, version, row in self._rows.values() if version > seen]
            seen = self._version
            yield rows, seen
            await asyncio.sleep(LOOK_EVERY_SECONDS)

    def _look(self) -> None:
        """Read what has changed: what is running each time, all else when its folder changes."""
        self._version += 1
        left = set(self._rows)
        for folder in run_folders(self._runs):
            left.discard(name := folder.name)
            before, _, known = self._rows.get(name, (0, 0, Row()))
            with suppress(FileNotFoundError):  # just deleted
                stamp = os.stat(folder).st_mtime_ns
                if stamp != before or known.get("state") == "running":
                    self._note(name, stamp, row_of(read_run(folder)))
        for name in left:
            self._note(name, 0, {"runId": name, "state": "gone"})

    def _note(self, name: str, stamp: int, row: Row) -> None:
        _, version, known = self._rows.get(name, (0, 0, None))
        self._rows[name] = (stamp, version if row == known else self._version, row)


def row_of(run: RecordedRun) -> Row:
    """Return a run as the list shows it, with its last step and whether somebody has to act."""
    tail = list(_tail(run.folder))
    row = {**run.summary, "step": _step(tail), "needs": ""}
    if run.state == "running":
        used = (as_object(one.get("usage")) for one in tail if one.get("type") == "turn_end")
        row |= {"usage": next(used, None), "needs": "question" if _is_asking(tail) else ""}
    elif row.get("changes") == "pending":
        row["needs"] = "changes"
    return row


def _tail(folder: Path) -> Iterator[Row]:
    """Yield the last events of a transcript, the last one first."""
    with suppress(OSError), open(folder / SESSION, "rb") as session:
        session.seek(max(0, session.seek(0, os.SEEK_END) - TAIL_BYTES))
        for line in reversed(session.read().split(b"\n")):
            with suppress(ValueError, RecursionError):
                yield as_object(jsonl.decode(line))


def _step(tail: list[Row]) -> str:
    """Return the last tool call."""
    calls = (one for one in tail if one.get("type") == "tool_start")
    return next((call_line(str(one.get("name")), one.get("args")) for one in calls), "")


def _is_asking(tail: list[Row]) -> bool:
    """Whether a main agent waits for a person: it asked about a call that hasn't begun."""
    begun = set[object]()
    for one in tail:
        if one.get("type") == "parent_request" and one.get("kind") == "permit":
            return one.get("name") not in begun
        begun |= (
            {one.get("name")} if one.get("type") in ("tool_start", "tool_result_end") else set()
        )
    return False


def rows_of(runs: Path, names: list[str]) -> list[Row]:
    """Return the rows of those of these runs that there are."""
    folders = (runs / name for name in names)
    return [row_of(find_run(runs, one.name)) for one in folders if one.is_dir()]


def runs_with(runs: Path, words: str) -> list[str]:
    """Return the ids of the runs in whose task or answer these words stand."""
    wanted = words.casefold()
    return [folder.name for folder in run_folders(runs) if wanted in _searched(folder)]


def _searched(folder: Path) -> str:
    task, answer = b"", b""
    with suppress(OSError, ValueError, RecursionError), open(folder / SESSION, "rb") as session:
        opening = as_object(jsonl.decode(session.readline(MAX_SEARCHED_BYTES)))
        task = str(opening.get("task", "")).encode(errors="replace")
    with suppress(OSError), open(folder / OUTPUT, "rb") as output:
        answer = output.read(MAX_SEARCHED_BYTES)
    return b"\n".join((task, answer)).decode(errors="replace").casefold()
