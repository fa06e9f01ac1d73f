"""The text of a result: what a failed run is reported as, and where a long answer is cut."""

from outrider.protocol.results import SingleResult, ToolResult, text_result

MAX_FAILURE_OUTPUT = 20_000


def failure_text(result: SingleResult, last_event: str) -> str:
    """Return what a caller reads of a run that didn't complete."""
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


def with_changes(result: ToolResult) -> ToolResult:
    """Return a writer's result with a text that ends with what it changed, and what to do."""
    run, run_id = result.result, result.details.run_id or ""
    if run is None or run.changes is None:
        return result
    return text_result(f"{result.text}\n\n[{run.changes.words(run_id)}]", result.details)


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
