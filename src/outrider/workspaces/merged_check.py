"""The check of a landing: a command on the merged tree, before the user's files change."""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import suppress
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
    around = walls_for(brief, env)
    names = ("private", "hidden", "home")
    told = {
        "walls": {
            **{name: getattr(around, name) for name in names},
            "writable": [str(layer)],
            "seen": [*around.seen],
        },
        "folder": folder,
        "layer": str(layer),
        "names": [tree.upper.name, WORK],
        "writable": writable_for_programs(brief, env, walled=True),
        "command": command,
    }
    (layer / WORK).mkdir(exist_ok=True)
    heard, tell = os.pipe()
    try:
        program = [*small_python("confined_command"), str(tell), json.dumps(told)]
        code = _run(program, env, folder, output, tell)
        os.set_blocking(heard, False)
        with suppress(BlockingIOError):
            return code if os.read(heard, 1) else None
        return None
    finally:
        os.close(heard)
        os.close(tell)
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
        told, tell = os.pipe()
        cell = (*small_python("cell"), str(tell), *Cells((place,)).for_commands())
        try:
            code = _run([*cell, "/bin/sh", "-c", command], env, str(folder), output, tell)
        finally:
            os.close(tell)
        with open(told) as lacks:
            if output >= 0:  # a descriptor that somebody reads
                words = "; ".join(lacks.read().split("\n")).strip("; ")
                os.write(output, f"[the check ran on a copy, without walls: {words}]\n".encode())
        return code


def _run(command: list[str], env: Mapping[str, str], cwd: str, output: int, *passed: int) -> int:
    try:
        return subprocess.run(
            command,
            env=env,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=passed,
            start_new_session=True,  # what is checked has no business with the terminal
            timeout=MAX_CHECK_SECONDS,
        ).returncode
    except subprocess.TimeoutExpired:
        return EXIT_TIMED_OUT
