"""`outrider diff`, `land`, `undo` and `discard`: what a writer's run changed, and its fate."""

import json
import os
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from outrider.delegation.landing import settle, writer_run
from outrider.protocol.changes import LandingConflict, PathReason
from outrider.protocol.data import as_object, frozen, to_json
from outrider.protocol.exit_codes import EXIT_CONFLICT, EXIT_FAILED
from outrider.records.runs import SESSION
from outrider.surfaces.parser import argument, bad_call, flag
from outrider.surfaces.terminal import output
from outrider.surfaces.terminal.changes import diff_lines, stat_lines, totals
from outrider.surfaces.text import clean_line, count, fit
from outrider.surfaces.transcript import event_words, numbered_lines
from outrider.workspaces.layers.landing import CheckFailed, WriterRun, is_in
from outrider.workspaces.layers.review import FileDiff, review, reviewed
from outrider.workspaces.names import shown_name, unescaped

MAX_CALL = 100
Told = tuple[str, dict[str, Any]]
"""What was done: in words, and what the JSON has beside the run and its state."""


def _diff(run: WriterRun, arguments: Namespace) -> None:
    only = _paths_in(run, arguments.path)
    changes, drawn = review(run)
    if only:
        drawn = [one for one in drawn if is_in(unescaped(one.file.path), *only)]
    if arguments.json:
        files = [{**asdict(one.file), "diff": "\n".join(one.lines)} for one in drawn]
        return output.write_json({"runId": run.folder.name, **changes.to_dict(), "files": files})
    drawing = stat_lines if arguments.stat else diff_lines
    for line in _by_call(run, drawn) if arguments.by_call else drawing(drawn):
        output.write_clean(f"{line}\n")
    output.flush()
    _say_reasons("these don't land:", changes.withheld)
    _say_reasons("these conflict with your files:", changes.conflicts)
    is_pending = run.state == "pending"
    then = f"not landed: outrider land {run.folder.name}" if is_pending else run.state
    output.say(f"{totals(drawn)}, {then}")
    return None


def _by_call(run: WriterRun, drawn: Sequence[FileDiff]) -> Iterator[str]:
    """Yield the files that each call changed, below what it was."""
    calls = {call: "" for one in drawn for call in one.file.calls}
    for _, line in numbered_lines(run.folder / SESSION):
        event = as_object(json.loads(line)) if '"tool_start"' in line else {}
        if event.get("id") in calls:
            calls[event["id"]] = fit(clean_line(event_words(event)), MAX_CALL)
    for call, words in calls.items():
        yield output.coloured(f"{clean_line(call)}  {words}".rstrip(), "cyan")
        yield from stat_lines([one for one in drawn if call in one.file.calls])[:-1]
    if unknown := [one for one in drawn if not one.file.calls]:
        yield output.coloured("no call is known", "cyan")
        yield from stat_lines(unknown)[:-1]


def _land(run: WriterRun, arguments: Namespace) -> Told:
    name, commit = arguments.branch, arguments.commit
    if name and (commit is not None or arguments.check):
        raise bad_call("--branch goes with neither --commit nor --check", "land")
    only, ignored = _paths_in(run, arguments.only), arguments.ignored
    if name:
        made = run.branch(name, only=only, ignored=ignored)
        words = f"branch {name} has commit {made[:12]}; your files are as they were."
        return words, {"branch": name, "commit": made}
    how: dict[str, Any] = {"only": only, "ignored": ignored, "commit": commit}
    how |= {"check": arguments.check, "output": sys.stderr.fileno()}
    drawn = reviewed(run, settle(run, "land", os.environ, **how))
    words = f"landed. Take it back with: outrider undo {run.folder.name}"
    files = to_json([one.file for one in drawn])
    return "\n".join(stat_lines(drawn)) + f" {words}", {"landed": files}


def _undo(run: WriterRun, _: Namespace) -> Told:
    paths = count(len(run.landed), "path")
    run.undo()
    return f"{paths} undone. The run can land again: outrider land {run.folder.name}", {}


def _discard(run: WriterRun, _: Namespace) -> Told:
    run.discard()
    return f"the changes of run {run.folder.name} are discarded.", {}


