"""The check of a landing: a command on the merged tree, before the user's files change."""

import json
import os
import stat
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from outrider.processes.cell_start import Cells, small_python
from outrider.protocol.brief import Brief
from outrider.protocol.data import frozen
from outrider.protocol.exit_codes import EXIT_TIMED_OUT
from outrider.records.runs import remove_folder
from outrider.workspaces.layers.applying import Application, ordered
from outrider.workspaces.layers.copying import copy_folder
from outrider.workspaces.layers.landing import Check, WriterRun
from outrider.workspaces.layers.versions import PathChange, is_folder
from outrider.workspaces.run_walls import walls_for, writable_for_programs

MAX_CHECK_SECONDS = 3_600
CHECKED, WORK = "checked", "checking"
"""The folders in a layer that have what would change, and what the overlay needs for itself."""


def check_of(
    command: str | None, env: Mapping[str, str], output: int = subprocess.DEVNULL
) -> Check | None:
    """Return what runs a command on a merged tree; its output goes to a descriptor, or nowhere."""
    return _MergedCheck(command, env, output) if command else None


@frozen
class _MergedCheck:
    command: str
    env: Mapping[str, str]
    output: int

    def __call__(self, run: WriterRun, steps: Sequence[PathChange]) -> int:
        code = self._run_mounted(run, steps)
        return self._run_copied(run, steps) if code is None else code

    def _run_mounted(self, run: WriterRun, steps: Sequence[PathChange]) -> int | None:
        """Run it with the merged tree mounted over the folder; None if the kernel refuses that."""
        folder, layer = str(run.project), str(run.layer)
        brief = Brief(
            "", "check", "", "", "", folder, ("bash",), isolation="overlay", layer=layer,
            state_folder=str(run.layer.parents[2]),
        )  # fmt: skip
        walls = {**vars(walls_for(brief, self.env)), "writable": [layer]}
        del walls["layered"]  # made of what follows
        told = {
            "walls": walls,
            "folder": folder,
            "layer": layer,
            "names": [CHECKED, WORK],
            "writable": writable_for_programs(brief, self.env, walled=True),
            "command": self.command,
        }
        try:
            (run.layer / WORK).mkdir(exist_ok=True)
            _put_upper(run, steps)
            code, said = self._run(folder, "confined_command", json.dumps(told))
            return code if said else None
        finally:
            for name in (CHECKED, WORK):
                remove_folder(run.layer / name)

    def _run_copied(self, run: WriterRun, steps: Sequence[PathChange]) -> int:
        """Run it on a copy of the folder in which the changes have landed."""
        with tempfile.TemporaryDirectory(prefix="outrider-check-") as place:
            folder = copy_folder(str(run.project), place)
            landing = Application(Path(folder), steps, "check")
            landing.stage(run.contents)
            landing.take()
            landing.clear()
            cell = Cells((place,)).for_commands()
            code, lacks = self._run(folder, "cell", *cell, "/bin/sh", "-c", self.command)
            if self.output >= 0:  # a descriptor that somebody reads
                words = f"without walls: {'; '.join(lacks.splitlines())}"
                os.write(self.output, f"[the check ran on a copy, {words}]\n".encode())
            return code

    def _run(self, cwd: str, module: str, *arguments: str) -> tuple[int, str]:
        """Run a module of ours; return its exit code, and what it says to a descriptor."""
        heard, tell = os.pipe()
        # In a session of its own: what is checked has no business with the terminal.
        with open(heard) as said, subprocess.Popen(
            [*small_python(module), str(tell), *arguments], env=self.env, cwd=cwd,
            stdin=subprocess.DEVNULL, stdout=self.output, stderr=self.output,
            pass_fds=[tell], start_new_session=True,
        ) as process:  # fmt: skip
            try:
                code = process.wait(MAX_CHECK_SECONDS)
            except subprocess.TimeoutExpired:
                code = EXIT_TIMED_OUT
            finally:
                process.terminate()
                os.close(tell)
            return code, said.read()


def _put_upper(run: WriterRun, steps: Sequence[PathChange]) -> None:
    """Make the upper folder of an overlay, which has what would change: new files, whiteouts."""
    remove_folder(upper := run.layer / CHECKED)
    upper.mkdir()
    for step in ordered(steps):
        path = upper / step.path
        path.parent.mkdir(parents=True, exist_ok=True)
        remove_folder(path) if path.is_dir() else path.unlink(missing_ok=True)
        if step.after is None:
            with suppress(OSError):  # a system without overlays has no whiteouts either
                os.mknod(path, stat.S_IFCHR)
        elif is_folder(step.after):
            path.mkdir(step.after.mode)
        else:
            run.contents.put(step.after, None, str(path))
