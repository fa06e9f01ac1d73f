"""What a host gets of a run, in text and in structure alike: hosts drop one or the other."""

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

from outrider.protocol import jsonl
from outrider.protocol.data import from_json, frozen, to_json
from outrider.protocol.outcomes import Outcome
from outrider.protocol.quoting import marked
from outrider.protocol.results import Details, ErrorInfo
from outrider.protocol.usage import Usage
from outrider.records.runs import OUTPUT, find_run
from outrider.settings.places import runs_folder
from outrider.surfaces.mcp.handshake import Json
from outrider.surfaces.mcp.offer import READER
from outrider.surfaces.text import count

MAX_FAULTS = 10
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
    read_on: Json | None = None  # the arguments that get the rest


def call_result(
    details: Details, max_bytes: int, offset: int = 0, problem: str | None = None
) -> Json:
    """Return the result of a tool call, from the details of a delegation's result.

    `problem` says what the record lacks that they were read from.
    """
    if not details.results:
        return _in_both_forms(CallAnswer("refused", error=details.error))
    run, error = details.results[0], details.error
    if error is not None:
        faults = [f"{fault['path']}: {fault['message']}" for fault in run.schema_faults or ()]
        error = replace(error, message="; ".join([error.message, *faults[:MAX_FAULTS]]))
    answer = CallAnswer(run.outcome, run.agent, details.run_id, run.usage, error=error)
    problem = problem or run.record_problem
    answer = replace(answer, warnings=run.warnings or None, record_problem=problem)
    answer = _with_page(answer, run.output, max_bytes, offset)
    if run.has_structured_output and offset == 0 and answer.read_on is None:
        reported = {"structured_output": run.structured_output, "has_structured_output": True}
        answer = replace(answer, answer=None, **reported)
    return _in_both_forms(answer)


def recorded_result(run_id: str, max_bytes: int, offset: int = 0) -> Json:
    """Return the same from a run's record, as far as that goes; raises `Refusal`."""
    run = find_run(runs_folder(os.environ), run_id)
    with suppress(KeyError, ValueError):  # another version's record may say other things
        details = from_json(Details, run.result["details"])
        return call_result(details, max_bytes, offset, run.problem)
    file = run.folder / OUTPUT
    output = file.read_text("utf-8", "replace") if file.exists() else ""
    agent = str(run.opening.get("agent", ""))
    answer = CallAnswer(run.state, agent, run.id, record_problem=run.problem)
    return _in_both_forms(_with_page(answer, output, max_bytes, offset))


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
        "isError": answer.outcome not in (Outcome.COMPLETED, *GOES_ON),
    }


def _quoted(text: str, answer: CallAnswer) -> str:
    origin = {"agent": answer.agent or "", "run": answer.run_id or "", "outcome": answer.outcome}
    return marked("subagent-output", text, **origin)


def _lines(answer: CallAnswer, note: str) -> Iterator[str]:
    if answer.answer is not None:
        yield answer.answer
    if answer.has_structured_output:
        yield _quoted(jsonl.pretty(answer.structured_output), answer)
    if answer.error is not None:
        yield f"{answer.error.code}: {answer.error.message}"
    yield from (f"warning: {one}" for one in answer.warnings or ())
    if answer.record_problem is not None:
        yield answer.record_problem
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
