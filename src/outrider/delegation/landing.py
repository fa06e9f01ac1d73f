"""What becomes of a writer's changes when its run has ended: reviewed later, or landed at once."""

from dataclasses import replace
from pathlib import Path

from outrider.delegation.preparation import Prepared
from outrider.protocol.changes import Changes, LandingConflict, PathReason
from outrider.protocol.errors import OutriderError
from outrider.workspaces.layers.landing import WriterRun
from outrider.workspaces.layers.merged_check import check_of
from outrider.workspaces.layers.review import review

NOT_LANDED = "not landed by itself"


def changes_of(prepared: Prepared, run: Path, *, completed: bool) -> Changes | None:
    """Return what a run changed; a completed one lands if `subagents.land` is `auto`."""
    config = prepared.config.subagents
    try:
        writer = WriterRun(run, prepared.project.env)
        changes, _ = review(writer)
    except (OSError, OutriderError, ValueError) as error:  # a layer that is damaged or gone
        return Changes("pending", withheld=(PathReason(".", f"its layer can't be read: {error}"),))
    if not completed or config.land != "auto" or changes.state != "pending":
        return changes
    try:
        writer.land(check=check_of(config.land_check, prepared.project.plain_env))
    except LandingConflict:
        return changes  # which has the conflicts
    except (OSError, OutriderError) as error:
        reason = PathReason(".", f"{NOT_LANDED}: {error}")
        return replace(changes, conflicts=(*changes.conflicts, reason))
    return review(writer)[0]
