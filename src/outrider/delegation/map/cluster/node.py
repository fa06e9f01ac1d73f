"""What runs on a node: an actor with ordinary delegation in it, for one map.

The node's own environment and settings count, and its keys never leave it. All children are
started in the actor's event loop, whose thread lives as long as the actor.
"""

import asyncio
import logging
import os
import platform
import threading
import time
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from outrider import __version__
from outrider.delegation.map.cluster.files import File, Parcel, held_folder, unpack
from outrider.delegation.map.cluster.records import Spelled, packed_run, spelled
from outrider.delegation.map.engine import LocalEngine, MapRow, News, Order
from outrider.delegation.perform import Caller
from outrider.delegation.preparation import prepare
from outrider.delegation.project import open_project
from outrider.delegation.user_admission import free_places, user_place
from outrider.models.known_providers import PROVIDERS
from outrider.processes.confinement import missing_in_cells
from outrider.processes.threads import in_thread
from outrider.protocol.errors import ErrorCode, Refusal
from outrider.protocol.results import ErrorInfo
from outrider.records.runs import delete_run
from outrider.settings.places import home, runs_folder, state_home

HEARTBEAT_SECONDS = 3.0
"""How often the actor says that it is there, where nothing else is to be said."""
LEASE_SECONDS = 60.0
"""How long it works for a caller who asks for nothing."""
log = logging.getLogger("outrider")
Told = tuple[News, list[File]]


def versions() -> dict[str, str]:
    """Return what has to be the same on all machines."""
    import ray  # here only: whoever uses no cluster needs none

    python = ".".join(platform.python_version_tuple()[:2])
    return {"Outrider": __version__, "Python": python, "Ray": ray.__version__}


class NodeActor:
    """A map's actor on one node."""

    def __init__(self, name: str, places: int) -> None:
        self._home, self._places = state_home(os.environ) / "cluster", places
        env = {**os.environ, "OUTRIDER_HOME": str(self._home)}
        self._places_folder = self._home / f"places-{name}"
        self._caller = Caller(env, place=partial(user_place, self._places_folder))
        self._engine = LocalEngine(self._caller)
        self._told: list[Told] = []
        self._first = 0
        self._changed = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._asked = time.monotonic()

    async def versions(self) -> dict[str, str]:
        """Return what has to be the same on all machines."""
        return versions()

    async def about(self) -> dict[str, Any]:
        """Return what doctor tells of this node; of its keys only the names."""
        env = self._caller.env
        keys = sorted({key for one in PROVIDERS.values() for key in one.keys if env.get(key)})
        walls = await in_thread(missing_in_cells)()
        free = free_places(self._places_folder, self._places)
        model = open_project(home(env), env).choice().shown
        return {"model": model, "keys": keys, "missing": list(walls), "free": free}

    async def has(self, digest: str) -> bool:
        """Hold a folder for the map; return whether it is here already."""
        self._held = await in_thread(held_folder)(digest, self._home / "folders")
        return (self._home / "folders" / digest).exists()

    async def open(self, digest: str, name: str, parcel: Parcel | None) -> Spelled:
        """Unpack the folder, unless it is here; return how this node's paths are spelled."""
        folders = self._home / "folders"
        self._folder = folders / digest / name
        if parcel:
            await in_thread(unpack)(parcel, folders)
        return spelled(self._folder, self._caller.env)

    async def model_for(self, order: Order) -> tuple[str, str | None]:
        """Return the model that answers for an agent here, or why none does."""
        order = self._at_home(order)
        try:
            prepared = await prepare(order.request, env=self._caller.env, flags=order.flags)
        except Refusal as refusal:
            return "", refusal.message
        return prepared.choice.shown, None

    def _at_home(self, order: Order) -> Order:
        """Return an order as this node carries it out; whatever lands, lands at the caller."""
        own = {"subagents.maxConcurrent": self._places, "subagents.land": "review"}
        flags = {**order.flags, **own}
        if flags.get("subagents.trustedProjects"):
            flags["subagents.trustedProjects"] = [str(self._folder)]
        cwd = str(self._folder / (order.request.cwd or "."))
        return replace(order, request=replace(order.request, cwd=cwd), flags=flags)

    async def start(self, order: Order) -> None:
        """Begin with an order."""
        if not self._tasks:
            self._tasks = [asyncio.create_task(one()) for one in (self._listen, self._guard)]
        await self._engine.start(self._at_home(order))

    async def cancel(self, key: str) -> None:
        """End an order; its row still comes."""
        await self._engine.cancel(key)

    async def wait(self, seen: int) -> tuple[int, list[Told], list[str]]:
        """Return what there is to tell beyond the first `seen` pieces of news, and its number.

        Also the keys of what is at work.

        What was seen is forgotten here, also the records: they are with the caller.
        """
        self._asked = time.monotonic()
        done, self._told = self._told[: seen - self._first], self._told[seen - self._first :]
        self._first = seen
        runs = runs_folder(self._caller.env)
        ids = [news.row.run_id for news, _ in done if news.row and news.row.run_id]
        if ids:  # not waited for: there may be more to tell
            threading.Thread(target=lambda: [delete_run(runs / one) for one in ids]).start()
        if not self._told:
            self._changed.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(HEARTBEAT_SECONDS):
                    await self._changed.wait()
        return self._first, list(self._told), self._engine.at_work

    async def _guard(self) -> None:
        """End with all children where the caller has been gone for long, or the way to it is."""
        while time.monotonic() < self._asked + LEASE_SECONDS:
            await asyncio.sleep(1)
        os._exit(1)

    async def _listen(self) -> None:
        while True:
            for news in await self._engine.wait():
                told = await self._with_record(news)
                self._told.append(told)  # not before: `wait` may have begun another list
                self._changed.set()

    async def _with_record(self, news: News) -> Told:
        """Return news with the record of a run that has ended."""
        if news.row is None or news.row.run_id is None:
            return news, []
        run: Path = runs_folder(self._caller.env) / news.row.run_id
        try:
            return news, await in_thread(packed_run)(run)
        except Exception as error:  # an order always leads to a row
            log.exception("the record of a run can't be packed")
            return replace(news, row=broken(news.row, f"its record stays at {run}: {error}")), []


def broken(row: MapRow, why: Any) -> MapRow:
    """Return a row that says what went wrong with it here."""
    error = ErrorInfo(ErrorCode.SUBAGENT_FAILED, f"The run ended as {row.outcome}, but {why}.")
    return replace(row, outcome="failed", error=error)
