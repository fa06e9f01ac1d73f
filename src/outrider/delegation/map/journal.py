"""The journal of a map: a file that only grows, with a JSON object on each line.

`start` says that an attempt at an item begins, and whether it may be made `again` if its end isn't
known; with `part` what it may use, if it is on another machine; `run` which run it is; `back` that
it is over without a result, and what it has used; `end` how the item ended. Nobody gets a row
before it is on the disk. A last line that was cut is dropped. The lock on the file keeps a second
map away, and goes with its holder.

For those who watch there are also `call` (a map begins with so many items, if that is known),
`refused` (an item that can't be one), `stop`, and on each line its time.
"""

import asyncio
import errno
import fcntl
import hashlib
import os
import stat
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from outrider.delegation.map.engine import MapRow
from outrider.delegation.map.purse import Money, added
from outrider.delegation.request import invalid
from outrider.protocol import jsonl
from outrider.protocol.data import from_json, member
from outrider.protocol.errors import OutriderError
from outrider.protocol.usage import Usage
from outrider.settings.places import state_home

KEPT_SECONDS = 30 * 86_400
"""How long a journal is kept that nobody named, after its last line."""
_OPEN = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
_MARK = b'{"outriderMap":1'


def journal_path(env: Mapping[str, str], identity: Any = None) -> Path:
    """Return the journal of the map with this identity, a new one without; old ones are removed."""
    name = hashlib.sha256(jsonl.encode(identity)).digest() if identity else os.urandom(8)
    folder = maps_folder(env)
    for path in folder.glob("*.jsonl"):
        with suppress(OSError):
            if time.time() - path.lstat().st_mtime > KEPT_SECONDS:
                path.unlink()
    return folder / f"{name.hex()[:16]}.jsonl"


def maps_folder(env: Mapping[str, str]) -> Path:
    """Return the folder with the journals of all maps, or links to them."""
    return state_home(env) / "maps"


def listed(path: Path, env: Mapping[str, str]) -> None:
    """Let a journal that has a place of its own be found among the others."""
    place, folder = os.path.realpath(path), maps_folder(env)
    with suppress(OSError):  # the map goes on without
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not os.path.samefile(os.path.dirname(place), folder):
            journal_path(env, place).symlink_to(place)


class JournalLost(OutriderError):
    """A journal that takes no more: its disk is full, say."""


@dataclass(slots=True)
class Entry:
    """What is known of an item: its last attempt, how that ended, and where the row stands."""

    attempt: int = 0
    again: bool = True
    run_id: str | None = None
    outcome: str | None = None
    place: tuple[int, int] = (0, 0)
    part: Usage = field(default_factory=Usage)
    """What it may have used on another machine, of which nothing else is known."""


class Journal:
    """An open journal."""

    def __init__(self, path: Path, about: Mapping[str, Any]) -> None:
        """`about` says what the map is; raises `Refusal` where the file can't be its journal."""
        self.path, self._size = path, 0
        self.spent: Money = (0.0, 0.0)
        self.about: Mapping[str, Any] = {}
        self.entries: dict[str, Entry] = {}
        with ExitStack() as held:
            try:
                with suppress(FileExistsError):  # to open the file tells more than this would
                    path.parent.mkdir(mode=0o700, parents=True)
                self._file = os.open(path, _OPEN, 0o600)
                held.callback(os.close, self._file)
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._read()
            except BlockingIOError:
                advice = "Wait for it, or name another journal."
                raise invalid(f"Another map is at work on the journal {path}. {advice}") from None
            except OSError as error:
                why = f"The journal {path} can't be used: {error.strerror}."
                raise invalid(f"{why} Name another one with --journal.") from None
            if not self.about:
                self.add({"outriderMap": 1, **about})
            self._held = held.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()

    def _read(self) -> None:
        """Take in all lines that are whole, and cut off the rest."""
        if not stat.S_ISREG(os.fstat(self._file).st_mode):
            raise OSError(errno.EINVAL, "Not a regular file")  # it may have no end
        with open(self._file, "rb", closefd=False) as lines:
            for line in lines:
                if not self._size and not (_MARK.startswith(line) or line.startswith(_MARK)):
                    raise invalid(f"{self.path} isn't the journal of a map, and was left alone.")
                if line.endswith(b"\n"):  # without JSON, where a disk lost what it had taken
                    self._take(jsonl.decoded_object(line), len(line))
        os.ftruncate(self._file, self._size)

    def _take(self, data: dict[str, Any], size: int) -> None:
        place = self._size, size
        self._size += size
        match data:
            case {"outriderMap": _}:
                self.about = data
            case {"start": str(key), "attempt": int(attempt), "again": bool(again)}:
                self.entries[key] = Entry(attempt, again)
                with suppress(ValueError):
                    self.entries[key].part = from_json(Usage, data.get("part", {}))
            case {"run": str(key), "runId": str(run_id)} if key in self.entries:
                self.entries[key].run_id = run_id
            case {"back": str(key), "usage": dict()} if key in self.entries:
                again = data.get("again") is not False
                self.entries[key] = Entry(self.entries[key].attempt, again)
                self.spent = _with(self.spent, data)
            case {"end": str(key), "row": {"outcome": str(outcome)} as row} if key in self.entries:
                self.entries[key].outcome, self.entries[key].place = outcome, place
                self.spent = _with(self.spent, row)
            case _:
                pass

    def entry(self, key: str) -> Entry:
        """Return what is known of an item."""
        return self.entries.get(key) or Entry()

    def row(self, key: str) -> MapRow:
        """Return the recorded row of an item."""
        start, size = self.entries[key].place
        return from_json(MapRow, member(jsonl.decode(os.pread(self._file, size, start)), "row"))

    def add(self, data: dict[str, Any]) -> None:
        """Add a line; it counts when `sync` has returned. Raises `JournalLost`."""
        rest = line = jsonl.encode({**data, "at": round(time.time(), 3)}) + b"\n"
        try:
            while rest:
                rest = rest[os.write(self._file, rest) :]
        except OSError as error:
            with suppress(OSError):  # half a line would spoil the next one
                os.ftruncate(self._file, self._size)
            raise self._lost(error) from error
        self._take(data, len(line))

    async def sync(self) -> None:
        """Return when all that was added is on the disk; raises `JournalLost`."""
        try:
            await asyncio.get_running_loop().run_in_executor(None, os.fdatasync, self._file)
        except OSError as error:
            raise self._lost(error) from error

    def _lost(self, error: OSError) -> JournalLost:
        return JournalLost(f"the journal {self.path} can't be written: {error.strerror}")


def _with(spent: Money, data: Mapping[str, Any]) -> Money:
    with suppress(ValueError):
        return added(spent, from_json(Usage, data.get("usage")))
    return spent
