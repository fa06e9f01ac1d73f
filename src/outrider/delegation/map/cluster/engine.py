"""The engine that runs the items of a map on the nodes of a Ray cluster.

Ray starts, watches and ends the actors, and repeats nothing. A node is lost when Ray says so, or
when it doesn't answer: its actor is killed, and what it had is given back to the map, whose journal
decides.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from outrider.delegation.landing import landed_later
from outrider.delegation.map.cluster.connection import connected
from outrider.delegation.map.cluster.files import File, packed
from outrider.delegation.map.cluster.node import NodeActor, Told, broken, versions
from outrider.delegation.map.cluster.records import Spelled, arrived, spelled
from outrider.delegation.map.engine import MAX_TASK, REFUSED, MapRow, News, Order, all_there
from outrider.delegation.perform import Caller
from outrider.delegation.preparation import Prepared, prepare
from outrider.delegation.request import invalid
from outrider.models.resolution import is_embedded
from outrider.processes.threads import in_thread
from outrider.protocol.errors import ErrorCode, Refusal
from outrider.protocol.outcomes import Outcome
from outrider.protocol.results import ErrorInfo
from outrider.settings.places import project_root
from outrider.workspaces.layers.user_git import UserGit

READY_SECONDS, ANSWER_SECONDS, CANCEL_SECONDS = 120.0, 15.0, 4.0
MAX_LOST = 3
"""How many nodes may be lost with an item; then it is the item that is at fault."""


@dataclass(slots=True, eq=False)
class ClusterNode:
    """One node: its actor, how many orders it takes at once, and those that it has."""

    name: str
    actor: Any
    places: int
    paths: Spelled = ("", "", "")
    orders: dict[str, Order] = field(default_factory=dict[str, Order])


async def nodes_of(ray: Any) -> list[ClusterNode]:
    """Return a new actor on each node that has places."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    found: list[ClusterNode] = []
    for one in await in_thread(ray.nodes)():
        has, number = one["Resources"], one["NodeID"]
        places = int(has.get("outrider", has.get("CPU", 0)))
        if one["Alive"] and places:
            there = NodeAffinitySchedulingStrategy(number, soft=False)
            lives = {"max_restarts": 0, "max_task_retries": 0, "max_concurrency": 10_000}
            made = ray.remote(NodeActor).options(num_cpus=0, scheduling_strategy=there, **lives)
            name = f"{one['NodeManagerAddress']}/{number[:6]}"
            found.append(ClusterNode(name, made.remote(number[:12], places), places))
    return found


async def other_version(node: ClusterNode) -> str:
    """Return in words how a node's versions differ from those here."""
    theirs, own = await node.actor.versions.remote(), versions()
    other = [one for one in own if theirs[one] != own[one]]
    words = (f"{one} {theirs[one]} instead of {own[one]}" for one in other)
    return f"it has {', '.join(words)}" if other else ""


async def described(on: str) -> list[dict[str, Any]]:
    """Return what each node of a cluster has, for doctor; raises `Refusal`."""
    ray, is_ours = await connected(on)

    async def one(node: ClusterNode) -> dict[str, Any]:
        told: dict[str, Any] = {"name": node.name, "places": node.places, "problem": ""}
        try:
            async with asyncio.timeout(READY_SECONDS):
                told["problem"] = await other_version(node)
                return told | (await node.actor.about.remote())
        except Exception as error:
            return {**told, "problem": told["problem"] or _words(error)}

    try:
        return list(await asyncio.gather(*map(one, await nodes_of(ray))))
    finally:
        if is_ours:
            await in_thread(ray.shutdown)()


