"""Going on with a run that has ended: its agent, model, tools and conversation, from its record.

The record is masked, and so is what goes to the model of it. Whether the agent may run, and with
which tools, is decided anew: a record gives nothing that today's settings wouldn't.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from outrider.delegation.request import Request, invalid
from outrider.delegation.session_history import history_of, recorded_events
from outrider.protocol.data import as_list, as_object, frozen
from outrider.records.runs import SESSION, RecordedRun, find_run, landing_of
from outrider.settings.places import runs_folder

MAX_NAMED_FILES = 5
UNSEEN = {"pending": "hasn't landed", "undone": "was undone", "discarded": "was discarded"}
"""The states of a writer's changes in which the next run doesn't see them, in words."""
CONVERSATION = ("message_end", "tool_result_end", "user_message", "run", "prompt")
"""The events that a conversation is rebuilt from."""


@frozen
class Past:
    """What a run goes on from."""

    run_id: str
    system_prompt: str
    tools: tuple[str, ...]
    history: tuple[Any, ...]
    warnings: tuple[str, ...] = ()


def recall(request: Request, env: Mapping[str, str]) -> tuple[Request, Past]:
    """Return a request to go on with a run, complete, and that run's past; raises `Refusal`."""
    run = find_run(runs_folder(env), request.resume or "")
    prompt = _resumable(run)
    agent, folder = str(run.opening["agent"]), str(prompt["folder"])
    if request.agent not in ("", agent):
        raise invalid(f"Run {run.id} is one of {agent}, not of {request.agent}. Resume it as that.")
    try:
        history = history_of(run.folder / SESSION)
    except FileNotFoundError:
        raise invalid(f"Run {run.id} goes on from one whose record is gone.") from None
    unseen = [*_unseen(run)]
    past = Past(
        run.id,
        str(prompt["systemPrompt"]),
        tuple(map(str, as_list(run.opening.get("tools")))),
        history,
        (*_warnings(run, Path(folder)), *unseen),
    )
    schema = request.output_schema
    request = replace(
        request,
        agent=agent,
        task="\n\n".join((request.task, *(f"[{one}]" for one in unseen))),
        model=request.model or str(prompt["model"]),
        cwd=folder,
        output_schema=prompt.get("outputSchema") if schema is None else schema,
    )
    return request, past


def _resumable(run: RecordedRun) -> dict[str, Any]:
    """Return the event that says what a run was begun with; raises `Refusal` with the reason."""
    if run.state == "running":
        raise invalid(f"Run {run.id} is still running. 'outrider tell {run.id}' reaches it.")
    if "folder" in run.opening:
        hint = f"Go on with 'outrider chat --resume {run.id}'."
        raise invalid(f"Run {run.id} is a session of the main agent. {hint}")
    for event in recorded_events(run.folder / SESSION) if run.opening else ():
        if event.get("type") == "prompt":
            if event.get("systemPrompt") is None:
                raise invalid(f"Run {run.id} ran in pi, which keeps its conversation to itself.")
            return event
    raise invalid(f"Run {run.id} can't be resumed: its record doesn't have its messages.")


def _warnings(run: RecordedRun, folder: Path) -> Iterator[str]:
    """Yield what is no longer as it was when the run saw it."""
    is_masked, read, written = False, dict[str, None](), set[str]()
    for event in recorded_events(run.folder / SESSION):
        is_masked |= event.get("type") in CONVERSATION and event.get("masked") is True
        effects = as_object(event.get("effects"))
        read |= dict.fromkeys(map(str, as_list(effects.get("filesRead"))))
        written |= {str(as_object(one).get("path")) for one in as_list(effects.get("filesWritten"))}
    if is_masked:
        yield f"what is masked in the record of run {run.id} went to the model masked"
    ended = os.stat(run.folder / SESSION).st_mtime
    changed = [path for path in read if path not in written and _is_newer(folder / path, ended)]
    if changed:
        more = f" and {len(changed) - MAX_NAMED_FILES} more" * (len(changed) > MAX_NAMED_FILES)
        named = ", ".join(changed[:MAX_NAMED_FILES])
        yield f"files have changed since run {run.id} read them: {named}{more}"


def _unseen(run: RecordedRun) -> Iterator[str]:
    """Yield which changes of the runs so far aren't in the folder, where this one looks for them.

    The model is told too: it remembers that it made them.
    """
    if earlier := run.opening.get("resumes"):
        yield from _unseen(find_run(run.folder.parent, str(earlier)))
    state = landing_of(run.folder).get("state")
    if state in UNSEEN:
        yield f"what run {run.id} changed isn't in the files now: it {UNSEEN[state]}"


def _is_newer(path: Path, than: float) -> bool:
    try:
        return path.stat().st_mtime > than
    except OSError:  # it is gone
        return True


def changes_since(past: Past, system_prompt: str, tools: tuple[str, ...]) -> Iterator[str]:
    """Yield how the agent differs from what it was, by its instructions and tools of today."""
    if system_prompt != past.system_prompt:
        yield f"the agent's instructions have changed since run {past.run_id}; it keeps the old"
    if missing := [name for name in past.tools if name not in tools]:
        yield f"it has to do without tools that run {past.run_id} had: {', '.join(missing)}"
    if more := [name for name in tools if name not in past.tools]:
        yield f"its tools have changed since run {past.run_id}; it doesn't get {', '.join(more)}"
