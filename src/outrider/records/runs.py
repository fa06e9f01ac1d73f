"""The record of every run: transcript, output and result, private and readable by run id."""

import errno
import fcntl
import os
import re
import sys
from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, Self

from outrider.processes.reaping import libc, marked_processes
from outrider.protocol import jsonl
from outrider.protocol.brief import RUN_VARIABLE
from outrider.protocol.data import as_list, as_object, frozen, member
from outrider.protocol.errors import ErrorCode, Refusal

SESSION, OUTPUT, RESULT, SPILL = "session.jsonl", "output.md", "result.json", "spill"
LAYER, LANDING, CONFLICTS = "layer", "landing.json", "conflicts"
"""The folder of what a writer changed, and what has become of it."""
RESERVED, RESERVED_BYTES = "result.reserved", 16 << 10
"""The result's file until it is complete, with room for what matters most of it."""
MAX_TASK_SHOWN = 200
MAX_END_BYTES, MAX_LONG_END_BYTES = 4 << 10, 8 << 20
_KNOWN: dict[str, type] = {
    "startedAt": float,
    **dict.fromkeys(("agent", "model", "project", "task"), str),
    **dict.fromkeys(("outcome", "error", "recordProblem"), str),
    **dict.fromkeys(("durationMs", "exitCode"), int),
    **dict.fromkeys(("usage", "bytes"), dict),
}
"""What is read for a listing; `bytes` are the sizes of the output and the result."""
_KEEP_SIZE = 1
Json = dict[str, Any]


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
        self.size = 0  # of its files; known when it has ended
        with ExitStack() as descriptors:
            self._session = _create(self.session_file, descriptors, os.O_APPEND)
            # It is free, or held for a moment by a reader that checks whether the run is running.
            fcntl.flock(self._session, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))
            with suppress(FileExistsError):
                os.mkdir(self.spill, mode=0o700)
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
                remove_folder(folder)
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
        files = (self._session, self._reserved, self._output)
        self.size = sum(os.fstat(one).st_size for one in files if one is not None)
        self.size += layer_size(self.folder)
        self._descriptors.close()
        with suppress(FileNotFoundError):
            try:
                os.rmdir(self.spill)  # most runs leave nothing in it
            except OSError:
                remove_folder(self.spill)

    @property
    def problem(self) -> str | None:
        """What the record lacks and why, in words; None where it is whole."""
        return _incomplete(self._missing)

    @property
    def has_output(self) -> bool:
        """Whether the record has the whole output."""
        return self._output is not None and OUTPUT not in self._missing

    def add_event(self, event: Mapping[str, Any]) -> None:
        lead, self._line_end = self._line_end, b"\n"  # of a line that may get cut
        with self._noting(SESSION):
            write_all(self._session, lead + jsonl.encode(event) + b"\n")
            self._line_end = b""

    def add_output(self, text: str) -> None:
        """Append to the output as it arrives, so that a crash loses none of it."""
        with self._noting(OUTPUT):
            if self._output is None:
                self._output = _create(self.output_file, self._descriptors)
            write_all(self._output, text.encode())

    def restart_output(self) -> None:
        """Empty the output: each turn's text replaces that of the turn before."""
        self._missing.pop(OUTPUT, None)
        with self._noting(OUTPUT):
            if self._output is not None:
                os.ftruncate(self._output, 0)
                os.lseek(self._output, 0, os.SEEK_SET)

    def write_result(self, result: Mapping[str, Any], end: Mapping[str, Any] | None = None) -> bool:
        """Write the transcript's last event and the result; return whether both are there.

        A reader sees all of the result or none.
        """
        data, problem = jsonl.encode(result), self.problem
        if end is not None:
            output = {OUTPUT: os.fstat(self._output).st_size} if self._output is not None else {}
            known = {"recordProblem": problem} if problem else {}
            self.add_event({**end, **known, "bytes": {**output, RESULT: len(data)}})
            if self.problem != problem:
                return False
        with self._noting(RESULT):
            os.lseek(self._reserved, 0, os.SEEK_SET)
            write_all(self._reserved, data)
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


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of it; raises `OSError` where a disk is full."""
    while data:
        data = data[os.write(descriptor, data) :]


def _incomplete(parts: Mapping[str, str]) -> str | None:
    if not parts:
        return None
    return f"The run's record is incomplete ({' and '.join(parts)}): {next(iter(parts.values()))}."


@frozen
class RecordedRun:
    """A run as the disk has it."""

    folder: Path
    state: str  # its outcome; without a result `running`, or `interrupted`
    known: Json  # what `_KNOWN` names
    problem: str | None = None  # what the record lacks and why; None where it is whole

    @property
    def id(self) -> str:
        """The run's id."""
        return self.folder.name

    @property
    def started(self) -> float:
        return self.known["startedAt"]

    @property
    def opening(self) -> Json:
        """The first event of its transcript."""
        return _bounds(self.folder)[1]

    @property
    def result(self) -> Json:
        """Its result as the caller got it; empty while there is none.

        Only what has become of its changes is told as it is now.
        """
        with suppress(OSError, ValueError, RecursionError):
            result, landing = _result(self.folder), landing_of(self.folder)
            for one in as_list(member(result.get("details"), "results")) if landing else ():
                told = {name: landing[name] for name in ("state", CONFLICTS) if name in landing}
                as_object(member(one, "changes")).update(told)
            return result
        return {}

    @property
    def summary(self) -> Json:
        """What a listing shows of it."""
        from datetime import UTC, datetime  # late: no run needs it

        started = datetime.fromtimestamp(self.started, UTC)
        return {
            "runId": self.id,
            "startedAt": started.isoformat(timespec="milliseconds"),
            "state": self.state,
            **{name: self.known.get(name, "") for name in ("agent", "model")},
            **{name: self.known.get(name) for name in ("project", "task", "durationMs", "usage")},
            **{name: self.known.get(name) for name in ("exitCode", "error")},
            **({"recordProblem": self.problem} if self.problem else {}),
            **({"changes": landing["state"]} if (landing := landing_of(self.folder)) else {}),
        }


