"""How long it takes to land the changes of a run, beside copying the same files with `cp -r`."""

import os
import subprocess
import tempfile
import time
from pathlib import Path

from outrider.records.runs import RunRecorder
from outrider.workspaces.layers.audit import LayerAudit, begin_ledger
from outrider.workspaces.layers.landing import WriterRun

FILES = 200
BYTES = 8_000


def landing_seconds() -> dict[str, float]:
    """Return the seconds that landing and undoing 200 changed files took, and those of `cp -r`."""
    with tempfile.TemporaryDirectory() as place:
        project, copied = Path(place, "project"), Path(place, "copied")
        _write(project, "before")
        with RunRecorder.create(Path(place, "runs")) as run:
            pass
        layer = run.folder / "layer"
        begin_ledger(layer, project, 1 << 30)
        _write(layer / "upper", "after")
        LayerAudit(project, layer).after_call("call")
        writer = WriterRun(run.folder, os.environ)
        return {
            "copy": _seconds(lambda: subprocess.run(["cp", "-r", layer / "upper", copied])),
            "land": _seconds(writer.land),
            "undo": _seconds(writer.undo),
        }


def _write(folder: Path, word: str) -> None:
    for number in range(FILES):
        path = folder / f"package{number % 20}" / f"file{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{word} {number}\n" * (BYTES // 12))


def _seconds(act) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began