class ClusterEngine:
    """Runs orders on the nodes of a cluster."""

    def __init__(self, prepared: Prepared, caller: Caller, say: Callable[[str], object]) -> None:
        """`say` is told of nodes that can't be used, and of those that are lost."""
        self._prepared, self._caller, self._say = prepared, caller, say
        folder = prepared.project.folder
        self._root = project_root(folder, caller.env) or folder
        self._here = spelled(self._root, caller.env)
        self._ray: Any = None
        self._is_ours = False
        self.nodes: list[ClusterNode] = []
        self._news: asyncio.Queue[News] = asyncio.Queue()
        self._losses: Counter[str] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()
        self._landing = asyncio.Lock()

    @property
    def places(self) -> int:
        """How many orders run at once on all nodes."""
        return sum(node.places for node in self.nodes)

    async def join(self, on: str, flags: Mapping[str, Any], include: Iterable[str]) -> None:
        """Connect, send the folder, and find out which nodes can be used; raises `Refusal`."""
        self._ray, self._is_ours = await connected(on)
        try:
            git = UserGit(self._root, self._caller.env)
            parcel = await in_thread(packed)(self._root, include, git)
            sent = await in_thread(self._ray.put)(parcel)
            trial = self._order(Order("", 0, self._prepared.request, flags), self._prepared)
            found = await nodes_of(self._ray)
            ready = (_readied(node, parcel.digest, parcel.name, sent, trial) for node in found)
            self._choose(found, await asyncio.gather(*ready))
        except BaseException:
            await self.close()
            raise
        for node in self.nodes:
            self._spawn(self._listen(node))

    def _choose(self, found: list[ClusterNode], answers: list[tuple[str, str]]) -> None:
        """Keep the nodes that can be used, and name the others; raises `Refusal` for none."""
        has_key = any(model and not is_embedded(model) for model, _ in answers)
        problems: list[str] = []
        for node, (model, problem) in zip(found, answers, strict=True):
            if not problem and has_key and is_embedded(model):
                problem = "it has no key for a model"
            if problem:
                problems.append(f"{node.name} gets no item: {problem}")
                self._say(problems[-1])
                self._kill(node)
            else:
                self.nodes.append(node)
        if not self.nodes:
            raise invalid(f"No node of the cluster can be used. {' '.join(problems[:3])}")

    async def start(self, order: Order) -> None:
        """Begin with an order, on the node that has most places free."""
        env, confirm = self._caller.env, self._caller.confirm
        try:
            prepared = await prepare(order.request, env=env, flags=order.flags, confirm=confirm)
            travelling = self._order(order, prepared)
        except Refusal as refusal:
            return self._end(order, REFUSED, refusal.message, refusal.code)
        except Exception as error:  # each order leads to a row
            return self._end(order, Outcome.FAILED, f"It broke: {error!r}")
        if not self.nodes:
            return self._end(order, REFUSED, "No node of the cluster is left.")
        node = max(self.nodes, key=lambda one: one.places - len(one.orders))
        node.orders[order.key] = travelling
        return self._spawn(self._hand_over(node, travelling))

    def _order(self, order: Order, prepared: Prepared) -> Order:
        """Return an order as it travels: with the agent itself, and what it may do."""
        permit, definition, choice = prepared.permit, prepared.definition, prepared.choice
        folder = prepared.project.folder
        if not folder.is_relative_to(self._root):
            raise invalid(f"{folder} isn't in {self._root}, the folder that the nodes get.")
        if not (permit.readonly or prepared.is_layered):
            advice = "Set subagents.isolation to auto."
            raise invalid(f"On a cluster, {definition.name} can't change files in place. {advice}")
        flags = dict(order.flags)
        if not permit.readonly:
            allowed = {"allowWrite": True, "isolation": permit.isolation}
            flags |= {f"subagents.{name}": value for name, value in allowed.items()}
        if prepared.project.trusted or not permit.readonly:
            flags["subagents.trustedProjects"] = [str(self._root)]
        model = order.request.model
        if not (model or definition.model or choice.variables or is_embedded(choice.model)):
            model = choice.model
        request = replace(
            order.request,
            output_schema=prepared.schema,
            model=model,
            cwd=str(folder.relative_to(self._root)),
            check=prepared.check,
            definition=replace(definition, output_schema=None, check=None),
            elsewhere=False,
        )
        return replace(order, request=request, flags=flags)

    async def _hand_over(self, node: ClusterNode, order: Order) -> None:
        """Start an order on its node."""
        try:
            await node.actor.start.remote(order)
        except self._ray.exceptions.RayActorError as error:
            self._lose(node, _words(error))
        except Exception as error:  # of the order itself: another node would do no better
            if node.orders.pop(order.key, None):
                why = f"It can't be started on {node.name}: {_words(error)}"
                self._end(order, Outcome.FAILED, why)

    async def _listen(self, node: ClusterNode) -> None:
        """Take in what a node says, also what comes too late, until its actor is gone."""
        asked = asyncio.Future[list[Told]]()
        try:
            while True:
                asked = asyncio.ensure_future(node.actor.wait.remote())
                while not (await asyncio.wait({asked}, timeout=ANSWER_SECONDS))[0]:
                    if not await _answers(node):
                        self._lose(node, "it doesn't answer")
                for news, record in asked.result():
                    await self._take(node, news, record)
        except Exception as error:
            self._lose(node, _words(error))
        finally:
            asked.cancel()

    async def _take(self, node: ClusterNode, news: News, record: list[File]) -> None:
        """Pass a piece of news on, when the record of a run that has ended is here."""
        row = news.row
        if row and news.key in node.orders:
            if row.has_no_room and row.error:
                self._lose(node, row.error.message)
                return
            del node.orders[news.key]
            try:
                async with self._landing:
                    row = await in_thread(self._keep)(row, record, node) if record else row
            except Exception as error:  # each order leads to a row
                row = broken(row, f"its record can't be kept here: {error}")
        self._news.put_nowait(replace(news, row=row))

    def _keep(self, row: MapRow, record: Any, node: ClusterNode) -> MapRow:
        """Keep a run's record, and land what it changed where the user wants no review."""
        row, run = arrived(row, record, node.paths, self._here)
        if row.completed:
            landed_later(run, self._prepared.project)
        return row

    def _lose(self, node: ClusterNode, why: str) -> None:
        """Give back what a node had, and end what is left of it there."""
        if node not in self.nodes:
            return
        self.nodes.remove(node)
        self._say(f"{node.name} is lost: {why}")
        self._kill(node)
        orders, node.orders = node.orders, {}
        for order in orders.values():
            self._losses[order.key] += 1
            if self._losses[order.key] < MAX_LOST:
                self._news.put_nowait(News(order.key, order.attempt, is_lost=True))
            else:
                why = f"Its node was lost {MAX_LOST} times while it ran."
                self._end(order, Outcome.FAILED, why)

    def _kill(self, node: ClusterNode) -> None:
        with suppress(Exception):  # Ray's, where it is gone already
            self._ray.kill(node.actor)

    def _end(
        self, order: Order, outcome: str, why: str, code: ErrorCode = ErrorCode.SUBAGENT_FAILED
    ) -> None:
        task = order.request.task[:MAX_TASK]
        row = MapRow(order.key, outcome, task, error=ErrorInfo(code, why))
        self._news.put_nowait(News(order.key, order.attempt, row=row))

    async def wait(self) -> list[News]:
        """Return what has happened."""
        return await all_there(self._news)

    async def cancel(self, key: str) -> None:
        """End an order; on a node that doesn't answer it ends with the actor."""
        for node in self.nodes:
            if order := node.orders.get(key):
                node.actor.cancel.remote(key)
                later = asyncio.get_running_loop().call_later
                later(CANCEL_SECONDS, self._lose_with, node, order)

    def _lose_with(self, node: ClusterNode, order: Order) -> None:
        if node.orders.get(order.key) is order:
            self._lose(node, "it didn't end what was cancelled")

    async def close(self) -> None:
        """Let go of the cluster; with the actors ends what is left on the nodes."""
        for task in self._tasks:
            task.cancel()
        for node in self.nodes:
            self._kill(node)
        if self._is_ours:
            await in_thread(self._ray.shutdown)()

    def _spawn(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _readied(
    node: ClusterNode, digest: str, name: str, sent: Any, trial: Order
) -> tuple[str, str]:
    """Get a node ready; return the model that answers there, or why it can't be used."""
    try:
        async with asyncio.timeout(READY_SECONDS):
            if problem := await other_version(node):
                return "", problem
            node.paths = await node.actor.open.remote(digest, name, [sent])
            return await node.actor.model_for.remote(trial)
    except TimeoutError:
        return "", f"it wasn't ready within {READY_SECONDS:.0f} seconds"
    except Exception as error:  # Ray's, and those of a node that lacks Outrider
        return "", _words(error)


async def _answers(node: ClusterNode) -> bool:
    with suppress(TimeoutError):
        async with asyncio.timeout(ANSWER_SECONDS):
            return bool(await node.actor.versions.remote())
    return False


def _words(error: Exception) -> str:
    """Return what Ray says went wrong, without the trace."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[-1] if lines[0].startswith("\x1b") else lines[0]
