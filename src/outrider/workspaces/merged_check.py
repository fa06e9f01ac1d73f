"""The check of a landing: a command on the merged tree, before the user's files change."""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from outrider.processes.cell_start import Cells, small_python
from outrider.protocol.brief import Brief
from outrider.protocol.exit_codes import EXIT_TIMED_OUT
from outrider.workspaces.layers.copying import copy_folder
from outrider.workspaces.layers.landing import Check, MergedTree
from outrider.workspaces.layers.scanning import walk
from outrider.workspaces.layers.versions import is_whiteout
from outrider.workspaces.run_walls import walls_for, writable_for_programs

MAX_CHECK_SECONDS = 3_600
WORK = "checking"
"""The folder beside the merged tree that the overlay needs for itself."""


def check_of(
    command: str | None, env: Mapping[str, str], output: int | None = None
) -> Check | None:
    """Return what runs a command on a merged tree; its output goes to a descriptor, or nowhere."""
    if not command:
        return None
    to = subprocess.DEVNULL if output is None else output

    def check(tree: MergedTree) -> int:
        code = _run_mounted(command, env, tree, to)
        return _run_copied(command, env, tree, to) if code is None else code

    return check


def _run_mounted(command: str, env: Mapping[str, str], tree: MergedTree, output: int) -> int | None:
    """Run it with the merged tree mounted over the folder; None where the kernel refuses that."""
    layer, folder = tree.upper.parent, str(tree.folder)
    brief = Brief(
        "", "check", "", "", "", folder, ("bash",), isolation="overlay", layer=str(layer),
        state_folder=str(layer.parents[2]),
    )  # fmt: skip
    walls = {**vars(walls_for(brief, env)), "writable": [str(layer)]}
    del walls["layered"]  # made of what follows
    told = {
        "walls": walls,
        "folder": folder,
        "layer": str(layer),
        "names": [tree.upper.name, WORK],
        "writable": writable_for_programs(brief, env, walled=True),
        "command": command,
    }
    (layer / WORK).mkdir(exist_ok=True)
    try:
        code, said = _run("confined_command", [json.dumps(told)], env, folder, output)
        return code if said else None
    finally:
        shutil.rmtree(layer / WORK, ignore_errors=True)


def _run_copied(command: str, env: Mapping[str, str], tree: MergedTree, output: int) -> int:
    """Run it on a copy of the folder, with what would change put in."""
    with tempfile.TemporaryDirectory(prefix="outrider-check-") as place:
        folder = Path(copy_folder(str(tree.folder), place))
        for path in tree.removed:
            gone = folder / path
            shutil.rmtree(gone) if gone.is_dir() and not gone.is_symlink() else gone.unlink()
        for path, status in walk(tree.upper):
            if is_whiteout(status):
                continue
            new = tree.upper / path
            if new.is_dir() and not new.is_symlink():
                (folder / path).mkdir(exist_ok=True)
            else:
                (folder / path).unlink(missing_ok=True)
                shutil.copy2(new, folder / path, follow_symlinks=False)
        arguments = [*Cells((place,)).for_commands(), "/bin/sh", "-c", command]
        code, lacks = _run("cell", arguments, env, str(folder), output)
        if output >= 0:  # a descriptor that somebody reads
            words = "; ".join(lacks.split("\n")).strip("; ")
            os.write(output, f"[the check ran on a copy, without walls: {words}]\n".encode())
        return code


def _run(
    module: str, arguments: Sequence[str], env: Mapping[str, str], cwd: str, output: int
) -> tuple[int, str]:
    """Run a module of ours; return its exit code, and what it says to the descriptor it gets."""
    heard, tell = os.pipe()
    with open(heard) as said:
        try:
            # In a session of its own: what is checked has no business with the terminal.
            code = subprocess.run(
                [*small_python(module), str(tell), *arguments], env=env, cwd=cwd, stdout=output,
                stdin=subprocess.DEVNULL, stderr=output, pass_fds=[tell], start_new_session=True,
                timeout=MAX_CHECK_SECONDS,
            ).returncode  # fmt: skip
        except subprocess.TimeoutExpired:
            code = EXIT_TIMED_OUT
        finally:
            os.close(tell)
        return code, said.read()
