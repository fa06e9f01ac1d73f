"""`outrider map`: one agent over many items, with a row of JSON for each on stdout."""

import asyncio
import csv
import math
import os
import sys
from argparse import ArgumentTypeError, Namespace
from collections.abc import Callable, Iterator
from contextlib import ExitStack, aclosing
from functools import partial
from itertools import islice
from pathlib import Path, PurePath
from statistics import mean
from typing import Any

from outrider.delegation.map.engine import MapRow
from outrider.delegation.map.items import Item, items_of, read_csv, read_lines
from outrider.delegation.map.journal import JournalLost, journal_path
from outrider.delegation.map.mapping import USED_UP, Map
from outrider.delegation.map.options import MapOptions
from outrider.delegation.perform import Caller
from outrider.delegation.request import invalid, working_directory
from outrider.protocol import jsonl
from outrider.protocol.data import to_json
from outrider.protocol.exit_codes import EXIT_CANCELLED, EXIT_FAILED
from outrider.protocol.outcomes import Outcome
from outrider.records.runs import recorded_runs
from outrider.settings.places import runs_folder
from outrider.settings.quantities import milliseconds
from outrider.surfaces.cli.run import can_ask, confirm_agent, stop_signals
from outrider.surfaces.cli.run_options import OPTIONS, WRITING, option_flags
from outrider.surfaces.cli.task_input import schema_from
from outrider.surfaces.parser import argument, bad_call, flag, number, time_span
from outrider.surfaces.table import Column, Report, Table
from outrider.surfaces.terminal import output
from outrider.surfaces.terminal.asking import read_answer
from outrider.surfaces.terminal.map_bar import MapBar, spent_words
from outrider.surfaces.text import count

EXAMPLES = """\
examples:
  outrider map reviewer --files 'src/**/*.py' --task "Review {path}"
  outrider map explorer questions.txt --output answers.csv --max-cost 5
An item is a line of text, a JSON object, or a CSV row. The same command goes on
where it was interrupted. The exit code is 0 only if every item completed.
"""
INTERRUPTED = "it was interrupted"
CELLS = ["id", "outcome", "output", "structuredOutput", "error", "tokens", "cost", "runId"]
FAILED = frozenset(map(str, Outcome)) - {str(Outcome.COMPLETED)}


def _amount(given: str) -> float:
    amount = float(given) if given.replace(".", "", 1).isdecimal() else 0.0
    if not 0 < amount < 1e12:
        raise ArgumentTypeError(f"{given!r} is not an amount: write a number above 0")
    return amount


def _outcomes(given: str) -> frozenset[str]:
    if unknown := [one for one in given.split(",") if one not in FAILED]:
        raise ArgumentTypeError(f"{unknown[0]!r} is none of {', '.join(sorted(FAILED))}")
    return frozenset(given.split(","))


ARGUMENTS = (
    argument("agent", metavar="AGENT", help="the agent"),
    argument("file", metavar="FILE", nargs="?", help="the items, one a line; - reads stdin"),
    argument("--task", metavar="TEXT", help="the task, with {field} for a field of the item"),
    argument("--files", metavar="GLOB", help="the items are these files, with a field {path}"),
    flag("--csv", "the items are CSV, as in a FILE that ends with .csv"),
    argument("--schema", metavar="FILE", help="JSON Schema for the answers: a file or inline JSON"),
    argument("--output", metavar="FILE", help="write the rows to a .jsonl or .csv file"),
    flag("--ordered", "print the rows in the order of the items"),
    flag("--summary", "print a table of outcomes and errors at the end"),
    flag("--dry-run", "print the tasks, and run nothing"),
    argument("--limit", metavar="N", type=number, help="only the first N items"),
    argument("--concurrency", metavar="N", type=number, help="how many run at once"),
    argument("--on", metavar="CLUSTER", help="run it on a cluster: ray, or ray://host:10001"),
    argument("--include", metavar="GLOB", action="append", help="ignored files that nodes get too"),
    argument("--max-cost", metavar="USD", type=_amount, help="for all items together"),
    argument("--max-tokens", metavar="N", type=number, help="for all items together"),
    argument("--deadline", metavar="TIME", type=time_span, help="for all items together"),
    argument("--stop-after", metavar="N", type=number, help="start no more after N failures"),
    argument("--journal", metavar="FILE", help="where the results are recorded"),
    flag("--retry-failed", "run again what didn't complete"),
    argument("--retry", metavar="OUTCOMES", type=_outcomes, help="the same: timed_out,failed"),
    flag("--rerun-unfinished", "run unfinished items again that may have written"),
    flag("--yes", "don't ask before it starts"),
    *WRITING,
    *(one for one in OPTIONS if one[0] != ("--max-cost",)),
)


