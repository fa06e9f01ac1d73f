"""The tool `subagent_changes`: what a writer changed, and what becomes of it.

A host's model doesn't approve its own subagent. It may read the diff; what changes files or throws
work away needs the person's yes, unless their settings let a completed run land by itself.
"""

import asyncio
import shlex
from collections.abc import Sequence

from outrider.delegation.landing import changes_of, check_may_land, settle, writer_run
from outrider.delegation.project import Project
from outrider.delegation.request import invalid
from outrider.processes.shielding import finish
from outrider.protocol.data import as_list
from outrider.protocol.errors import ErrorCode, OutriderError, Refusal
from outrider.protocol.outcomes import Outcome
from outrider.protocol.quoting import harmless_line
from outrider.records.runs import find_run
from outrider.settings.places import runs_folder
from outrider.surfaces.mcp.connection import ClientRequest
from outrider.surfaces.mcp.handshake import Json
from outrider.surfaces.mcp.offer import ACTIONS
from outrider.surfaces.mcp.results import changes_result, checked_run_id
from outrider.surfaces.terminal.changes import totals
from outrider.surfaces.text import clean_line, fit
from outrider.workspaces.layers.landing import WriterRun, is_in
from outrider.workspaces.layers.review import FileDiff, review
from outrider.workspaces.names import unescaped

MAX_ASKED_PATHS = 500
MAX_REASON = 2_000
QUESTIONS = {
    "land": "Land what run {run} changed in {folder}? {what}",
    "undo": "Undo what run {run} has landed in {folder}? {what}",
    "discard": "Throw away what run {run} changed for {folder} and hasn't landed? {what}",
}


async def call_changes(request: ClientRequest, given: Json, project: Project) -> Json:
    """Return the answer to a call of `subagent_changes`; raises `Refusal`."""
    run_id, action = checked_run_id(given), str(given.get("action"))
    only = [unescaped(str(one)).rstrip("/") for one in as_list(given.get("paths"))]
    if action not in ACTIONS or (only and action not in ("diff", "land")):
        raise invalid(f"action must be one of {', '.join(ACTIONS)}; the last two take no paths.")
    run, _ = await asyncio.to_thread(writer_run, run_id, project.env)
    if run.project != project.folder:
        raise invalid(f"Run {run_id} worked in another folder than this one, {project.folder}.")
    changes, drawn = await asyncio.to_thread(review, run)
    chosen = [one for one in drawn if _is_meant(one, run, action, only)]
    if not chosen:
        raise invalid(f"Run {run_id} has nothing to {action} here: it is {run.state}.")
    if action == "diff":
        text = project.masker.text("\n".join(line for one in chosen for line in one.lines))
        return changes_result(run_id, changes, text, project.config.mcp.result_bytes)
    if action == "land":
        check_may_land(project.config, run_id)
    # A completed run lands without a question where the person's settings let it.
    by_itself = project.config.subagents.land == "auto" and action == "land"
    outcome = find_run(runs_folder(project.env), run_id).state
    if not (by_itself and outcome == Outcome.COMPLETED):
        await _ask(request, action, run, chosen, only)
    try:
        await finish(asyncio.to_thread(settle, run, action, project.env, only=only))
    except Refusal:
        raise
    except (OSError, OutriderError) as error:
        reason = harmless_line(str(error), MAX_REASON)
        raise Refusal(ErrorCode.SUBAGENT_FAILED, f"Nothing was changed: {reason}") from None
    changes = await asyncio.to_thread(changes_of, run.folder, project.env)
    return changes_result(run_id, changes)


def _is_meant(one: FileDiff, run: WriterRun, action: str, only: Sequence[str]) -> bool:
    path = unescaped(one.file.path)
    is_left = action == "diff" or (path in run.landed) == (action == "undo")
    return is_left and (not only or is_in(path, *only))


async def _ask(
    request: ClientRequest, action: str, run: WriterRun, chosen: list[FileDiff], only: list[str]
) -> None:
    """Return if the person agrees; raises `Refusal` where they don't, or can't be asked."""
    run_id = run.folder.name
    if not request.client.can_ask:
        words = ["outrider", action, run_id, *(word for path in only for word in ("--only", path))]
        message = f"Only the person can {action} this, and this host can't ask them."
        advice = f"Tell them what to type: {harmless_line(shlex.join(words))}"
        raise Refusal(ErrorCode.SUBAGENT_DISABLED, f"{message} {advice}")
    names = fit(clean_line(", ".join(one.file.path for one in chosen)), MAX_ASKED_PATHS)
    what, folder = f"{totals(chosen)}: {names}", clean_line(str(run.project))
    message = QUESTIONS[action].format(run=run_id, folder=folder, what=what)
    if not await request.agrees(f"{action} {run_id} {what}", message):
        raise Refusal(ErrorCode.SUBAGENT_DISABLED, "The person said no. Nothing was changed.")
