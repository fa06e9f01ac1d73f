"""The record of every run: transcript, output and result, kept private and readable by run id."""

import fcntl
import os
import shutil
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, cast

from outrider.protocol import jsonl
from outrider.settings.keys import RunsConfig

SESSION, OUTPUT, RESULT, SPILL = "session.jsonl", "output.md", "result.json", "spill"
PRUNE_EVERY_SECONDS = 3600


class Run:
    """The folder of one run while it runs. It stays locked until the run is over.

    A disk that fills up takes away from the record, not from the run: `problem` says so.
    """

    def __init__(self, folder: Path) -> None:
        self.id = folder.name
        self.folder = folder
        self.session_file = folder / SESSION
        self.output_file = folder / OUTPUT
        self.spill = folder / SPILL
        self.problem: str | None = None
        self._session = _create(self.session_file)
        # Nobody but a reader can hold it, who asks whether the run is running, and lets go at once.
        fcntl.flock(self._session, fcntl.LOCK_EX)
        self._output: BinaryIO | None = None

    @classmethod
    def create(cls, runs: Path) -> "Run":
        """Return a new run with an id of its own; raises `OSError`."""
        runs.mkdir(mode=0o700, parents=True, exist_ok=True)
        while True:
            folder = runs / uuid.uuid4().hex[:8]
            try:
                folder.mkdir(mode=0o700)
            except FileExistsError:
                continue
            try:
                return cls(folder)
            except OSError:
                folder.rmdir()
                raise

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, *_: object) -> None:
        """Unlock the run, and take away what its tools put aside."""
        for file in (self._session, self._output):
            if file is not None:
                with suppress(OSError):
                    file.close()
        shutil.rmtree(self.spill, ignore_errors=True)

    def add_event(self, event: Mapping[str, Any]) -> None:
        """Add one event to the transcript; it is on its way to the disk when this returns."""
        with self._noting_problems():
            self._session.write(jsonl.encode(event) + b"\n")
            self._session.flush()

    def add_output(self, text: str) -> None:
        """Add to the output as it comes, so that it is there whatever happens next."""
        with self._noting_problems():
            if self._output is None:
                self._output = _create(self.output_file)
            self._output.write(text.encode())
            self._output.flush()

    def restart_output(self) -> None:
        """Begin the output anew: a turn's text makes way for the next one's."""
        with self._noting_problems():
            if self._output is not None:
                self._output.seek(0)
                self._output.truncate()

    def write_result(self, result: Mapping[str, Any]) -> None:
        """Write the result; from now on the run is no longer going on."""
        with self._noting_problems():
            _write_whole(self.folder / RESULT, jsonl.encode(result))

    def _noting_problems(self) -> "_Noting":
        return _Noting(self)


@dataclass(slots=True)
class _Noting:
    run: Run

    def __enter__(self) -> None: ...

    def __exit__(self, _type: object, error: object, _traceback: object) -> bool:
        if isinstance(error, OSError):
            self.run.problem = f"The run's record is incomplete: {error.strerror or error}."
            return True
        return False


def _create(path: Path) -> BinaryIO:
    return open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600), "wb")


def _write_whole(path: Path, data: bytes) -> None:
    """Write a file so that a reader sees all of it or none of it."""
    partial = path.with_suffix(".partial")
    try:
        with _create(partial) as file:
            file.write(data)
        partial.replace(path)
    except OSError:
        partial.unlink(missing_ok=True)
        raise


@dataclass(frozen=True, slots=True)
class KeptRun:
    """A run on the disk. `state` is its outcome, or `running`, or `interrupted`."""

    id: str
    folder: Path
    started: float
    state: str
    opening: Mapping[str, Any]
    result: Mapping[str, Any]

    @property
    def details(self) -> Mapping[str, Any]:
        """What its child's result says; empty while there is none."""
        results = self.result.get("details", {}).get("results", [])
        return results[0] if results else {}


def kept_runs(runs: Path) -> list[KeptRun]:
    """Return all runs on the disk, newest first."""
    found: list[KeptRun] = []
    for folder in _folders(runs):
        with suppress(FileNotFoundError):  # pruned just now, by another process
            found.append(_kept(folder))
    return sorted(found, key=lambda run: (-run.started, run.id))


def find_run(runs: Path, name: str) -> KeptRun:
    """Return the run whose id is `name`, or begins with it; raises `LookupError` in words."""
    ids = [folder.name for folder in _folders(runs)]
    matching = [name] if name in ids else [one for one in ids if name and one.startswith(name)]
    if len(matching) == 1:
        return _kept(runs / matching[0])
    if matching:
        raise LookupError(f"{name!r} is the beginning of {len(matching)} runs: write more of it.")
    raise LookupError(f"No run {name!r}. `outrider runs` lists those that are kept.")


def _folders(runs: Path) -> Iterator[Path]:
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(runs) as entries:
        for entry in entries:
            if len(entry.name) == 8 and entry.is_dir(follow_symlinks=False):
                yield Path(entry.path)


def _kept(folder: Path) -> KeptRun:
    running = is_running(folder)  # asked first: a run's result is there before it is unlocked
    result = _read_object(folder / RESULT)
    opening = _read_object(folder / SESSION, first_line=True)
    started = opening.get("startedAt")
    if not isinstance(started, float):
        started = folder.stat().st_mtime
    kept = KeptRun(folder.name, folder, started, "", opening, result)
    unfinished = "running" if running else "interrupted"
    return replace(kept, state=kept.details.get("outcome", "failed") if result else unfinished)


def _read_object(path: Path, *, first_line: bool = False) -> Mapping[str, Any]:
    try:
        with open(path, "rb") as file:
            data: object = jsonl.decode(file.readline() if first_line else file.read())
    except (OSError, ValueError, RecursionError):
        return {}
    return cast("dict[str, Any]", data) if isinstance(data, dict) else {}


def is_running(folder: Path) -> bool:
    """Whether some process still holds the run's lock."""
    try:
        with open(folder / SESSION, "rb") as session:
            fcntl.flock(session, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def prune(runs: Path, keep: RunsConfig, *, now: float | None = None) -> int:
    """Remove runs that are too old, then the oldest that are too many bytes; return how many.

    A run's age counts from its last word. No run is opened for this: there may be very many.
    """
    now = time.time() if now is None else now
    removed, total = 0, 0
    sizes = ((*_changed_and_size(folder), folder) for folder in _folders(runs))
    for changed, size, folder in sorted(sizes, reverse=True):
        total += size
        old = now - changed > keep.keep_days * 86_400
        if (old or total > keep.keep_bytes) and not is_running(folder):
            shutil.rmtree(folder, ignore_errors=True)
            removed += 1
    return removed


def pruning_is_due(runs: Path) -> bool:
    """Whether nobody has pruned within the hour; who is told so is to do it."""
    mark = runs / ".pruned"
    with suppress(OSError):
        # Either way: a clock that was set back must not put it off for ever.
        if mark.exists() and abs(time.time() - mark.stat().st_mtime) < PRUNE_EVERY_SECONDS:
            return False
        mark.touch(mode=0o600)
        return True
    return False


def _changed_and_size(folder: Path) -> tuple[float, int]:
    """Return when something was last written in a folder, and how much is in it."""
    changed, size = 0.0, 0
    with suppress(FileNotFoundError):  # pruned just now, by another process
        changed = folder.stat().st_mtime
        with os.scandir(folder) as entries:
            for entry in entries:
                found = entry.stat(follow_symlinks=False)
                changed, size = max(changed, found.st_mtime), size + found.st_size
    return changed, size
