"""The record of every run: transcript, output and result, private and readable by run id."""

import errno
import fcntl
import os
import re
import shutil
import sys
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from outrider.processes.reaping import libc, marked_processes
from outrider.protocol import jsonl
from outrider.protocol.brief import RUN_VARIABLE
from outrider.protocol.data import as_object
from outrider.protocol.errors import ErrorCode, Refusal
from outrider.settings.keys import RunsConfig

SESSION, OUTPUT, RESULT, SPILL = "session.jsonl", "output.md", "result.json", "spill"
RESERVED, RESERVED_BYTES = "result.reserved", 16 << 10
"""The result's file until it is complete, with room for what matters most of it."""
PRUNE_EVERY_SECONDS = 3600
MAX_TASK_SHOWN = 200
_KEEP_SIZE = 1


class RunRecorder:
    """Writes the record of one run, and holds the lock that marks the run as running.

    A disk that fills up costs part of the record, not the run: `problem` says which part. Room
    for the outcome is taken when the run begins.
    """

    def __init__(self, folder: Path, *, waits: bool = True) -> None:
        """`waits` says whether to wait for the lock; else `BlockingIOError` is raised."""
        self.id = folder.name
        self.folder = folder
        self.session_file = f"{folder}/{SESSION}"
        self.output_file = f"{folder}/{OUTPUT}"
        self.spill = f"{folder}/{SPILL}"
        self._missing: dict[str, str] = {}
        self._line_end = b""
        self._output: int | None = None
        with ExitStack() as descriptors:
            self._session = _create(self.session_file, descriptors, os.O_APPEND)
            # It is free, or held for a moment by a reader that checks whether the run is running.
            fcntl.flock(self._session, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))
            self._reserved = _create(f"{folder}/{RESERVED}", descriptors)
            _reserve(self._reserved)
            self._descriptors = descriptors.pop_all()

    @classmethod
    def create(cls, runs: Path) -> Self:
        """Return the recorder of a new run with a unique id; raises `OSError`."""
        while True:
            folder = runs / os.urandom(4).hex()
            try:
                os.mkdir(folder, mode=0o700)
                return cls(folder)
            except FileExistsError:
                continue
            except FileNotFoundError:  # the first run of this user
                runs.mkdir(mode=0o700, parents=True, exist_ok=True)
            except OSError:
                shutil.rmtree(folder, ignore_errors=True)
                raise

    @classmethod
    def reopen(cls, folder: Path) -> Self:
        """Return the recorder of a run that goes on; raises `BlockingIOError` while it runs."""
        run = cls(folder, waits=False)
        with open(run.session_file, "rb") as session:
            session.seek(max(0, session.seek(0, os.SEEK_END) - 1))
            run._line_end = b"" if session.read() in (b"", b"\n") else b"\n"  # one that was cut
        for name in (RESULT, OUTPUT):  # they say how the last turn ended
            (folder / name).unlink(missing_ok=True)
        return run

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Unlock the run, and remove what its tools spilled."""
        self._descriptors.close()
        if os.path.lexists(self.spill):
            shutil.rmtree(self.spill, ignore_errors=True)

    @property
    def problem(self) -> str | None:
        """What the record lacks and why, in words; None where it is whole."""
        if not self._missing:
            return None
        parts, reason = " and ".join(self._missing), next(iter(self._missing.values()))
        return f"The run's record is incomplete ({parts}): {reason}."

    @property
    def has_output(self) -> bool:
        """Whether the record has the whole output."""
        return self._output is not None and OUTPUT not in self._missing

    def add_event(self, event: Mapping[str, Any]) -> None:
        """Append one event to the transcript."""
        lead, self._line_end = self._line_end, b"\n"  # of a line that may get cut
        with self._noting(SESSION):
            _write(self._session, lead + jsonl.encode(event) + b"\n")
            self._line_end = b""

    def add_output(self, text: str) -> None:
        """Append to the output as it arrives, so that a crash loses none of it."""
        with self._noting(OUTPUT):
            if self._output is None:
                self._output = _create(self.output_file, self._descriptors)
            _write(self._output, text.encode())

    def restart_output(self) -> None:
        """Empty the output: each turn's text replaces that of the turn before."""
        self._missing.pop(OUTPUT, None)
        with self._noting(OUTPUT):
            if self._output is not None:
                os.ftruncate(self._output, 0)
                os.lseek(self._output, 0, os.SEEK_SET)

    def write_result(self, result: Mapping[str, Any]) -> bool:
        """Write the result, so that a reader sees all of it or none; return whether it is there."""
        with self._noting(RESULT):
            os.lseek(self._reserved, 0, os.SEEK_SET)
            data = jsonl.encode(result)
            _write(self._reserved, data)
            if RESULT in self._missing:  # a longer one was tried before
                os.ftruncate(self._reserved, len(data))
            os.replace(f"{self.folder}/{RESERVED}", f"{self.folder}/{RESULT}")
            return True
        return False

    @contextmanager
    def _noting(self, part: str) -> Generator[None]:
        try:
            yield
        except OSError as error:
            self._missing[part] = error.strerror or str(error)


def _reserve(descriptor: int) -> None:
    """Take up room on the disk behind a file's end; raises `OSError` where there is none."""
    if sys.platform != "linux":
        return
    from ctypes import c_int64, get_errno

    # Not `posix_fallocate`: to cut the file to its size again would take milliseconds.
    failed = libc().fallocate(descriptor, _KEEP_SIZE, c_int64(0), c_int64(RESERVED_BYTES))
    if failed and get_errno() in (errno.ENOSPC, errno.EDQUOT):
        raise OSError(get_errno(), os.strerror(get_errno()))


