"""The check of a landing: a command on the merged tree, before the user's files change."""

import json
import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from outrider.processes.cell_start import Cells, small_python
from outrider.protocol.brief import Brief
from outrider.protocol.exit_codes import EXIT_TIMED_OUT
from outrider.records.runs import remove_folder
from outrider.workspaces.layers.applying import Application, ordered
from outrider.workspaces.layers.copying import copy_folder
from outrider.workspaces.layers.landing import Check, MergedTree
from outrider.workspaces.layers.versions import is_folder
from outrider.workspaces.run_walls import walls_for, writable_for_programs

MAX_CHECK_SECONDS = 3_600
CHECKED, WORK = "checked", "checking"
"""The folders in a layer that have what would change, and what the overlay needs for itself."""


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
    folder, layer = str(tree.folder), str(tree.layer)
    brief = Brief(
        "", "check", "", "", "", folder, ("bash",), isolation="overlay", layer=layer,
        state_folder=str(tree.layer.parents[2]),
    )  # fmt: skip
    walls = {**vars(walls_for(brief, env)), "writable": [layer]}
    del walls["layered"]  # made of what follows
    told = {
        "walls": walls,
        "folder": folder,
        "layer": layer,
        "names": [CHECKED, WORK],
        "writable": writable_for_programs(brief, env, walled=True),
        "command": command,
    }
    try:
        (tree.layer / WORK).mkdir(exist_ok=True)
        _put_upper(tree)
        code, said = _run("confined_command", [json.dumps(told)], env, folder, output)
        return code if said else None
    finally:
        for name in (CHECKED, WORK):
            shutil.rmtree(tree.layer / name, ignore_errors=True)


def _put_upper(tree: MergedTree) -> None:
    """Make the upper folder of an overlay, which has what would change: new files, whiteouts."""
    shutil.rmtree(upper := tree.layer / CHECKED, ignore_errors=True)
    upper.mkdir()
    for step in ordered(tree.steps):
        path = upper / step.path
        path.parent.mkdir(parents=True, exist_ok=True)
        remove_folder(path) if path.is_dir() else path.unlink(missing_ok=True)
        if step.after is None:
            with suppress(OSError):  # a system without overlays has no whiteouts either
                os.mknod(path, stat.S_IFCHR)
        elif is_folder(step.after):
            path.mkdir(step.after.mode)
        else:
            tree.contents.put(step.after, None, str(path))


def _run_copied(command: str, env: Mapping[str, str], tree: MergedTree, output: int) -> int:
    """Run it on a copy of the folder in which the changes have landed."""
    with tempfile.TemporaryDirectory(prefix="outrider-check-") as place:
        folder = copy_folder(str(tree.folder), place)
        landing = Application(Path(folder), tree.steps, "check")
        landing.stage(tree.contents)
        landing.take()
        landing.clear()
        arguments = [*Cells((place,)).for_commands(), "/bin/sh", "-c", command]
        code, lacks = _run("cell", arguments, env, folder, output)
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
