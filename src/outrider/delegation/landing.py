"""What becomes of a writer's changes when its run has ended: reviewed later, or landed at once."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from subprocess import DEVNULL
from typing import Any

from outrider.delegation.preparation import Prepared
from outrider.delegation.project import Project, open_project
from outrider.delegation.request import invalid
from outrider.protocol.changes import WHOLE, Changes, LandingConflict, PathReason
from outrider.protocol.errors import ErrorCode, OutriderError, Refusal
from outrider.protocol.results import ToolResult
from outrider.records.runs import find_run, landing_of
from outrider.settings.keys import Config
from outrider.settings.places import runs_folder
from outrider.workspaces.layers.landing import WriterRun, recover_landing
from outrider.workspaces.layers.review import review
from outrider.workspaces.layers.versions import PathChange
from outrider.workspaces.merged_check import check_of

NOT_LANDED = "not landed by itself"


def changes_of(run: Path, env: Mapping[str, str]) -> Changes:
    try:
        return review(WriterRun(run, env))[0]
    except (OSError, OutriderError, ValueError) as error:  # a layer that is damaged or gone
        reason = PathReason(WHOLE, f"its layer can't be read: {error}")
        return Changes("pending", withheld=(reason,))


def landed_by_itself(prepared: Prepared, run: Path, result: ToolResult) -> ToolResult:
    """Return a run's result, after it has landed if the user wants no review, and it can."""
    config, one = prepared.config.subagents, result.result
    changes = one and one.changes
    if one is None or changes is None or changes.state != "pending" or changes.conflicts:
        return result
    if not result.completed or config.land != "auto":
        return result
    changes = land_by_itself(run, prepared.project, changes, is_held=True)
    changes = changes.masked(prepared.project.masker.text)
    details = replace(result.details, results=(replace(one, changes=changes),))
    return replace(result, details=details)


def land_by_itself(run: Path, project: Project, changes: Changes, *, is_held: bool) -> Changes:
    """Land what a run changed, and return it as it is then, with what kept it from landing."""
    landing = project.config.subagents
    try:
        writer = WriterRun(run, project.env, is_held=is_held)
        writer.land(check=check_of(landing.land_check, project.plain_env))
        changes = review(writer)[0]
    except LandingConflict as conflict:  # the user was faster
        changes = replace(changes, conflicts=conflict.conflicts)
    except (OSError, OutriderError) as error:
        changes = replace(changes, conflicts=(PathReason(WHOLE, f"{NOT_LANDED}: {error}"),))
    if changes.conflicts:
        with suppress(OSError, OutriderError):
            WriterRun(run, project.env).note(changes.conflicts)
    return changes


def landed_later(run: Path, project: Project) -> None:
    """Land what the run of another machine changed, if the user wants no review."""
    if project.config.subagents.land == "auto" and landing_of(run).get("state") == "pending":
        land_by_itself(run, project, changes_of(run, project.env), is_held=False)


def writer_run(name: str, env: Mapping[str, str]) -> tuple[WriterRun, str | None]:
    """Return a writer's run, and the one whose landing was taken back for it; raises `Refusal`."""
    found = find_run(runs := runs_folder(env), name)
    if found.state == "running":
        raise invalid(f"Run {found.id} is still running: wait for its end.")
    run = WriterRun(found.folder, env)
    interrupted = recover_landing(runs, run.project, env)
    return (WriterRun(found.folder, env) if interrupted else run), interrupted


def check_may_land(config: Config, run_id: str) -> None:
    """Refuse a landing where the user's settings rule all of them out."""
    if config.subagents.land == "never":
        message = f"Run {run_id} can't land: subagents.land is never."
        where = "`outrider config` shows where that is set."
        raise Refusal(ErrorCode.SUBAGENT_DISABLED, f"{message} {where}")


def settle(
    run: WriterRun,
    action: str,
    env: Mapping[str, str],
    flags: Mapping[str, object] | None = None,
    *,
    check: str | None = None,
    output: int = DEVNULL,
    **how: Any,
) -> list[PathChange]:
    """Land, undo or discard a run's changes as the settings of its folder allow; return what lands.

    A landing has to pass `subagents.landCheck` and then `check`, and what they print goes to
    `output`. The rest is for `WriterRun.land`. Raises what the methods of `WriterRun` do.
    """
    if action != "land":
        {"undo": run.undo, "discard": run.discard}[action]()
        return []
    project = open_project(run.project, env, flags)
    check_may_land(project.config, run.folder.name)
    commands = (project.config.subagents.land_check, check)
    both = " && ".join(f"({one})" for one in commands if one)
    return run.land(check=check_of(both, project.plain_env, output), **how)
