"""A child enters its walls before it does anything for a model, and tells what they hold."""

import _socket
import os
import sys
from dataclasses import replace
from pathlib import Path

from outrider.child.emitter import Emit
from outrider.processes import walls
from outrider.processes.cell_start import Cells
from outrider.protocol.brief import Brief
from outrider.protocol.data import frozen
from outrider.protocol.events import UnconfinedEvent
from outrider.protocol.isolation import Isolation
from outrider.workspaces.layers.audit import LayerAudit
from outrider.workspaces.layers.copying import copy_folder
from outrider.workspaces.path_guard import containing
from outrider.workspaces.run_walls import (
    needs_credentials,
    new_layer,
    walls_for,
    writable_for_programs,
)

ADVICE = "Set subagents.isolation to `none` to let it work on your files in place."


@frozen
class Confined:
    """What became of a child's brief: where it works, what holds, and who records its changes."""

    brief: Brief
    isolation: Isolation
    audit: LayerAudit | None = None


def confine(
    brief: Brief, begun: walls.Begun | None = None, guardian: _socket.socket | None = None
) -> Confined:
    """Confine this process as its brief says; raises `OSError` where a layer can't be had.

    `begun` are walls that only have to be finished; of others, `guardian` leads to who takes them
    down.
    """
    if begun is not None and brief.isolation != "readonly":
        raise OSError("walls that are begun are for a child that only reads")
    if brief.isolation is None:
        return Confined(brief, Isolation())
    layered = new_layer(brief)
    missing = walls.enter(walls_for(brief, os.environ, layered=layered), begun, guardian)
    if needs_credentials(brief) and not brief.allow_credential_files:
        missing += (f"credential files: {brief.model.partition(':')[0]} signs in with them",)
    isolation = Isolation(brief.isolation, brief.network, missing)
    if not isolation.has_no_walls:
        os.environ["TMPDIR"] = "/tmp"  # noqa: S108  # its own
    if layered is None:
        return Confined(brief, isolation)
    return _on_layer(brief, isolation, layered)


def _on_layer(brief: Brief, isolation: Isolation, layered: walls.LayeredFolder) -> Confined:
    """Return how a writer works: over its folder, or in a copy where there are no walls."""
    _import_nothing_from(layered.folder)
    kind, missing = layered.kind, isolation.missing
    lower, layer = (f"/proc/self/fd/{one}" for one in (layered.lower, layered.kept))
    if not kind and isolation.has_no_walls and brief.isolation != "overlay":
        kind, lower, layer = "copy", layered.folder, layered.layer
        copied = copy_folder(lower, layer)
        brief = replace(brief, cwd=copied)
        os.chdir(copied)
    if not kind:
        reason = next((one for one in missing if one.startswith("layer: ")), missing[0])
        raise OSError(f"no layer can be put over {layered.folder} ({reason}). {ADVICE}")
    missing = tuple(one for one in missing if not one.startswith("layer: "))
    audit = LayerAudit(Path(lower), Path(layer))
    return Confined(brief, replace(isolation, kind=kind, missing=missing), audit)


def _import_nothing_from(folder: str) -> None:
    """Leave out the modules of a folder that commands change, but for those that they can't."""
    inside = (folder, *(one for one in walls.CODE if os.path.realpath(one) != folder))
    nearest = {path: containing(inside, os.path.realpath(path)) for path in sys.path}
    sys.path[:] = (path for path in sys.path if nearest[path] != folder)


def cells_for(brief: Brief, isolation: Isolation, emit: Emit) -> Cells | None:
    """Return what the programs are confined to that a child starts; None for a main agent's."""
    if brief.isolation is None:
        return None
    walled = not isolation.has_no_walls
    writable = writable_for_programs(brief, os.environ, walled=walled)
    return Cells(writable, brief.network, lambda lacks: emit(UnconfinedEvent(lacks)))