def recorded_runs(runs: Path) -> list[RecordedRun]:
    """Return all runs on the disk, newest first."""
    found: list[RecordedRun] = []
    for folder in run_folders(runs):
        with suppress(FileNotFoundError):  # just pruned by another process
            found.append(read_run(folder))
    return sorted(found, key=lambda run: (-run.started, run.id))


def running_runs(runs: Path) -> list[RecordedRun]:
    """Return the runs that are running, newest first."""
    return [run for run in recorded_runs(runs) if run.state == "running"]


def find_run(runs: Path, name: str) -> RecordedRun:
    """Return the run whose id is or starts with `name`; `last` and `-1` are the newest one."""
    problem = f"No run {name!r}. `outrider runs` lists the recorded ones."
    if back := re.fullmatch(r"-([1-9]\d{0,8})", "-1" if name == "last" else name):
        if newest := recorded_runs(runs)[int(back[1]) - 1 :]:
            return newest[0]
        problem = f"No run {name!r}: too few runs are recorded."
    elif matching := [one for one in run_folders(runs) if name and one.name.startswith(name)]:
        if len(matching) == 1:
            return read_run(matching[0])
        problem = f"{len(matching)} runs start with {name!r}: write more of the id."
    raise Refusal(ErrorCode.INVALID_INPUT, problem)


def landing_of(folder: Path) -> Json:
    """Return what has become of a run's changes, and the journal of a landing; empty for none."""
    with suppress(OSError):
        return jsonl.decoded_object((folder / LANDING).read_bytes())
    return {}


