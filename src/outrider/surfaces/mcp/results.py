"""What a host gets of a run, in text and in structure alike: hosts drop one or the other."""

import os
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from outrider.delegation.request import invalid
from outrider.delegation.run_handle import result_of
from outrider.protocol import jsonl
from outrider.protocol.changes import STATES, Changes
from outrider.protocol.data import as_object, frozen, to_json
from outrider.protocol.outcomes import Outcome
from outrider.protocol.quoting import harmless_line, marked
from outrider.protocol.results import Details, ErrorInfo
from outrider.protocol.usage import Usage
from outrider.records.runs import RecordedRun, find_run
from outrider.settings.places import runs_folder
from outrider.surfaces.mcp.handshake import Json
from outrider.surfaces.mcp.offer import READER
from outrider.surfaces.text import count

MAX_FAULTS = 10
MAX_FILES = 50
MAX_NAMES = 2_000
JOINS = "it goes on: the same call again joins it and starts no other"
DETACHED = "it goes on by itself, also when this server ends"
GOES_ON = ("running", "waiting")  # what a run is called that hasn't ended, or not begun


@frozen
class CallAnswer:
    """The answer to a tool call; `OUTPUT_SCHEMA` describes it to the host."""

    outcome: str
    agent: str | None = None
    run_id: str | None = None
    usage: Usage | None = None
    answer: str | None = None
    structured_output: Any = None
    has_structured_output: bool = False
    error: ErrorInfo | None = None
    warnings: tuple[str, ...] | None = None
    record_problem: str | None = None  # what the record lacks, so maybe the answer's end
    details: Json | None = None  # all of them, where they are asked for
    changes: Json | None = None  # of a writer, without the hunks
    read_on: Json | None = None  # the arguments that get the rest


def call_result(
    details: Details, max_bytes: int, offset: int = 0, recorded: RecordedRun | None = None
) -> Json:
    """Return the result of a tool call, from the details of a delegation's result.

    `recorded` is the run that they were read from: it may have been interrupted.
    """
    if not details.results:
        return _in_both_forms(CallAnswer("refused", error=details.error))
    run, error = details.results[0], details.error
    if error is not None:
        faults = [f"{fault['path']}: {fault['message']}" for fault in run.schema_faults or ()]
        error = replace(error, message="; ".join([error.message, *faults[:MAX_FAULTS]]))
    outcome = recorded.state if recorded else run.outcome
    answer = CallAnswer(outcome, run.agent, details.run_id, run.usage, error=error)
    problem = (recorded and recorded.problem) or run.record_problem
    answer = replace(answer, warnings=run.warnings or None, record_problem=problem)
    if run.changes is not None:
        answer = replace(answer, changes=_told(run.changes, details.run_id or ""))
    answer = _with_page(answer, run.output, max_bytes, offset)
    if run.has_structured_output and offset == 0 and answer.read_on is None:
        reported = {"structured_output": run.structured_output, "has_structured_output": True}
        answer = replace(answer, answer=None, **reported)
    return _in_both_forms(answer)


def recorded_result(run_id: str, max_bytes: int, offset: int = 0, *, whole: bool = False) -> Json:
    """Return the same from a run's record, as far as that goes; raises `Refusal`.

    The `whole` is all of `details`, as JSON.
    """
    run = find_run(runs_folder(os.environ), run_id)
    if whole and (recorded := as_object(run.result.get("details"))):
        answer = CallAnswer(run.state, str(run.opening.get("agent", "")), run.id)
        answer = _with_page(answer, jsonl.pretty(recorded), max_bytes, offset)
        if answer.read_on is None and offset == 0:
            answer = replace(answer, answer=None, details=recorded)
        elif answer.read_on:
            answer = replace(answer, read_on=answer.read_on | {"details": True})
        return _in_both_forms(answer)
    return call_result(result_of(run).details, max_bytes, offset, run)


