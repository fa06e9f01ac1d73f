"""A writer without a model: its layer is real, and what it does there is a shell script."""

import os
import shutil
import subprocess
import time
from pathlib import Path

from outrider.records.runs import RunRecorder
from outrider.workspaces.layers.audit import LayerAudit, begin_ledger
from outrider.workspaces.layers.landing import WriterRun

KINDS = ("overlay", "copy")
END = {"type": "end", "at": 5, "outcome": "completed", "exitCode": 0}


def settle(folder: Path) -> None:
    """Let the clock of the file system go on, so that what comes is later than what was."""
    began = time.time_ns()
    while folder.stat().st_ctime_ns <= began:
        (folder / "clock").touch()
        (folder / "clock").unlink()


class Writer:
    """A run with a layer over a folder."""

    def __init__(self, runs: Path, project: Path, kind: str = "overlay") -> None:
        with RunRecorder.create(runs) as run:
            run.add_event({"type": "run", "startedAt": time.time(), "agent": "coder"})
            run.write_result({"details": {"results": [{"changes": {"state": "pending"}}]}}, END)
        self.folder, self.project, self.calls = run.folder, project, 0
        self.id, self.layer = run.id, run.folder / "layer"
        begin_ledger(self.layer, project, 1 << 30)
        if kind == "copy":
            shutil.copytree(project, self.layer / "copy", symlinks=True)
        else:
            for name in ("upper", "work", "merged"):
                (self.layer / name).mkdir()
        self.kind = kind
        self.audit = LayerAudit(project, self.layer)

    def do(self, script: str, *, audited: bool = True) -> "Writer":
        """Run a shell script in the layer, as a tool call would."""
        if self.kind == "copy":
            self._run(["sh", "-ec", script], cwd=self.layer / "copy")
        else:
            how = f"lowerdir={self.project},upperdir=upper,workdir=work,userxattr"
            mount = f"mount -t overlay overlay -o {how} merged && cd merged && {{\n{script}\n}}"
            self._run(["unshare", "-Urm", "sh", "-ec", mount], cwd=self.layer)
        if audited:
            self.calls += 1
            self.audit.after_call(f"call{self.calls}")
        return self

    def _run(self, command: list[str], cwd: Path) -> None:
        done = subprocess.run(command, cwd=cwd, capture_output=True, timeout=60)
        assert done.returncode == 0, done.stderr.decode()

    def end(self) -> WriterRun:
        return WriterRun(self.folder, os.environ)


def tree(folder: Path) -> dict[str, tuple[object, ...]]:
    """Return all that is in a folder: kinds, modes and contents."""
    found: dict[str, tuple[object, ...]] = {}
    for above, folders, files in os.walk(os.fsencode(folder)):
        for name in (*folders, *files):
            path = os.path.join(above, name)
            status = os.lstat(path)
            content: object = None
            if os.path.islink(path):
                content = os.readlink(path)
            elif os.path.isfile(path):
                content = Path(os.fsdecode(path)).read_bytes()
            key = os.fsdecode(os.path.relpath(path, os.fsencode(folder)))
            found[key] = (status.st_mode if not os.path.islink(path) else "link", content)
    return found
