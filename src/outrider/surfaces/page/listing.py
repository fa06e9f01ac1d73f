"""The list of all runs and maps: rows that are read again when what they tell of changes."""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress

from outrider.delegation.map.journal import maps_folder
from outrider.processes.shielding import finish
from outrider.records import runs as records
from outrider.settings.places import runs_folder
from outrider.surfaces.page import maps, runs
from outrider.surfaces.page.runs import Json

LOOK_EVERY_SECONDS = 1.0
MAX_READ_AT_ONCE = 500


class Listing:
    """The rows of all runs and maps, for all who look at them."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env, self._runs, self._maps = env, runs_folder(env), maps_folder(env)
        self._rows: dict[str, tuple[int, int, Json]] = {}
        """Of each: when its folder or file changed, the version its row came with, its row."""
        self._version = 0
        self._looking = asyncio.Lock()

    async def news(self, seen: int) -> AsyncIterator[tuple[list[Json], int]]:
        """Yield the rows that are new since a version, then those that change, each with theirs."""
        while True:
            async with self._looking:
                left = await finish(asyncio.to_thread(self._look))
            rows = [row for _, version, row in self._rows.values() if version > seen]
            seen = self._version
            yield rows, seen
            await asyncio.sleep(0 if left else LOOK_EVERY_SECONDS)

    def _look(self) -> int:
        """Read what has changed, the newest first and not too many; return how many are left.

        What is running changes all the time; of all else the folder does when anything does.
        """
        self._version += 1
        found: dict[str, int] = {}  # also before the first run
        with records.reading(self._runs), os.scandir(self._runs) as entries:
            folders = (
                one for one in entries if len(one.name) == 8 and one.is_dir(follow_symlinks=False)
            )
            found = {one.name: one.stat().st_mtime_ns for one in folders}
        journals = (path for path in self._maps.glob("*.jsonl") if path.is_file())
        found |= {path.name: path.stat().st_mtime_ns for path in journals}
        for name in self._rows.keys() - found.keys():
            self._note(name, 0, {"runId": name.removesuffix(".jsonl"), "state": "gone"})
        stale = [name for name, stamp in found.items() if self._is_stale(name, stamp)]
        stale.sort(key=lambda name: -found[name])
        for name in stale[:MAX_READ_AT_ONCE]:
            with suppress(FileNotFoundError):  # just deleted
                self._note(name, found[name], self._read(name))
        return len(stale[MAX_READ_AT_ONCE:])

    def _read(self, name: str) -> Json:
        if name.endswith(".jsonl"):
            return maps.row_of_map(self._maps / name, self._env)
        return runs.row_of(records.read_run(self._runs / name))

    def _is_stale(self, name: str, stamp: int) -> bool:
        before, _, row = self._rows.get(name, (0, 0, Json()))
        return stamp != before or row["state"] == "running"

    def _note(self, name: str, stamp: int, row: Json) -> None:
        _, version, known = self._rows.get(name, (0, 0, None))
        self._rows[name] = (stamp, version if row == known else self._version, row)
