"""`outrider show`: what a run said, or any part of it, without asking a model again."""

import json
import os
import sys
from argparse import Namespace
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from outrider.delegation.session_history import recorded_events
from outrider.records.runs import OUTPUT, SESSION, RecordedRun, find_run
from outrider.settings.places import runs_folder
from outrider.surfaces.cli import output
from outrider.surfaces.parser import argument, bad_call
from outrider.surfaces.text import as_text, clean, clean_line, fit, pad

EXAMPLES = """\
examples:
  outrider show last                  what the newest run said; -2 is the next
  outrider show 1a2b3c4d              the same of any run
  outrider show 1a2b --lines 100:200  these lines of it; also 100: and :200
  outrider show 1a2b --events         its transcript; JSON lines in a pipe
"""
ARGUMENTS = (
    argument("run", metavar="RUN", help="a run's id, how it begins, or last"),
    argument("--lines", metavar="A:B", default=":", help="only the lines from A to B"),
    argument("--events", action="store_true", help="the transcript, not the output"),
)

WORDS = {
    "run": "{agent} on {model}: {task}",
    "session": "{agent} on {model}",
    "turn_start": "turn {turn}",
    "turn_end": "turn {turn}",
    "message_end": "{text} {calls}",
    "tool_start": "{name} {args}",
    "tool_result_end": "{name}: {code} {message}",
    "retry": "{message} (again in {delayMs} ms)",
    "task_finish": "{outcome} {error}",
    "end": "{outcome} {error}",
}
"""What is said of an event; of any other, all of it."""
MAX_EVENT_TEXT = 300
MAX_LINE = 10**15


def execute(arguments: Namespace) -> None:
    """Print the part of the run that was asked for."""
    lines = _line_numbers(arguments.lines)
    run = find_run(runs_folder(os.environ), arguments.run)
    if arguments.events:
        _write_events(run.folder / SESSION, lines, as_json=arguments.json)
    elif arguments.json:
        _write_record(run, lines)
    else:
        _write_output(run, lines)
    if problem := run.details.get("recordProblem"):
        output.say(str(problem))


def summary_lines(name: str) -> list[str]:
    """Return a run in lines: its task, its steps, then what it said; raises `Refusal`."""
    run = find_run(runs_folder(os.environ), name)
    steps = [
        f"· {_words(event)}"
        for event in recorded_events(run.folder / SESSION)
        if event.get("type") == "tool_start"
    ]
    task = f"{run.id} · {run.state} · {as_text(run.opening.get('task'))}"
    said = [clean(line.rstrip("\n")) for _, line in _lines(run.folder / OUTPUT)]
    return [*map(clean_line, (task, *steps)), "", *(said or ["[no output]"])]


def _line_numbers(given: str) -> range:
    """Return the numbers, from 1, that `A:B`, `A:`, `:B` or `A` stands for; raises `Refusal`."""
    first, colon, last = given.partition(":")
    first, last = (first or "1", last or str(MAX_LINE)) if colon else (first, first)
    if not all(part.isascii() and part.isdigit() and len(part) < 17 for part in (first, last)):
        raise bad_call(f"--lines {given!r} can't be read: write A:B, A: or :B", "show")
    numbers = range(int(first), int(last) + 1)
    if not numbers or numbers.start == 0:
        raise bad_call(f"--lines {given!r} selects no line: A counts from 1, B from A", "show")
    return numbers


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    with suppress(FileNotFoundError), open(path, "rb") as file:
        yield from enumerate((line.decode(errors="replace") for line in file), 1)


def _write_output(run: RecordedRun, wanted: range) -> None:
    total = 0
    for total, line in _lines(run.folder / OUTPUT):
        if total in wanted:
            output.write_text(line)
    output.flush()
    if total == 0:
        hint = f"'outrider show {run.id} --events' shows what happened."
        output.say(f"run {run.id} ({run.state}) has no output. {hint}")
    elif wanted.start > total:
        output.say(f"the output of run {run.id} ends with line {total}.")


def _write_record(run: RecordedRun, wanted: range) -> None:
    lines = list(_lines(run.folder / OUTPUT))
    shown = [line for number, line in lines if number in wanted]
    part = {"first": wanted.start, "shown": len(shown), "total": len(lines)}
    said = {"lines": part, "output": "".join(shown), "result": run.result or None}
    output.write_json({**run.summary, **said})


def _write_events(session: Path, wanted: range, *, as_json: bool) -> None:
    as_json = as_json or not sys.stdout.isatty()
    for line in (line for number, line in _lines(session) if number in wanted):
        try:
            event: Any = json.loads(line)
        except (ValueError, RecursionError):
            continue  # the last line of a run that goes on may be half written
        if as_json:
            output.write_json_text(line.rstrip("\n"))
        else:
            output.write(_event_line(cast("dict[str, Any]", event)) + "\n")


def _event_line(event: Mapping[str, Any]) -> str:
    """Return an event as a line: when, what, and what it says."""
    kind, at = pad(clean_line(str(event.get("type", "?"))), 15), event.get("at")
    seconds = f"{at / 1000:9.2f} s" if isinstance(at, int | float) else " " * 11
    words = fit(clean_line(_words(event)[: MAX_EVENT_TEXT * 4]), MAX_EVENT_TEXT)
    return f"{output.coloured(seconds, 'dim')}  {output.coloured(kind, 'cyan')}  {words}"


def _words(event: Mapping[str, Any]) -> str:
    calls = cast("list[dict[str, Any]]", event.get("toolCalls") or [])
    envelope = cast("dict[str, Any]", event.get("envelope") or {})
    known = {**envelope, **event, "args": as_text(event.get("args"))}
    known["calls"] = f"→ {', '.join(str(call.get('name')) for call in calls)}" if calls else ""
    form = "{summary}" if event.get("summary") else WORDS.get(str(event.get("type")))
    return form.format_map(defaultdict(str, known)) if form else as_text(event)
