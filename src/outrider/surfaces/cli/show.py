"""`outrider show`: what a run said, any part of it, without asking a model again."""

import json
import os
import sys
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from outrider.protocol.errors import ErrorCode, Refusal
from outrider.records.runs import OUTPUT, SESSION, KeptRun, find_run
from outrider.settings.places import runs_folder
from outrider.surfaces.cli import output
from outrider.surfaces.cli.parser import CommandParser, bad_call
from outrider.surfaces.cli.runs import record
from outrider.surfaces.cli.transcript import event_line

EXAMPLES = """\
examples:
  outrider show 1a2b3c4d              what the run said, whole
  outrider show 1a2b --lines 100:200  these lines of it; also 100: and :200
  outrider show 1a2b --events         its transcript; JSON lines in a pipe
"""


@dataclass(frozen=True, slots=True)
class Range:
    """Lines from the first to the last, both counted from 1 and included; None is the end."""

    first: int = 1
    last: int | None = None

    def __contains__(self, number: int) -> bool:
        return self.first <= number and (self.last is None or number <= self.last)


def configure(parser: CommandParser) -> None:
    """Declare the arguments of `show`."""
    parser.add_argument("run", metavar="RUN", help="a run's id, or how it begins")
    parser.add_argument("--lines", metavar="A:B", help="only the lines from A to B")
    parser.add_argument("--events", action="store_true", help="the transcript, not the output")


def execute(arguments: Namespace) -> int:
    """Print the part of the run that was asked for."""
    lines = read_range(arguments.lines)
    try:
        run = find_run(runs_folder(os.environ), arguments.run)
    except LookupError as error:
        raise Refusal(ErrorCode.INVALID_INPUT, str(error.args[0])) from None
    if arguments.events:
        _write_events(run.folder / SESSION, lines, as_json=arguments.json)
    elif arguments.json:
        _write_record(run, lines)
    else:
        _write_output(run, lines)
    return 0


def read_range(given: str | None) -> Range:
    """Return the range that `A:B`, `A:`, `:B` or `A` stands for; raises `Refusal`."""
    if given is None:
        return Range()
    first, colon, last = given.partition(":")
    parts = (first or "1", last or "0") if colon else (first, first)
    if not all(part.isascii() and part.isdigit() and len(part) < 16 for part in parts):
        raise bad_call(f"--lines {given!r} can't be read: write A:B, A: or :B", "show")
    start, end = int(parts[0]), int(parts[1])
    if start < 1 or ((last or not colon) and end < start):
        raise bad_call(f"--lines {given!r} holds no line: lines are counted from 1, A to B", "show")
    return Range(start, end or None)


def _lines(path: Path) -> Iterator[str]:
    try:
        with open(path, encoding="utf-8", errors="replace", newline="\n") as file:
            yield from file
    except FileNotFoundError:
        return


def _write_output(run: KeptRun, wanted: Range) -> None:
    total = 0
    for line in _lines(run.folder / OUTPUT):
        total += 1
        if total in wanted:
            output.write_text(line)
    output.flush()
    if total == 0:
        output.say(
            f"run {run.id} ({run.state}) has no output. "
            f"'outrider show {run.id} --events' tells what happened."
        )
    elif wanted.first > total:
        output.say(f"the output of run {run.id} ends with line {total}.")


def _write_record(run: KeptRun, wanted: Range) -> None:
    numbered = list(enumerate(_lines(run.folder / OUTPUT), 1))
    shown = [line for number, line in numbered if number in wanted]
    output.write_json(
        {
            **record(run),
            "lines": {"first": wanted.first, "shown": len(shown), "total": len(numbered)},
            "output": "".join(shown),
            "result": run.result or None,
        }
    )


def _write_events(session: Path, wanted: Range, *, as_json: bool) -> None:
    plain = as_json or not output.is_terminal(sys.stdout)
    for number, line in enumerate(_lines(session), 1):
        if number not in wanted:
            continue
        try:
            event: Any = json.loads(line)
        except (ValueError, RecursionError):
            continue  # the last line of a run under way may be half written
        if plain:
            output.write_json_text(line.rstrip("\n"))
        else:
            output.write(event_line(cast("dict[str, Any]", event)) + "\n")