def execute(arguments: Namespace) -> int:
    """Run the map, and return its exit code."""
    folder, given = working_directory(arguments.cwd), arguments.file
    if given is None and arguments.files is None and not sys.stdin.isatty():
        given = arguments.file = "-"
    if (given is None) == (arguments.files is None):
        raise bad_call("map needs either FILE, - for stdin, or --files", "map")
    if arguments.files is not None and arguments.task is None:
        raise bad_call('--files needs a task for each, as --task "Review {path}"', "map")
    items = partial(_items, arguments, folder)
    if arguments.dry_run:
        return _show(items(), arguments.agent)
    about = {"agent": arguments.agent, "folder": str(folder), "task": arguments.task}
    about["input"] = arguments.files if given is None else os.path.realpath(given)
    if arguments.journal is not None:
        path = Path(arguments.journal)
    elif given == "-":
        path = journal_path(os.environ)
        output.say("stdin can't be read again: to go on after an interruption, use --journal FILE.")
    else:
        path = journal_path(os.environ, about)
    options = _options(arguments)
    about |= {name: options.get(name) for name in ("model", "output_schema", "check")}
    caller = Caller(os.environ, confirm=confirm_agent if can_ask() else None)
    if arguments.include and not arguments.on:
        raise bad_call("--include needs --on: it names files for a cluster's nodes", "map")
    slow = given is not None and not os.path.isfile(given)
    work = Map(arguments.agent, items(), path, caller, options, about=about, slow=slow)
    work.say = output.say
    return asyncio.run(_run(work, arguments, None if slow else items))


def _options(arguments: Namespace) -> MapOptions:
    given = vars(arguments)
    flags = option_flags(Namespace(**{**given, "max_cost": None}))
    options: Any = {name: given[name] for name in MapOptions.__annotations__ if name in given}
    return options | MapOptions(
        output_schema=None if arguments.schema is None else schema_from(arguments.schema),
        config=flags | ({"subagents.allowWrite": True} if arguments.write else {}),
        deadline=arguments.deadline and milliseconds(arguments.deadline, "s") / 1000,
        retry=FAILED if arguments.retry_failed else arguments.retry or (),
    )


def _items(arguments: Namespace, folder: Path) -> Iterator[Item | None]:
    """Return the items that are asked for, from the first on; raises `Refusal`."""
    if arguments.files is not None:
        paths = _matching(arguments.files, folder)
        given = ((path, {"id": path, "path": path}) for path in paths)
    else:
        is_file = arguments.file != "-"
        name = arguments.file if is_file else "stdin"
        try:
            # Not `sys.stdin`: Python can't end while a thread waits for that.
            file = open(name if is_file else 0, "rb", closefd=is_file)  # noqa: SIM115
        except OSError as error:
            raise invalid(f"The items can't be read from {name!r}: {error.strerror}.") from None
        is_csv = arguments.csv or name.lower().endswith(".csv")
        given = (read_csv if is_csv else read_lines)(file, name)
    items, limit = items_of(given, arguments.task), arguments.limit
    return items if limit is None else islice(filter(None, items), limit)


def _matching(pattern: str, folder: Path) -> list[str]:
    """Return the files that a glob matches, as a shell would; raises `Refusal` where none does.

    `**` goes into no linked folder, which may lead into itself, and nothing hidden is meant unless
    the pattern says so.
    """
    given = PurePath(pattern)
    top, below = Path(folder, given.anchor), given.relative_to(given.anchor)
    below /= "*" if below.name == "**" else ""
    try:
        found = [one for one in top.glob(str(below)) if one.is_file()] if below.name else []
    except (ValueError, NotImplementedError) as error:
        raise invalid(f"--files {pattern!r} isn't a pattern for files: {error}.") from None
    paths = [str(one if given.anchor else one.relative_to(top)) for one in found]
    if not any(map(_is_hidden, given.parts)):
        paths = [one for one in paths if not any(map(_is_hidden, PurePath(one).parts))]
    if not paths:
        advice = "'src/**/*.py' would be all Python files below src."
        raise invalid(f"No file in {folder} matches --files {pattern!r}. {advice}")
    return sorted(paths)


def _is_hidden(part: str) -> bool:
    return part.startswith(".") and part != ".."


def _show(items: Iterator[Item | None], agent: str) -> int:
    """Print what would be asked for each item."""
    code = 0
    for item in filter(None, items):
        shown = {"id": item.key, "agent": item.agent or agent, "task": item.task}
        if item.problem:
            shown, code = {"id": item.key, "error": item.problem}, EXIT_FAILED
        output.write_json_text(jsonl.encode(shown).decode())
    return code


