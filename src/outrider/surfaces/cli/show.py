"""`outrider show`: what a run said, or any part of it, without asking a model again."""

import os
import sys
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from outrider.delegation.run_handle import result_of
from outrider.protocol import jsonl
from outrider.protocol.exit_codes import EXIT_FAILED
from outrider.records.runs import LAYER, OUTPUT, SESSION, RecordedRun, find_run
from outrider.settings.places import runs_folder
from outrider.surfaces.parser import argument, bad_call, flag
from outrider.surfaces.terminal import output
from outrider.surfaces.text import clean_line, fit, pad
from outrider.surfaces.transcript import event_words, numbered_lines

EXAMPLES = """\
examples:
  outrider show last                  the newest run; -2 is the one before it
  outrider show 1a2b3c4d              any run, by its id or the start of it
  outrider show 1a2b --lines 100:200  only these lines; also 100: and :200
  outrider show 1a2b --events         the transcript; as JSON lines in a pipe

If the run's record is incomplete, stderr says what is missing, and the exit
code is 1.
"""
ARGUMENTS = (
    argument("run", metavar="RUN", help="a run id, the start of one, or last"),
    argument("--lines", metavar="A:B", default=":", help="print only lines A to B"),
    flag("--events", "print the transcript instead of the output"),
)

MAX_EVENT_TEXT = 300
MAX_LINE = 10**15


def execute(arguments: Namespace) -> int:
    """Print the part of the run that was asked for; return 1 where its record isn't whole."""
    lines = _line_numbers(arguments.lines)
    run = find_run(runs_folder(os.environ), arguments.run)
    problem = run.problem
    try:
        if arguments.events:
            _write_events(run.folder / SESSION, lines, as_json=arguments.json)
        elif arguments.json:
            _write_record(run, lines)
        else:
            _write_output(run, lines)
    except OSError as error:
        problem = problem or f"The record of run {run.id} can't be read: {error}."
    output.flush()
    if told := _changes(run):
        output.say(told)
    if problem:
        output.say(problem)
    return EXIT_FAILED if problem else 0


def _changes(run: RecordedRun) -> str:
    """Return what has become of a writer's changes; empty for an agent that only reads."""
    ended = result_of(run).result
    if ended and ended.changes:
        return ended.changes.words(run.id)
    is_left = run.state != "running" and not run.result and (run.folder / LAYER).is_dir()
    return f"'outrider diff {run.id}' shows what it changed." if is_left else ""


def _line_numbers(given: str) -> range:
    """Return the numbers, from 1, that `A:B`, `A:`, `:B` or `A` stands for; raises `Refusal`."""
    first, colon, last = given.partition(":")
    first, last = (first or "1", last or str(MAX_LINE)) if colon else (first, first)
    if not all(part.isascii() and part.isdigit() and len(part) < 17 for part in (first, last)):
        raise bad_call(f"--lines {given!r} is not a range: write A:B, A: or :B", "show")
    numbers = range(int(first), int(last) + 1)
    if not numbers or numbers.start == 0:
        raise bad_call(f"--lines {given!r} selects no lines: A starts at 1, B at A", "show")
    return numbers


def _write_output(run: RecordedRun, wanted: range) -> None:
    total = 0
    for total, line in numbered_lines(run.folder / OUTPUT):
        if total in wanted:
            output.write_text(line)
    output.flush()
    if run.problem and total < wanted.start:
        return
    if total == 0:
        hint = f"'outrider show {run.id} --events' shows what happened."
        output.say(f"run {run.id} ({run.state}) has no output. {hint}")
    elif wanted.start > total:
        output.say(f"the output of run {run.id} ends with line {total}.")


def _write_record(run: RecordedRun, wanted: range) -> None:
    lines = list(numbered_lines(run.folder / OUTPUT))
    shown = [line for number, line in lines if number in wanted]
    part = {"first": wanted.start, "shown": len(shown), "total": len(lines)}
    said = {"lines": part, "output": "".join(shown), "result": run.result or None}
    output.write_json({**run.summary, **said})


def _write_events(session: Path, wanted: range, *, as_json: bool) -> None:
    as_json = as_json or not sys.stdout.isatty()
    for line in (line for number, line in numbered_lines(session) if number in wanted):
        event = jsonl.decoded_object(line.encode())  # the last one may be half written as yet
        if event and as_json:
            output.write_json_text(line.rstrip("\n"))
        elif event:
            output.write_clean(_event_line(event) + "\n")


def _event_line(event: Mapping[str, Any]) -> str:
    kind, at = pad(clean_line(str(event.get("type", "?"))), 15), event.get("at")
    seconds = f"{at / 1000:9.2f} s" if isinstance(at, int | float) else " " * 11
    words = fit(clean_line(event_words(event)[: MAX_EVENT_TEXT * 4]), MAX_EVENT_TEXT)
    return f"{output.coloured(seconds, 'dim')}  {output.coloured(kind, 'cyan')}  {words}"