def _create(path: str, descriptors: ExitStack, flags: int = 0) -> int:
    """Return a new file's descriptor, which is closed with the others."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | flags, 0o600)
    descriptors.callback(os.close, descriptor)
    return descriptor


def _write(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """A run as the disk has it."""

    id: str
    folder: Path
    started: float
    state: str  # its outcome; without a result `running`, or `interrupted`
    opening: Mapping[str, Any]  # the first line of its transcript
    result: Mapping[str, Any]  # empty while there is none
    details: Mapping[str, Any]  # the child's part of the result

    @property
    def summary(self) -> dict[str, Any]:
        """What a listing shows of it."""
        # A run without a result is known from the first line of its transcript.
        known, started = self.details or self.opening, datetime.fromtimestamp(self.started, UTC)
        lines = str(known.get("task", "")).strip().splitlines()
        return {
            "runId": self.id,
            "startedAt": started.isoformat(timespec="milliseconds"),
            "state": self.state,
            "agent": known.get("agent", ""),
            "model": known.get("model", ""),
            "project": self.opening.get("project"),
            "task": lines[0][:MAX_TASK_SHOWN] if lines else "",
            **{name: known.get(name) for name in ("durationMs", "usage", "exitCode", "error")},
        }


def recorded_runs(runs: Path) -> list[RecordedRun]:
    """Return all runs on the disk, newest first."""
    found: list[RecordedRun] = []
    for folder in _folders(runs):
        with suppress(FileNotFoundError):  # just pruned by another process
            found.append(_read(folder))
    return sorted(found, key=lambda run: (-run.started, run.id))


def find_run(runs: Path, name: str) -> RecordedRun:
    """Return the run whose id is or starts with `name`; `last` and `-1` are the newest one."""
    problem = f"No run {name!r}. `outrider runs` lists the recorded ones."
    if back := re.fullmatch(r"-([1-9]\d{0,8})", "-1" if name == "last" else name):
        if newest := recorded_runs(runs)[int(back[1]) - 1 :]:
            return newest[0]
        problem = f"No run {name!r}: too few runs are recorded."
    elif matching := [one for one in _folders(runs) if name and one.name.startswith(name)]:
        if len(matching) == 1:
            return _read(matching[0])
        problem = f"{len(matching)} runs start with {name!r}: write more of the id."
    raise Refusal(ErrorCode.INVALID_INPUT, problem)


def delete_run(folder: Path) -> bool:
    """Delete the record of a run; return whether it is gone. One that is running stays."""
    if _is_running(folder):
        return False
    shutil.rmtree(folder, ignore_errors=True)
    return not folder.exists()


def left_over(runs: Path) -> Iterator[tuple[int, str]]:
    """Yield the processes of runs that have ended, by the variable that all of a run's have."""
    for pid, run_id in marked_processes(RUN_VARIABLE):
        with suppress(Refusal, OSError):
            run = find_run(runs, run_id)
            if run.id == run_id and run.state != "running":
                yield pid, run_id


def _folders(runs: Path) -> Iterator[Path]:
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(runs) as entries:
        for entry in entries:
            if len(entry.name) == 8 and entry.is_dir(follow_symlinks=False):
                yield Path(entry.path)


def _read(folder: Path) -> RecordedRun:
    running = _is_running(folder)  # first: a run writes its result before it is unlocked
    result = _read_object(folder / RESULT)
    opening = _read_object(folder / SESSION, first_line=True)
    started = opening.get("startedAt")
    if not isinstance(started, float):
        started = folder.stat().st_mtime
    results: list[Mapping[str, Any]] = result.get("details", {}).get("results", [])
    details: Mapping[str, Any] = results[0] if results else {}
    unfinished = "running" if running else "interrupted"
    state = details.get("outcome", "failed") if result else unfinished
    return RecordedRun(folder.name, folder, started, state, opening, result, details)


def _read_object(path: Path, *, first_line: bool = False) -> Mapping[str, Any]:
    try:
        with open(path, "rb") as file:
            data: object = jsonl.decode(file.readline() if first_line else file.read())
    except (OSError, ValueError, RecursionError):
        return {}
    return as_object(data)


def _is_running(folder: Path) -> bool:
    """Whether a process holds the run's lock."""
    try:
        with open(folder / SESSION, "rb") as session:
            fcntl.flock(session, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return isinstance(error, BlockingIOError)
    return False


def prune(runs: Path, keep: RunsConfig) -> int:
    """Remove runs last written too long ago, then the oldest ones; return how many were removed."""
    # No file is opened except those of runs to remove: there may be very many.
    found: list[tuple[float, int, Path]] = []
    for folder in _folders(runs):
        with suppress(FileNotFoundError), os.scandir(folder) as entries:  # just pruned by another
            states = [folder.stat(), *(entry.stat(follow_symlinks=False) for entry in entries)]
            size = sum(state.st_size for state in states[1:])
            found.append((max(state.st_mtime for state in states), size, folder))
    removed, total = 0, 0
    for changed, size, folder in sorted(found, reverse=True):
        total += size
        if total > keep.keep_bytes or time.time() - changed > keep.keep_days * 86_400:
            removed += delete_run(folder)
    return removed


def pruning_is_due(runs: Path) -> bool:
    """Whether no process has pruned within the hour; a caller that gets True has to prune."""
    mark = f"{runs}/.pruned"
    with suppress(OSError):
        # In both directions: a clock that was set back must not delay it forever.
        if abs(time.time() - os.stat(mark).st_mtime) < PRUNE_EVERY_SECONDS:
            return False
    with suppress(OSError):
        Path(mark).touch(mode=0o600)
        return True
    return False
