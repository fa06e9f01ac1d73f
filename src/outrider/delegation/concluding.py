"""The verdict on a run: from how its child ended and what it said, to the result a caller gets."""

import signal
from collections.abc import Iterator, Sequence
from dataclasses import replace

from outrider.delegation.collecting import Collector
from outrider.delegation.preparation import Prepared
from outrider.delegation.supervision import Ending
from outrider.models.resolution import is_embedded, is_same_model
from outrider.protocol import jsonl
from outrider.protocol.changes import Changes
from outrider.protocol.data import as_object, to_json
from outrider.protocol.errors import ErrorCode
from outrider.protocol.events import TaskFinishEvent
from outrider.protocol.exit_codes import exit_code
from outrider.protocol.outcomes import ERROR_OF_OUTCOME, Outcome, TimeoutReason
from outrider.protocol.results import Details, ErrorInfo, SingleResult, ToolResult, text_result
from outrider.settings.keys import Config
from outrider.settings.layers import Settings

MAX_STDERR = 2_000
MAX_OTHERS = 3
MAX_FAILURE_OUTPUT = 20_000
MAX_ESSENCE = 400
"""How many characters of each text are kept of a result that the disk has no room for."""
ESSENCE = (
    "agent task outcome exit_code usage output error timeout_reason attempts model duration_ms "
    "session_file output_file"
)


Verdict = tuple[Outcome, ErrorCode | None, str | None]
"""How a run is judged: its outcome, the code that goes with it, and why."""


def judged(ending: Ending, collector: Collector, settings: Settings) -> Verdict:
    """Return the verdict. Only the child's own last event can make it a success."""
    outcome, limits = Outcome.FAILED, settings.config.subagents
    match ending.reason:
        case "finished" if collector.finish is not None:
            outcome, error = collector.finish.outcome, collector.finish.error
        case "timed_out" if ending.timeout is TimeoutReason.IDLE:
            outcome, limit = Outcome.TIMED_OUT, limits.idle_timeout_ms
            error = f"The child sent nothing for {limit:,} ms (subagents.idleTimeoutMs)."
        case "timed_out":
            outcome, limit = Outcome.TIMED_OUT, limits.timeout_ms
            named = settings.named("subagents.timeoutMs")
            allowed = f"{limit:,} ms ({named})" if named[0] != "-" else f"{named} allows"
            error = f"The run took longer than {allowed}."
        case "cancelled":
            outcome, error = Outcome.CANCELLED, "The run was cancelled."
        case "flooded":
            error = f"The child sent too much output ({ending.detail}) and was stopped."
            return outcome, ErrorCode.SUBAGENT_OUTPUT_TRUNCATED, error
        case "not_started":
            error = _with_last_words(ending.detail or "The child could not be started.", ending)
        case _:
            error = "The child ended before its task did."
            if ending.signal is not None:
                names = {one.value: one.name for one in signal.Signals}
                name = names.get(ending.signal, "unknown")
                error = f"The child was killed by signal {ending.signal} ({name})."
            error = _with_last_words(error, ending)
    return outcome, ERROR_OF_OUTCOME.get(outcome), error


def _with_last_words(error: str, ending: Ending) -> str:
    stderr = ending.errors.strip()[-MAX_STDERR:]
    return f"{error} Last output on stderr: {stderr}" if stderr else error


def conclude(
    prepared: Prepared, ending: Ending, collector: Collector, duration_ms: int
) -> ToolResult:
    """Return the result of a run, and write its record. All that comes in is masked already."""
    run, finish, config = collector.run, collector.finish or TaskFinishEvent(), prepared.config
    outcome, code, error = judged(ending, collector, prepared.project.settings)
    partial, text = collector.partial.text, finish.task_result
    if finish.has_structured_output:
        text = jsonl.pretty(finish.structured_output)
    if text and not (run.has_output and text == partial):
        run.restart_output()
        run.add_output(text)
    else:
        run.add_output("")  # what came in pieces is on the disk already
    usage, asked = collector.used, prepared.choice.shown
    answered = list(collector.answered) or [collector.model or asked]
    others = [model for model in answered if not is_same_model(asked, model)]
    if not usage.tokens and not is_embedded(collector.model or ""):
        usage = replace(usage, cost_known=False)  # nobody has answered: no price was looked up
    result = SingleResult(
        agent=prepared.definition.name,
        task=collector.shown_task,
        outcome=outcome,
        exit_code=exit_code(outcome, ending.signal),
        usage=usage,
        output=text or partial,
        structured_output=finish.structured_output,
        has_structured_output=finish.has_structured_output,
        error=error,
        timeout_reason=ending.timeout,
        schema_faults=finish.schema_faults,
        last_report=finish.last_report,
        has_last_report=finish.has_last_report,
        masked_paths=collector.masked_paths or None,
        check=as_object(finish.check) or None,
        changes=_changes(prepared, collector),
        isolation=collector.isolation,
        attempts=collector.attempts,
        model=answered[-1],
        asked_model=prepared.choice.dropped or (asked if others else None),
        duration_ms=duration_ms,
        resumes=prepared.past.run_id if prepared.past else None,
        session_file=run.session_file,
        output_file=run.output_file if run.has_output else None,
        withheld=prepared.permit.withheld,
        warnings=(*prepared.warnings, *_warnings(collector, prepared, others)),
        receipt=collector.receipt.to_dict(),
        display_items=tuple(collector.display_items),
    )
    end = {"type": "end", "at": duration_ms, "outcome": result.outcome}
    end |= {"exitCode": result.exit_code, "error": result.error, "model": result.model}
    end["usage"] = to_json(result.usage)
    if ending.reason != "finished":  # of a child that was stopped, there may be no message yet
        end["partialOutput"] = result.output
    shown = _shown(result, code, collector, config)
    if not run.write_result(shown.to_dict(), end):
        shown = _shown(result, code, collector, config)  # which says what the record lacks
        run.write_result(_shown(_essence(result), code, collector, config).to_dict())
    return shown


