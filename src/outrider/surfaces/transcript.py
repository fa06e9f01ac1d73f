"""A recorded run in words: its events, its steps, and what it said."""

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from outrider.delegation.session_history import recorded_events
from outrider.protocol import jsonl
from outrider.protocol.data import as_object
from outrider.records.runs import OUTPUT, SESSION, find_run
from outrider.settings.places import runs_folder
from outrider.surfaces.text import as_text, clean, clean_line

TAIL_BYTES = 16 << 10
WORDS = {
    "run": "{agent} on {model}: {task}",
    "session": "{agent} on {model}",
    "turn_start": "turn {turn}",
    "turn_end": "turn {turn}",
    "message_end": "{text} {calls}",
    "user_message": "{text}",
    "tool_start": "{name} {args}",
    "tool_result_end": "{name}: {code} {message}",
    "retry": "{message} (retrying in {delayMs} ms)",
    "task_finish": "{outcome} {error}",
    "end": "{outcome} {error}",
}
"""What is said of an event; of any other, all of it."""


def run_lines(name: str) -> list[str]:
    """Return a run in lines: its task, its steps, then what it said; raises `Refusal`."""
    run = find_run(runs_folder(os.environ), name)
    steps: list[str] = []
    with suppress(FileNotFoundError):  # as the run's problem says
        for event in recorded_events(run.folder / SESSION):
            if event.get("type") == "tool_start":
                steps.append(f"· {event_words(event)}")
    task = f"{run.id} · {run.state} · {as_text(run.opening.get('task'))}"
    said = [clean(line.rstrip("\n")) for _, line in numbered_lines(run.folder / OUTPUT)]
    lacking = [f"[{run.problem}]"] if run.problem else []
    return [*map(clean_line, (task, *steps)), "", *(said + lacking or ["[no output]"])]


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a record with their numbers; none where there is no file."""
    with suppress(FileNotFoundError), open(path, "rb") as file:
        yield from enumerate((line.decode(errors="replace") for line in file), 1)


def tail(path: Path, size: int = TAIL_BYTES) -> Iterator[dict[str, Any]]:
    """Yield the last objects of a file that has one on each line, the last one first."""
    with suppress(OSError), open(path, "rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - size))
        for line in reversed(file.read().split(b"\n")):
            with suppress(ValueError, RecursionError):
                yield as_object(jsonl.decode(line))


def event_words(event: Mapping[str, Any]) -> str:
    calls = cast("list[dict[str, Any]]", event.get("toolCalls") or [])
    envelope = cast("dict[str, Any]", event.get("envelope") or {})
    known = {**envelope, **event, "args": as_text(event.get("args"))}
    known["calls"] = f"→ {', '.join(str(call.get('name')) for call in calls)}" if calls else ""
    form = "{summary}" if event.get("summary") else WORDS.get(str(event.get("type")))
    return form.format_map(defaultdict(str, known)) if form else as_text(event)


def new_text(output: Path, shown: int) -> tuple[str, int]:
    """Return what a file has behind the part that is shown, and how long it is."""
    try:
        with open(output, "rb") as file:
            file.seek(shown)
            text = file.read().decode(errors="ignore")
            return text, os.fstat(file.fileno()).st_size
    except FileNotFoundError:
        return "", 0
