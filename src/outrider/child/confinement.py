"""A child enters its walls before it does anything for a model, and tells what they hold."""

import os

from outrider.child.emitter import Emit
from outrider.processes import walls
from outrider.processes.cell_start import Cells
from outrider.protocol.brief import Brief
from outrider.protocol.events import UnconfinedEvent
from outrider.protocol.isolation import Isolation
from outrider.workspaces.run_walls import needs_credentials, walls_for, writable_for_programs


def confine(brief: Brief) -> Isolation:
    """Confine this process as its brief says, and return what holds."""
    if brief.isolation is None:
        return Isolation()
    cache = (f"{os.path.realpath(brief.state_folder or os.devnull)}/web-cache",)
    if brief.web:
        os.makedirs(*cache, mode=0o700, exist_ok=True)
    missing = walls.enter(walls_for(brief, os.environ, cache if brief.web else ()))
    if needs_credentials(brief) and not brief.allow_credential_files:
        missing += (f"credential files: {brief.model.partition(':')[0]} signs in with them",)
    isolation = Isolation(brief.isolation, brief.network, missing)
    if not isolation.has_no_walls:
        os.environ["TMPDIR"] = "/tmp"  # noqa: S108  # its own
    return isolation


def cells_for(brief: Brief, isolation: Isolation, emit: Emit) -> Cells | None:
    """Return what the programs are confined to that a child starts; None for a main agent's."""
    if brief.isolation is None:
        return None
    walled = not isolation.has_no_walls
    writable = writable_for_programs(brief, os.environ, walled=walled)
    return Cells(writable, brief.network, lambda lacks: emit(UnconfinedEvent(lacks)))
