"""What becomes of a writer's changes when its run has ended: reviewed later, or landed at once."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from outrider.delegation.preparation import Prepared
from outrider.protocol.changes import Changes, LandingConflict, PathReason
from outrider.protocol.errors import OutriderError
from outrider.protocol.results import ToolResult
from outrider.workspaces.layers.landing import WriterRun
from outrider.workspaces.layers.merged_check import check_of
from outrider.workspaces.layers.review import review

NOT_LANDED = "not landed by itself"


def changes_of(run: Path, env: Mapping[str, str]) -> Changes:
    """Return what a run changed in its layer."""
    try:
        return review(WriterRun(run, env))[0]
    except (OSError, OutriderError, ValueError) as error:  # a layer that is damaged or gone
        return Changes("pending", withheld=(PathReason(".", f"its layer can't be read: {error}"),))


def lands_by_itself(prepared: Prepared, result: ToolResult) -> bool:
    """Whether the user's settings say that a run lands without a review."""
    run = result.result
    changes = run.changes if run else None
    is_pending = changes is not None and changes.state == "pending" and not changes.conflicts
    return result.completed and is_pending and prepared.config.subagents.land == "auto"


def land_by_itself(prepared: Prepared, run: Path, result: ToolResult) -> ToolResult:
    """Land a run if that merges and passes the user's check; return the result that says so."""
    command, one = prepared.config.subagents.land_check, result.details.results[0]
    changes = one.changes or Changes()
    try:
        writer = WriterRun(run, prepared.project.env)
        writer.land(check=check_of(command, prepared.project.plain_env))
        changes = review(writer)[0]
    except LandingConflict as conflict:  # the user was faster
        changes = replace(changes, conflicts=conflict.conflicts)
    except (OSError, OutriderError) as error:
        reason = PathReason(".", f"{NOT_LANDED}: {error}")
        changes = replace(changes, conflicts=(*changes.conflicts, reason))
    details = replace(result.details, results=(replace(one, changes=changes),))
    return replace(result, details=details)
