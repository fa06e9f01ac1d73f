"""The journal of a map: what was started and how it ended, in one file that only grows.

A line that says how an item ended is on the disk before anybody is told. A line that a crash has
cut is dropped. The kernel's lock on the file keeps a second map away, and goes with its holder.
"""

import fcntl
import hashlib
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from outrider.delegation.map.engine import REFUSED, MapRow
from outrider.delegation.map.purse import Money, added
from outrider.delegation.request import invalid
from outrider.processes.threads import in_thread
from outrider.protocol import jsonl
from outrider.protocol.data import as_object, from_json, member, to_json
from outrider.protocol.errors import OutriderError
from outrider.protocol.usage import Usage
from outrider.settings.places import state_home

MARK = "outriderMap"
_OPEN = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC


def journal_path(env: Mapping[str, str], identity: Any = None) -> Path:
    """Return where the journal of a map is that names none; a new one without an identity."""
    name = hashlib.sha256(jsonl.encode(identity)).hexdigest()[:16] if identity else ""
    return state_home(env) / "maps" / f"{name or os.urandom(8).hex()}.jsonl"


class JournalLost(OutriderError):
    """A journal that takes no more: its disk is full, say."""


@dataclass(slots=True)
class Entry:
    """What is known of an item: its last attempt, and where its result stands."""

    attempt: int = 0
    again: bool = True
    """Whether that attempt may be repeated, where its end isn't known."""
    run_id: str | None = None
    outcome: str | None = None
    place: tuple[int, int] = (0, 0)


class Journal:
    """The journal in a file, held open and locked."""

    def __init__(self, path: Path, about: Mapping[str, Any]) -> None:
        """`about` says what the map is; raises `Refusal` where the file can't be its journal."""
        self.path = path
        self.entries: dict[str, Entry] = {}
        self.spent: Money = (0.0, 0.0)
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._file = os.open(path, _OPEN, 0o600)
        except OSError as error:
            raise invalid(f"The journal {path} can't be opened: {error.strerror}.") from None
        try:
            self._lock()
            self.about = self._read()
            self._size = os.fstat(self._file).st_size
            if not self.about:
                self.about = {MARK: 1, **about}
                self._add(self.about)
        except BaseException:
            os.close(self._file)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._file)

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            advice = "Wait for it to end, or give this one another with --journal."
            raise invalid(f"Another map is at work on the journal {self.path}. {advice}") from None

    def _read(self) -> dict[str, Any]:
        """Take in all that the file says, drop a last line that was cut, and return the first."""
        about: dict[str, Any] = {}
        with os.fdopen(os.dup(self._file), "rb") as lines:
            lines.seek(end := 0)
            for line in lines:
                data: dict[str, Any] = {}
                with suppress(ValueError, RecursionError):
                    data = as_object(jsonl.decode(line)) if line.endswith(b"\n") else {}
                if end == 0 and MARK not in data:
                    if line.endswith(b"\n") or not line.startswith(b'{"' + MARK.encode()[:9]):
                        raise invalid(f"{self.path} isn't the journal of a map; it was left alone.")
                    break
                if not line.endswith(b"\n"):
                    break
                about = about or data
                with suppress(ValueError, TypeError, KeyError):
                    self._take(data, (end, len(line)))
                end += len(line)
        os.ftruncate(self._file, end)
        return about

    def _take(self, data: dict[str, Any], place: tuple[int, int]) -> None:
        match data:
            case {"start": str(key), "attempt": int(attempt), "again": bool(again)}:
                self.entries[key] = Entry(attempt, again)
            case {"run": str(key), "runId": str(run_id)}:
                self.entries[key].run_id = run_id
            case {"back": str(key), "usage": usage}:
                self.entries[key].again = True
                self.entries[key].run_id = None
                self.spent = added(self.spent, from_json(Usage, usage))
            case {"end": str(key), "row": {"outcome": str(outcome)} as row}:
                self.entries[key].outcome, self.entries[key].place = outcome, place
                self.spent = added(self.spent, from_json(Usage, row.get("usage", {})))
            case _:
                pass

    def result(self, key: str) -> str | None:
        """Return the recorded outcome of an item; None where it has to be run, or run again."""
        outcome = self.outcome(key)
        return None if outcome == REFUSED else outcome

    def outcome(self, key: str) -> str | None:
        """Return how the last attempt at an item ended; None for none, or one at work."""
        return self.entries[key].outcome if key in self.entries else None

    def may_run(self, key: str) -> bool:
        """Whether an item can be started, without doing twice what must not be done twice."""
        entry = self.entries.get(key, Entry())
        return entry.again or entry.outcome is not None

    def row(self, key: str) -> MapRow:
        """Return the recorded row of an item."""
        start, size = self.entries[key].place
        return from_json(MapRow, member(jsonl.decode(os.pread(self._file, size, start)), "row"))

    def add_start(self, key: str, *, again: bool) -> int:
        """Record that an item is started, and return which attempt that is."""
        attempt = self.entries.get(key, Entry()).attempt + 1
        self._add({"start": key, "attempt": attempt, "again": again})
        return attempt

    def add_run(self, key: str, run_id: str) -> None:
        """Record which run an item has."""
        self._add({"run": key, "runId": run_id})

    def add_back(self, key: str, usage: Usage) -> None:
        """Record that an attempt has brought nothing, and will be made again."""
        self._add({"back": key, "usage": to_json(usage)})

    def add_end(self, key: str, row: MapRow) -> None:
        """Record how an item ended; it counts when `sync` has returned."""
        self._add({"end": key, "attempt": self.entries[key].attempt, "row": to_json(row)})

    async def sync(self) -> None:
        """Return when all that was added is on the disk; raises `JournalLost`."""
        try:
            await in_thread(os.fdatasync)(self._file)
        except OSError as error:
            raise self._lost(error) from error

    def _add(self, data: dict[str, Any]) -> None:
        line = jsonl.encode(data) + b"\n"
        try:
            written = 0
            while written < len(line):
                written += os.write(self._file, line[written:])
        except OSError as error:
            with suppress(OSError):  # half a line would spoil the next one
                os.ftruncate(self._file, self._size)
            raise self._lost(error) from error
        self._take(data, (self._size, len(line)))
        self._size += len(line)

    def _lost(self, error: OSError) -> JournalLost:
        advice = "What it has is kept: free some space, and give the same command again."
        return JournalLost(f"The journal {self.path} can't be written: {error.strerror}. {advice}")