def _changes(prepared: Prepared, collector: Collector) -> Changes | None:
    if not prepared.is_layered or collector.isolation is None:
        return None
    from outrider.delegation.landing import changes_of  # late: most runs only read

    return changes_of(collector.run.folder, prepared.project.env).masked(
        prepared.project.masker.text
    )


def _warnings(collector: Collector, prepared: Prepared, others: Sequence[str]) -> Iterator[str]:
    asked = prepared.choice.shown
    yield from collector.faults
    if others:
        yield f"{asked} was asked for, but {', '.join(others[:MAX_OTHERS])} answered"
    if collector.usage.estimated and not is_embedded(asked):
        yield f"{asked} came with no usable token counts; usage is an estimate of ours"
    for tool, reason in collector.receipt.fruitless.items():
        if tool in prepared.permit.tools:  # a model may try others in vain
            yield f"every call of {tool} failed: {reason}"


def _essence(result: SingleResult) -> SingleResult:
    """Return what fits into the room that a run reserves: how it ended, and what it took."""
    kept = {name: getattr(result, name) for name in ESSENCE.split()}
    texts = {name: kept[name] and kept[name][:MAX_ESSENCE] for name in ("task", "output", "error")}
    return SingleResult(**kept | texts)


def _shown(
    result: SingleResult, code: ErrorCode | None, collector: Collector, config: Config
) -> ToolResult:
    """Return the result with the text that a caller is shown, cut to its limits."""
    run, limits = collector.run, config.limits
    is_completed = result.outcome is Outcome.COMPLETED
    shown, cut = truncate(
        result.output if is_completed else _failure_text(result, collector.last_event),
        max_bytes=limits.result_bytes,
        max_lines=limits.result_lines,
        run_id=run.id,
        whole=result.output_file,
    )
    error = None
    if code is not None:
        error = ErrorInfo(code, result.error or result.outcome)
    elif cut:
        where = f"run {run.id} has all of it" if result.output_file else "the rest is lost"
        error = ErrorInfo(ErrorCode.SUBAGENT_OUTPUT_TRUNCATED, f"The text was cut; {where}.")
    if run.problem:
        shown = f"{shown}\n\n[{run.problem}]"
        result = replace(result, record_problem=run.problem)
    delegations = tuple(collector.delegations) or None
    details = Details(run_id=run.id, results=(result,), error=error, delegations=delegations)
    return text_result(shown, details)


def _failure_text(result: SingleResult, last_event: str) -> str:
    lines = [
        f"The subagent {result.agent} did not complete: {result.outcome} "
        f"(exit code {result.exit_code}).",
        f"Error: {result.error}",
        f"Last event: {last_event}",
        f"Session file: {result.session_file}",
    ]
    if result.schema_faults:
        lines += [f"- {fault['path']}: {fault['message']}" for fault in result.schema_faults]
    if output := result.output.strip():
        more = "\n[…]" if len(output) > MAX_FAILURE_OUTPUT else ""
        lines.append(f"Partial output:\n{output[:MAX_FAILURE_OUTPUT]}{more}")
    else:
        lines.append("Partial output: none")
    return "\n".join(lines)


def truncate(
    text: str, *, max_bytes: int, max_lines: int, run_id: str, whole: str | None
) -> tuple[str, bool]:
    """Return as much of `text` as fits, in whole lines and characters, and whether it was cut."""
    size, lines = len(text.encode()), text.split("\n")
    if size <= max_bytes and len(lines) <= max_lines:
        return text, False
    fitting = "\n".join(lines[:max_lines]).encode()
    body = fitting[:max_bytes].decode(errors="ignore")
    kept = body.count("\n") + 1
    if len(fitting) > max_bytes:
        kept -= 1
        body = body[: body.rindex("\n")] if kept else body
    rest = "The rest could not be recorded."
    if whole:
        command = f"outrider show {run_id} --lines {max(kept, 1)}:{len(lines)}"
        rest = f"For the rest: `{command}`, or read {whole}"
    head = (
        f"[Cut: {kept:,} of {len(lines):,} lines and {len(body.encode()):,} of {size:,} bytes "
        f"are shown. {rest}]"
    )
    return f"{head}\n{body}", True