def changes_result(run_id: str, changes: Changes, diff: str = "", most: int = 0) -> Json:
    """Return what has become of a writer's changes, with as much of the diff as may be shown."""
    shown = diff.encode()[:most].decode(errors="ignore")
    cut = f"\n[The diff is longer: name `paths`, or the person types: outrider diff {run_id}]"
    answer = CallAnswer(changes.state, run_id=run_id, changes=_told(changes, run_id))
    quoted = _quoted(shown, answer) + (cut if shown != diff else "") if diff else None
    return _in_both_forms(replace(answer, answer=quoted))


def _told(changes: Changes, run_id: str) -> Json:
    """Return changes as a host is told of them: what they are, and the first paths."""
    reasons = {"withheld": changes.withheld, "conflicts": changes.conflicts}
    return {
        "summary": harmless_line(changes.words(run_id)),
        "state": changes.state,
        "files": [{"path": one.path, "kind": one.kind} for one in changes.files[:MAX_FILES]],
        **{name: to_json(some[:MAX_FAULTS]) for name, some in reasons.items() if some},
    }


def checked_run_id(given: Json) -> str:
    """Return the run id of a call; raises `Refusal`."""
    run_id = str(given.get("runId"))
    if not re.fullmatch("[0-9a-f]{8}", run_id):
        raise invalid(f"runId must be a run id, eight hexadecimal digits, not {run_id[:60]!r}.")
    return run_id


def handle(run_id: str, note: str = JOINS) -> Json:
    """Return the answer for a run that goes on; without an id it hasn't begun."""
    running = CallAnswer("running", run_id=run_id, read_on={"runId": run_id})
    return _in_both_forms(running if run_id else CallAnswer("waiting"), note)


def _with_page(answer: CallAnswer, output: str, max_bytes: int, offset: int) -> CallAnswer:
    """Return an answer with the part of the output from `offset` on, and where the next begins."""
    page = output[offset:].encode()[:max_bytes].decode(errors="ignore")
    end = offset + len(page)
    more = {"runId": answer.run_id, "offset": end} if end < len(output) else None
    return replace(answer, answer=_quoted(page, answer) if page else None, read_on=more)


def _in_both_forms(answer: CallAnswer, note: str = "") -> Json:
    return {
        "content": [{"type": "text", "text": "\n".join(_lines(answer, note))}],
        "structuredContent": to_json(answer),
        "isError": answer.outcome not in (Outcome.COMPLETED, *GOES_ON, *STATES),
    }


def _quoted(text: str, answer: CallAnswer) -> str:
    origin = {"agent": answer.agent or "", "run": answer.run_id or "", "outcome": answer.outcome}
    return marked("subagent-output", text, **origin)


def _lines(answer: CallAnswer, note: str) -> Iterator[str]:
    if answer.answer is not None:
        yield answer.answer
    if answer.has_structured_output:
        yield _quoted(jsonl.pretty(answer.structured_output), answer)
    if answer.details is not None:
        yield _quoted(jsonl.pretty(answer.details), answer)
    if answer.error is not None:
        yield f"{answer.error.code}: {answer.error.message}"
    yield from (f"warning: {one}" for one in answer.warnings or ())
    if answer.record_problem is not None:
        yield answer.record_problem
    if answer.changes is not None:
        yield f"changes: {answer.changes['summary']}"
        if files := [one["path"] for one in answer.changes["files"]]:
            yield f"files: {harmless_line(', '.join(files), MAX_NAMES)}"
        for name in ("withheld", "conflicts"):
            for one in answer.changes.get(name, ()):
                yield f"{name}: {harmless_line(one['path'])}: {harmless_line(one['reason'])}"
    yield f"[{' · '.join(_facts(answer, note))}]"


def _facts(answer: CallAnswer, note: str) -> Iterator[str]:
    yield answer.outcome
    if answer.run_id is not None:
        yield f"run {answer.run_id}"
    if (usage := answer.usage) is not None:
        yield count(usage.turns, "turn")
        yield count(usage.input + usage.output, "token")
        if usage.cost:
            yield f"${usage.cost:.4f}"
    if note:
        yield note
    if answer.read_on is not None:
        yield f"for more: {READER} {jsonl.encode(answer.read_on).decode()}"
