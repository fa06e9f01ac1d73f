"""What runs on a node: an actor with ordinary delegation in it, for one map.

The node's own environment and settings count, and its keys never leave it. All children are
started in the actor's event loop, whose thread lives as long as the actor.
"""

import asyncio
import logging
import os
import platform
import time
from dataclasses import replace
from functools import partial
from typing import Any

from outrider import __version__
from outrider.delegation.map.cluster.files import File, held_folder, unpack
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

LEASE_SECONDS = 45.0
"""How long an actor works for a caller it doesn't hear of: Ray notices no link that is cut."""
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
        self._heard, self._guarding = time.monotonic(), None

    async def versions(self) -> dict[str, str]:
        """Return what has to be the same on all machines; also says that both are there."""
        self._heard = time.monotonic()
        return versions()

    async def about(self) -> dict[str, Any]:
        """Return what doctor tells of this node; of its keys only the names."""
        env = self._caller.env
        keys = sorted({key for one in PROVIDERS.values() for key in one.keys if env.get(key)})
        walls = await in_thread(missing_in_cells)()
        free = free_places(self._places_folder, self._places)
        model = open_project(home(env), env).choice().shown
        return {"model": model, "keys": keys, "missing": list(walls), "free": free}

    async def open(self, digest: str, name: str, sent: list[Any]) -> Spelled:
        """Unpack the folder, unless it is here; return how this node's paths are spelled.

        `sent` has Ray's reference to the parcel, which is fetched only where it is needed.
        """
        folders = self._home / "folders"
        self._held = await in_thread(held_folder)(digest, folders)
        self._folder = folders / digest / name
        if not self._folder.exists():
            await in_thread(unpack)(await sent[0], folders)
        return spelled(self._folder, self._caller.env)

    async def model_for(self, order: Order) -> tuple[str, str]:
        """Return the model that answers for an agent here, or why none does."""
        order = self._at_home(order)
        try:
            prepared = await prepare(order.request, env=self._caller.env, flags=order.flags)
        except Refusal as refusal:
            return "", refusal.message
        return prepared.choice.shown, ""

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
        await self._engine.start(self._at_home(order))

    async def cancel(self, key: str) -> None:
        """End an order; its row still comes."""
        await self._engine.cancel(key)

    async def wait(self) -> list[Told]:
        """Return what has happened since the last call, with the records of what has ended."""
        self._heard = time.monotonic()
        self._guarding = self._guarding or asyncio.create_task(self._guard())
        return await asyncio.gather(*map(self._with_record, await self._engine.wait()))

    async def _guard(self) -> None:
        """End with all children where the caller has been gone for long, or the way to it is."""
        while time.monotonic() < self._heard + LEASE_SECONDS:
            await asyncio.sleep(1)
        os._exit(1)

    async def _with_record(self, news: News) -> Told:
        """Return news with the record of a run that has ended, which isn't kept here."""
        if news.row is None or news.row.run_id is None:
            return news, []
        run = runs_folder(self._caller.env) / news.row.run_id
        try:
            record = await in_thread(packed_run)(run)
        except Exception as error:  # an order always leads to a row
            log.exception("the record of a run can't be packed")
            return replace(news, row=broken(news.row, f"its record stays at {run}: {error}")), []
        await in_thread(delete_run)(run)
        return news, record


def broken(row: MapRow, why: Any) -> MapRow:
    """Return a row that says what went wrong with it here."""
    error = ErrorInfo(ErrorCode.SUBAGENT_FAILED, f"The run ended as {row.outcome}, but {why}.")
    return replace(row, outcome="failed", error=error)