def _paths_in(run: WriterRun, given: Iterable[str]) -> list[str]:
    """Return paths as the run knows them: from where the user is, or else from its folder."""
    names = [unescaped(one) for one in given]
    inside = [name for name in names if Path(os.path.abspath(name)).is_relative_to(run.project)]
    here = {name: os.path.relpath(name, run.project) for name in inside}
    return [here.get(name, os.path.normpath(name)) for name in names]


def _say_reasons(title: str, reasons: Sequence[PathReason]) -> None:
    for line in (title, *(f"  {one.path}: {one.reason}" for one in reasons)) if reasons else ():
        output.say(line)


_RUN = argument("run", metavar="RUN", help="a run id, the start of one, or last")


@frozen
class ReviewCommand:
    """One of these commands; for the parser it is what a module of a command is."""

    EXAMPLES: str
    act: Callable[[WriterRun, Namespace], Told | None]  # does it, and returns what is printed
    ARGUMENTS: tuple[Any, ...] = (_RUN,)

    def execute(self, arguments: Namespace) -> int:
        """Do it, say what was done, and return the exit code: 3 where that conflicts."""
        run, taken_back = writer_run(arguments.run, os.environ)
        if taken_back:
            output.say(
                f"took back what run {taken_back} was interrupted in; nothing of it is left."
            )
        try:
            told = self.act(run, arguments)
        except (LandingConflict, CheckFailed, OSError) as error:
            return _failed(error, run, arguments)
        if told and arguments.json:
            output.write_json({"runId": run.folder.name, "state": run.state, **told[1]})
        elif told:
            output.write_clean(f"{told[0]}\n")
        return 0


def _failed(error: Exception, run: WriterRun, arguments: Namespace) -> int:
    """Say why nothing was changed, and return the exit code."""
    conflicts = error.conflicts if isinstance(error, LandingConflict) else ()
    if arguments.json:
        told = {"runId": run.folder.name, "state": run.state}
        output.write_json({**told, "conflicts": to_json(conflicts), "error": str(error)})
    elif conflicts:
        _say_reasons("nothing was changed, because of conflicts:", conflicts)
    else:
        output.say(f"nothing was changed: {shown_name(str(error))}.")
    return EXIT_CONFLICT if conflicts else EXIT_FAILED


_DIFF = """\
Nothing in the repository changes how the diff is drawn. Control characters,
and those that can't be seen or that reorder text, are spelled out.

examples:
  outrider diff last
  outrider diff 1a2b --stat
  outrider diff 1a2b src/retry.py
  outrider diff 1a2b --by-call        which tool call changed which files
"""
_LAND = """\
All of it lands or nothing. Text that you changed too is merged; where that
can't be done, nothing is changed, the conflicts are named, and the exit code
is 3.

examples:
  outrider land last
  outrider land 1a2b --only src --check "pytest -q"
  outrider land 1a2b --commit "Make the retry limit configurable"
  outrider land 1a2b --branch retry-limit
"""
_UNDO = """\
What you have changed since then stays: text is merged. Where that can't be
done, nothing is changed, the conflicts are named, and the exit code is 3.

examples:
  outrider undo last
"""
_DISCARD = """\
Your files stay as they are, and so does the run's record. What has landed
stays too, and can still be undone.

examples:
  outrider discard last
"""
_ONLY = "only this; the rest can wait"
_BRANCH = "put it on a new branch; your files stay as they are"
_COMMIT = "commit exactly what lands"
_PATH = "only these files and folders"
COMMANDS = {
    "diff": ReviewCommand(_DIFF, _diff, (
        _RUN,
        argument("path", metavar="PATH", nargs="*", default=[], help=_PATH),
        flag("--stat", "only how many lines changed in each file"),
        flag("--by-call", "the same, for each tool call that changed files"),
    )),
    "land": ReviewCommand(_LAND, _land, (
        _RUN,
        argument("--only", metavar="PATH", action="append", default=[], help=_ONLY),
        flag("--ignored", "also files that git ignores here"),
        argument("--check", metavar="CMD", help="land only if CMD succeeds on the merged tree"),
        argument("--commit", metavar="MESSAGE", nargs="?", const="", help=_COMMIT),
        argument("--branch", metavar="NAME", help=_BRANCH),
    )),
    "undo": ReviewCommand(_UNDO, _undo),
    "discard": ReviewCommand(_DISCARD, _discard),
}  # fmt: skip
