"""`outrider map`: one agent over many items, with a row of JSON for each on stdout."""

import asyncio
import csv
import glob
import os
import sys
from argparse import ArgumentTypeError, Namespace
from collections.abc import Callable, Iterator
from contextlib import ExitStack, aclosing
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any

from outrider.agents.definitions import AgentDefinition
from outrider.delegation.map.engine import MapRow
from outrider.delegation.map.items import Item, items_of, read_csv, read_lines
from outrider.delegation.map.journal import JournalLost, journal_path
from outrider.delegation.map.mapping import Map, Plan
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
An item is a line of text, a JSON object, or a row of a CSV file. The same
command goes on where an earlier one was interrupted. The exit code is 0 only
if every item completed.
"""
INTERRUPTED = "interrupted"
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
    argument("--max-cost", metavar="USD", type=_amount, help="for all items together"),
    argument("--max-tokens", metavar="N", type=_amount, help="for all items together"),
    argument("--deadline", metavar="TIME", type=time_span, help="for all items together"),
    argument("--stop-after", metavar="N", type=number, help="start no more after N failures"),
    argument("--journal", metavar="FILE", help="where the results are recorded"),
    flag("--retry-failed", "run again what didn't complete"),
    argument("--retry", metavar="OUTCOMES", type=_outcomes, help="the same: timed_out,failed"),
    flag("--rerun-unfinished", "run again what may have changed files when it was interrupted"),
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
    schema = None if arguments.schema is None else schema_from(arguments.schema)
    source = arguments.files or (given if given == "-" else os.path.realpath(given))
    about = {"agent": arguments.agent, "folder": str(folder), "task": arguments.task}
    about |= {"input": source}
    if given == "-" and not arguments.journal:
        output.say("stdin can't be read again: to go on after an interruption, use --journal FILE.")
    path = Path(arguments.journal) if arguments.journal else None
    path = path or journal_path(os.environ, None if given == "-" else about)
    about |= {"model": arguments.model, "schema": schema, "check": arguments.check}
    caller = Caller(os.environ, confirm=_asked_once(arguments.agent) if can_ask() else None)
    with ExitStack() as files:
        items = partial(_items, arguments, folder, files)
        if arguments.dry_run:
            return _show(items(), arguments.agent)
        plan = _plan(arguments, schema)
        work = Map(plan, items(), path, caller, about=about, slow=not _is_plain_file(given))
        return asyncio.run(_run(work, arguments, None if work.slow else items))


def _plan(arguments: Namespace, schema: Any) -> Plan:
    flags = option_flags(Namespace(**{**vars(arguments), "max_cost": None}))
    if arguments.write:
        flags["subagents.allowWrite"] = True
    seconds = arguments.deadline and milliseconds(arguments.deadline, "s") / 1000
    retry = FAILED if arguments.retry_failed else arguments.retry or frozenset[str]()
    tokens = arguments.max_tokens and int(arguments.max_tokens)
    return Plan(
        arguments.agent, schema, arguments.model, arguments.cwd, arguments.check, flags,
        arguments.concurrency, arguments.max_cost, tokens, seconds, retry,
        arguments.rerun_unfinished, arguments.stop_after, arguments.ordered,
    )  # fmt: skip


def _is_plain_file(given: str | None) -> bool:
    return given is None or os.path.isfile(given)


def _asked_once(agent: str) -> Callable[[AgentDefinition, str], Any]:
    """Return what asks about the map's own agent, once; others can't interrupt it."""
    answers: dict[str, bool] = {}

    async def confirm(definition: AgentDefinition, reason: str) -> bool:
        if (name := definition.name) not in answers:
            answers[name] = name == agent and await confirm_agent(definition, reason)
        return answers[name]

    return confirm


def _items(arguments: Namespace, folder: Path, files: ExitStack) -> Iterator[Item | None]:
    """Yield the items that are asked for, from the start; raises `Refusal`."""
    if arguments.files is not None:
        found = sorted(glob.glob(arguments.files, root_dir=folder, recursive=True))
        paths = [path for path in found if (folder / path).is_file()]
        if not paths:
            raise invalid(f"No file in {folder} matches --files {arguments.files!r}.")
        given = ((path, {"id": path, "path": path}) for path in paths)
    else:
        try:
            name = "stdin" if arguments.file == "-" else arguments.file
            file = sys.stdin.buffer if arguments.file == "-" else open(name, "rb")  # noqa: SIM115
            files.enter_context(file)
        except OSError as error:
            raise invalid(f"The items can't be read from {name!r}: {error.strerror}.") from None
        is_csv = arguments.csv or name.lower().endswith(".csv")
        given = (read_csv if is_csv else read_lines)(file, name)
    left = float("inf") if arguments.limit is None else arguments.limit
    for item in items_of(given, arguments.task):
        if left <= 0:
            return
        left -= item is not None
        yield item


def _show(items: Iterator[Item | None], agent: str) -> int:
    """Print what would be asked for each item."""
    is_bad = False
    for item in filter(None, items):
        shown = {"id": item.key, "agent": item.agent or agent, "task": item.task}
        shown = {"id": item.key, "error": item.problem} if item.problem else shown
        output.write_json_text(jsonl.encode(shown).decode())
        is_bad |= item.problem is not None
    return EXIT_FAILED if is_bad else 0


async def _run(
    work: Map, arguments: Namespace, again: Callable[[], Iterator[Item | None]] | None
) -> int:
    """Run a map, print its rows, and return the exit code; `again` yields its items once more."""
    journal = await work.open()
    if journal.about | work.about != journal.about:
        output.say(
            f"{journal.path} has results of other options, as of another --schema: remove it."
        )
    keys = [item.key for item in again() if item] if again and sys.stderr.isatty() else None
    done = sum(journal.result(key) is not None for key in keys or ())
    if keys and can_ask() and not arguments.yes:
        output.say(_forecast(work, len(keys), done))
        if await read_answer("Start? [y/N] ") not in ("y", "yes"):
            return EXIT_CANCELLED
    bar = MapBar(work, None if keys is None else len(keys))
    for one in stop_signals():
        asyncio.get_running_loop().add_signal_handler(one, work.stop, INTERRUPTED)
    output.watch_reader(partial(work.stop, INTERRUPTED))
    with ExitStack() as closing:
        write = _writer(arguments.output, arguments.file, bar, closing)
        closing.callback(bar.close)
        bar.tick()
        try:
            async with aclosing(work.rows()) as rows:
                async for row in rows:
                    write(row)
        except (JournalLost, OSError) as error:
            work.stop(str(error))
    return _conclude(work, arguments)


def _writer(
    path: str | None, source: str | None, bar: MapBar, closing: ExitStack
) -> Callable[[MapRow], object]:
    """Return what writes a row: to stdout, or to a file that is written anew; raises `Refusal`."""

    def write_line(row: MapRow) -> None:
        if sys.stdout.isatty():
            bar.clear()
        output.write_json_text(jsonl.encode(to_json(row)).decode())

    if path is None:
        return write_line
    try:
        if source and os.path.exists(path) and os.path.samefile(path, source):
            raise invalid(f"--output {path!r} is the file of the items. Choose another name.")
        file = closing.enter_context(open(path, "w", newline="", buffering=1))
    except OSError as error:
        raise invalid(f"--output {path!r} can't be written: {error.strerror}.") from None
    if not path.lower().endswith(".csv"):
        return lambda row: file.write(jsonl.encode(to_json(row)).decode() + "\n")
    table = csv.writer(file)
    table.writerow(("id", "outcome", "output", "error", "tokens", "cost", "runId"))

    def write_cells(row: MapRow) -> None:
        report = jsonl.encode(row.structured_output).decode() if row.has_structured_output else ""
        error = f"{row.error.code}: {row.error.message}" if row.error else ""
        cost = row.usage.cost if row.usage.cost_known else ""
        cells = (row.output or report, error, row.usage.tokens, cost, row.run_id)
        table.writerow((row.id, row.outcome, *cells))

    return write_cells


def _forecast(work: Map, total: int, done: int) -> str:
    """Return what the map will probably use, going by past runs, and what it may use at most."""
    agent, model = work.prepared.definition.name, work.prepared.choice.shown
    runs = (one.known for one in recorded_runs(runs_folder(os.environ)))
    past = [
        one["usage"]
        for one in runs
        if (one.get("agent"), one.get("model")) == (agent, model) and "usage" in one
    ]
    words = f"{count(total, 'item')} for {agent} on {model}, {done} of them done already."
    guess = "There are no past runs to estimate from"
    if past:
        tokens = mean(one.get("input", 0) + one.get("output", 0) for one in past)
        cost = mean(one.get("cost", 0.0) for one in past)
        left = total - done
        guess = f"About {tokens * left:,.0f} tokens, ${cost * left:.2f}, by {len(past)} past runs"
    plan, each = work.plan, work.prepared.config.subagents.budget
    most = [f"${plan.max_cost:g}"] if plan.max_cost else []
    most += [f"{plan.max_tokens:,} tokens"] if plan.max_tokens else []
    if not most and each.max_tokens:
        most = [f"{each.max_tokens * (total - done):,} tokens"]
    limit = f"at most {' and '.join(most)}" if most else "without a limit (see --max-cost)"
    return f"{words} {guess}; {limit}."


def _conclude(work: Map, arguments: Namespace) -> int:
    """Say how a map ended, and return the exit code."""
    tally = work.tally
    if arguments.summary:
        rows = [
            {"outcome": outcome, "error": code, "items": number}
            for (outcome, code), number in tally.rows.most_common()
        ]
        table = Table((Column("items"), Column("outcome"), Column("error")), rows)
        for line in Report({}, (table,)).drawn():
            print(line, file=sys.stdout if arguments.output else sys.stderr)
    words = [f"{tally.done - tally.failed} completed", f"{tally.failed} not", spent_words(work)]
    if work.stopped:
        left = f"{tally.not_run} not run" if tally.not_run else "the same command goes on"
        output.say(f"stopped: {work.stopped} · {left}")
    output.say(" · ".join(words))
    if work.stopped == INTERRUPTED:
        return EXIT_CANCELLED
    return EXIT_FAILED if work.stopped or tally.failed else 0
