"""The maps as the page shows them: a row for each among those of the runs, and its journal."""

import fcntl
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from outrider.delegation.request import invalid
from outrider.delegation.run_handle import appended
from outrider.protocol import jsonl
from outrider.protocol.data import as_object
from outrider.protocol.outcomes import Outcome
from outrider.settings.places import project_name
from outrider.surfaces.page.runs import Json
from outrider.surfaces.transcript import tail

MAX_BEGIN_BYTES, MAX_BYTES, MAX_TEXT = 16 << 20, 20_000, 500
_SHOWN = {"outcome", "task", "error", "usage", "runId"}
"""What is told of an item's row; the answer is in its run."""


def find_map(folder: Path, name: str) -> Path:
    """Return the journal of a map; raises `Refusal`."""
    path = folder / f"{name}.jsonl"
    if len(name) != 16 or not name.isalnum() or not path.is_file() or not _about(path):
        raise invalid("There is no such map.")
    return path


def row_of_map(journal: Path, env: Mapping[str, str]) -> Json:
    """Return a map as the list shows it, from the ends of its journal; raises `OSError`."""
    if not (about := _about(journal)):
        raise FileNotFoundError(f"{journal.name} isn't the journal of a map.")
    began = about["at"] if isinstance(about.get("at"), float) else journal.stat().st_mtime
    match next(tail(journal), None):
        case {"stop": why, "done": int(done), "failed": int(failed)}:
            step = f"{done:,} items, {failed:,} of them not completed"
            state = "stopped" if why else Outcome.FAILED if failed else Outcome.COMPLETED
        case _:
            why, step, state = None, "", "interrupted"
    return {
        "runId": journal.stem,
        "isMap": True,
        "startedAt": datetime.fromtimestamp(began, UTC).isoformat(timespec="milliseconds"),
        "state": "running" if _is_at_work(journal) else state,
        "agent": str(about.get("agent")),
        "task": str(about.get("task") or Path(str(about.get("input") or "")).name)[:MAX_TEXT],
        "project": project_name(Path(str(about["folder"])), env) if "folder" in about else None,
        "model": about.get("model"),
        "step": step,
        "error": why,
    }


async def map_news(journal: Path, start: int) -> AsyncIterator[tuple[str, Any, int]]:
    """Yield the lines of a journal from a byte on, without the answers, while its map is at work.

    Nothing is kept of them: whoever is cut off goes on from the place of the last one.
    """
    async for lines in appended(journal, partial(_is_at_work, journal), start):
        if lines:
            start = lines[-1].end
            yield "lines", [_shown(one.data) for one in lines], start
    yield "end", {}, start


def _shown(line: Json) -> Json:
    row = {name: value for name, value in as_object(line.get("row")).items() if name in _SHOWN}
    told = {**line, "row": row} if "row" in line else line
    cut = {name: text[:MAX_TEXT] if isinstance(text, str) else text for name, text in told.items()}
    return {name: value for name, value in cut.items() if len(jsonl.encode(value)) <= MAX_BYTES}


def _about(journal: Path) -> Json:
    """Return what a map is, as its journal begins; empty for another file."""
    with suppress(ValueError, RecursionError), open(journal, "rb") as lines:
        if "outriderMap" in (about := as_object(jsonl.decode(lines.readline(MAX_BEGIN_BYTES)))):
            return about
    return {}


def _is_at_work(journal: Path) -> bool:
    with suppress(OSError), open(journal, "rb") as lines:
        try:
            fcntl.flock(lines, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