def layer_size(folder: Path) -> int:
    """Return how much room a run's layer takes; 0 where it has none."""
    size, folders = 0, [f"{folder}/{LAYER}"]  # `os.walk` fails where these are very deep
    while folders:
        with suppress(OSError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                else:
                    size += entry.stat(follow_symlinks=False).st_blocks * 512
    return size


def is_running(folder: Path) -> bool:
    """Whether a run is running, as the kernel says: its supervisor holds a lock."""
    return _is_held(folder, fcntl.LOCK_SH)


def is_in_use(folder: Path) -> bool:
    """Whether a process has to do with a run: supervises, lands or undoes it."""
    return _is_held(folder, fcntl.LOCK_EX)


def _is_held(folder: Path, kind: int) -> bool:
    with suppress(OSError), open(folder / SESSION, "rb") as session:
        return not _lock(session, kind)
    return False


def delete_run(folder: Path) -> bool:
    """Delete the record of a run; return whether it is gone. One that is running stays."""
    if "operation" in landing_of(folder):  # it is needed to take that back
        return False
    with ExitStack() as held:
        with suppress(OSError):  # without a transcript it isn't running
            session = held.enter_context(open(folder / SESSION, "rb"))
            if not _lock(session, fcntl.LOCK_EX):
                return False
        remove_folder(folder)
    return not folder.exists()


def remove_folder(folder: str | Path) -> None:
    """Remove a folder with all that a child may have left in it."""
    from shutil import rmtree  # late: it takes 4 ms

    with suppress(RecursionError):
        rmtree(folder, ignore_errors=True)
    with suppress(OSError):
        while entries := [*os.scandir(folder)]:
            for entry in entries:
                _lift(entry, folder)
        os.rmdir(folder)


def _lift(entry: "os.DirEntry[str]", top: str | Path) -> None:
    """Remove what is in a folder; the folders in it, however deep and locked, move up to `top`."""
    if not entry.is_dir(follow_symlinks=False):
        os.unlink(entry.path)
        return
    os.chmod(entry.path, 0o700)
    for inner in [*os.scandir(entry.path)]:
        if inner.is_dir(follow_symlinks=False):
            os.chmod(inner.path, 0o700)
            os.rename(inner.path, f"{top}/{os.urandom(8).hex()}")
        else:
            os.unlink(inner.path)
    os.rmdir(entry.path)


def left_over(runs: Path) -> Iterator[tuple[int, str]]:
    """Yield the processes of runs that have ended, by the variable that all of a run's have."""
    for pid, run_id in marked_processes(RUN_VARIABLE):
        with suppress(Refusal, OSError):
            run = find_run(runs, run_id)
            if run.id == run_id and run.state != "running":
                yield pid, run_id


@contextmanager
def reading(path: Path) -> Generator[None]:
    """Read what need not be there; raises `Refusal` where it is, and can't be read."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as error:
        message = f"{path} can't be read: {error.strerror or error}."
        raise Refusal(ErrorCode.SUBAGENT_FAILED, message) from None


def run_folders(runs: Path) -> Iterator[Path]:
    """Yield the folders of all runs, in no order; raises `Refusal` where they are closed."""
    with reading(runs), os.scandir(runs) as entries:
        for entry in entries:
            if len(entry.name) == 8 and entry.is_dir(follow_symlinks=False):
                yield Path(entry.path)


def read_run(folder: Path) -> RecordedRun:
    """Return the run in a folder; raises `FileNotFoundError` where it is gone."""
    running, opening, end = _bounds(folder)
    known = _known(folder, opening, end)
    if running:
        return RecordedRun(folder, "running", known)
    if {"outcome", "bytes"} <= known.keys() and not _changed(folder, known["bytes"]):
        return RecordedRun(folder, known["outcome"], known, known.get("recordProblem"))
    return _read_closely(folder, opening, end)


def _read_closely(folder: Path, opening: Json, end: Json) -> RecordedRun:
    """Return a run that broke off, or whose record isn't as it was written."""
    details, parts = Json(), dict[str, str]()
    try:
        results = as_list(member(_result(folder).get("details"), "results"))
        details = {"outcome": "failed", **as_object(next(iter(results), None))}
        if not end:
            parts[SESSION] = "it doesn't say how the run ended"
    except (OSError, ValueError, RecursionError) as error:
        if end or not isinstance(error, FileNotFoundError):
            parts[RESULT] = getattr(error, "strerror", None) or "it isn't what was written"
    known = _known(folder, opening, end, details)
    parts = {**_changed(folder, known.get("bytes", {})), **parts}
    problem = known.get("recordProblem") or _incomplete(parts)
    return RecordedRun(folder, known.get("outcome", "interrupted"), known, problem)


def _bounds(folder: Path) -> tuple[bool, Json, Json]:
    """Return whether a run is running, and the first and the last event of its parent."""
    try:
        with open(f"{folder}/{SESSION}", "rb") as session:
            running = not _lock(session, fcntl.LOCK_SH)  # first: a run is unlocked at its end
            fcntl.flock(session, fcntl.LOCK_UN)  # at once: others would take it for a running one
            first, size, last = session.readline(), session.seek(0, os.SEEK_END), b""
            for room in (MAX_END_BYTES, MAX_LONG_END_BYTES):
                session.seek(max(0, size - room))
                _, newline, last = session.read().rstrip().rpartition(b"\n")
                if newline:
                    break
    except OSError:
        return False, {}, {}
    end = jsonl.decoded_object(last)
    return running, jsonl.decoded_object(first), end if end.get("type") == "end" else {}


def _lock(session: BinaryIO, kind: int) -> bool:
    """Take a run's lock, unless another process has it; return which."""
    try:
        fcntl.flock(session, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _known(folder: Path, opening: Json, end: Json, details: Json | None = None) -> Json:
    known = {**opening, **end, "durationMs": end.get("at"), **(details or {})}
    task = str(known.get("task", "")).strip()[:MAX_TASK_SHOWN]
    known["task"] = task.splitlines()[0] if task else ""
    if not isinstance(known.get("startedAt"), float):
        known["startedAt"] = os.stat(folder).st_mtime
    return {name: known[name] for name, kind in _KNOWN.items() if isinstance(known.get(name), kind)}


def _changed(folder: Path, sizes: Json) -> dict[str, str]:
    """Return which files aren't of the size that they were written with, and why."""
    parts: dict[str, str] = {}
    for name in (name for name in (OUTPUT, RESULT) if name in sizes):
        try:
            if (size := os.stat(f"{folder}/{name}").st_size) != sizes[name]:
                parts[name] = f"it has {size} bytes instead of {sizes[name]}"
        except OSError as error:
            parts[name] = error.strerror or str(error)
    return parts


def _result(folder: Path) -> Json:
    """Return the whole result; raises `OSError` and `ValueError`."""
    if not (result := as_object(jsonl.decode((folder / RESULT).read_bytes()))):
        raise ValueError(f"{RESULT} isn't an object")
    return result