async def _run(
    work: Map, arguments: Namespace, again: Callable[[], Iterator[Item | None]] | None
) -> int:
    """Run a map, print its rows, and return the exit code; `again` yields its items once more."""
    keys = [item.key for item in again() if item] if again else None
    journal = await work.open()
    if other := [name for name, value in work.about.items() if journal.about.get(name) != value]:
        output.say(f"{journal.path} has results of another {', '.join(other)}; remove it to redo.")
    work.total = None if keys is None else len(keys)
    if keys and can_ask() and not arguments.yes:
        done = sum(map(work.has_result, keys))
        output.say(_forecast(work, len(keys) - done, done))
        if await read_answer("Start? [y/N] ") not in ("y", "yes"):
            return EXIT_CANCELLED
    bar = MapBar(work)
    for one in stop_signals():
        asyncio.get_running_loop().add_signal_handler(one, work.stop, INTERRUPTED)
    output.watch_reader(partial(work.stop, INTERRUPTED))
    try:
        with ExitStack() as closing:
            write = _writer(arguments, bar, journal.path, closing)
            closing.callback(bar.close)
            bar.tick()
            async with aclosing(aiter(work)) as rows:
                async for row in rows:
                    write(row)
    except (JournalLost, OSError) as error:
        work.stop(str(error))
    return _conclude(work, arguments)


def _writer(
    arguments: Namespace, bar: MapBar, journal: Path, closing: ExitStack
) -> Callable[[MapRow], object]:
    """Return what writes a row: to stdout, or to a file that is written anew; raises `Refusal`."""
    path = arguments.output
    if path is None:
        return partial(_print, bar)
    try:
        for what, other in (("file with the items", arguments.file), ("journal", journal)):
            both = path, other or ""
            if all(map(os.path.exists, both)) and os.path.samefile(*both):
                raise invalid(f"--output {path!r} is the {what}. Choose another name.")
        file = open(path, "w", 1, "utf-8", "replace", "")  # noqa: SIM115
        closing.enter_context(file)
    except OSError as error:
        raise invalid(f"--output {path!r} can't be written: {error.strerror}.") from None
    if not path.lower().endswith(".csv"):
        return lambda row: file.write(jsonl.encode(to_json(row)).decode() + "\n")
    table = csv.DictWriter(file, CELLS, extrasaction="ignore", restval="")
    table.writeheader()
    return lambda row: table.writerow(_cells(row))


def _print(bar: MapBar, row: MapRow) -> None:
    if sys.stdout.isatty():
        bar.clear()
    output.write_json_text(jsonl.encode(to_json(row)).decode())


def _cells(row: MapRow) -> dict[str, Any]:
    cells: dict[str, Any] = {**to_json(row), "tokens": row.usage.tokens}
    if row.has_structured_output:
        cells["structuredOutput"] = jsonl.encode(row.structured_output).decode()
    if row.error:
        cells["error"] = f"{row.error.code}: {row.error.message}"
    return cells | ({"cost": row.usage.cost} if row.usage.cost_known else {})


def _forecast(work: Map, left: int, done: int) -> str:
    """Return what the map will probably use, going by past runs, and what it may use at most."""
    asked = work.prepared.definition.name, work.prepared.choice.shown
    known = [one.known for one in recorded_runs(runs_folder(os.environ))]
    past = [one.get("usage", {}) for one in known if (one.get("agent"), one.get("model")) == asked]
    guess = "no past runs to estimate from"
    if past:
        tokens = mean(one.get("input", 0) + one.get("output", 0) for one in past) * left
        cost = mean(one.get("cost", 0.0) for one in past) * left
        guess = f"about {tokens:,.0f} tokens and ${cost:.2f}, going by {count(len(past), 'run')}"
    limits = zip(work.purse.most, work.purse.spent, work.purse.each, strict=True)
    most, most_tokens = (min(most - spent, each * left) for most, spent, each in limits)
    worst = [f"${most:.2f}"] if most < math.inf else []
    worst += [f"{most_tokens:,.0f} tokens"] if most_tokens < math.inf else []
    at_most = f"at most {' or '.join(worst)}" if worst else "no limit, as --max-cost 5 would be"
    to_do = f"{count(left, 'item')} for {asked[0]} on {asked[1]}, {done} done already"
    return f"{to_do}: {guess}; {at_most}."


def _conclude(work: Map, arguments: Namespace) -> int:
    """Say how a map ended, and return the exit code."""
    tally = work.tally
    if arguments.summary:
        found = tally.rows.most_common()
        rows = [{"items": n, "outcome": outcome, "error": code} for (outcome, code), n in found]
        table = Table((Column("items"), Column("outcome"), Column("error")), rows)
        for line in Report({}, (table,)).drawn():
            print(line, file=sys.stdout if arguments.output else sys.stderr)
    if work.stopped:
        left = f" {count(tally.not_run, 'item')} not run." if tally.not_run else ""
        goes_on = " The same command goes on"
        goes_on += " with a larger purse." if work.stopped == USED_UP else "."
        is_lost = arguments.file == "-" and arguments.journal is None
        output.say(f"stopped: {work.stopped.rstrip('.')}.{left}{'' if is_lost else goes_on}")
    words = [f"{tally.done - tally.failed} completed"]
    words += [f"{tally.failed} failed"] if tally.failed else []
    words.append(spent_words(work))
    output.say(" · ".join(words) if tally.done or work.stopped else "there were no items.")
    if work.stopped == INTERRUPTED:
        return EXIT_CANCELLED
    return EXIT_FAILED if work.stopped or tally.failed else 0
