"""The engine that runs the items of a map on the nodes of a Ray cluster.

Ray repeats nothing: an actor that is gone stays gone, and what it had is given back to the map,
whose journal decides. A node that is silent for long counts as lost; if it speaks again, what it
says of attempts that it has lost is dropped and told.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from outrider.delegation.landing import landed_later
from outrider.delegation.map.cluster.connection import connected
from outrider.delegation.map.cluster.files import packed
from outrider.delegation.map.cluster.node import NodeActor, Told, broken, versions
from outrider.delegation.map.cluster.records import Spelled, arrived, spelled
from outrider.delegation.map.engine import MAX_TASK, REFUSED, MapRow, News, Order, all_there
from outrider.delegation.perform import Caller
from outrider.delegation.preparation import Prepared, prepare
from outrider.delegation.project import Project
from outrider.delegation.request import invalid
from outrider.models.resolution import is_embedded
from outrider.processes.threads import in_thread
from outrider.protocol.errors import ErrorCode, Refusal
from outrider.protocol.outcomes import Outcome
from outrider.protocol.results import ErrorInfo
from outrider.settings.places import project_root
from outrider.workspaces.layers.user_git import UserGit

READY_SECONDS, SILENT_SECONDS, CANCEL_SECONDS = 120.0, 30.0, 4.0
MAX_LOST = 3
"""How many nodes may be lost with an item; then it is the item that is at fault."""
Say = Callable[[str], object]


@dataclass(slots=True)
class ClusterNode:
    """One node: its actor, how many orders it takes at once, and those that it has."""

    name: str
    actor: Any
    places: int
    paths: Spelled = ("", "", "")
    orders: dict[str, Order] = field(default_factory=dict[str, Order])
    late: set[tuple[str, int]] = field(default_factory=set[tuple[str, int]])
    """What it had when it was lost, and may still be at work on."""
    is_silent: bool = False


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

    def __init__(self, ray: Any, project: Project, caller: Caller, root: Path, say: Say) -> None:
        self._ray, self._caller, self._root, self._say = ray, caller, root, say
        self._project, self._is_ours = project, False
        self.nodes: list[ClusterNode] = []
        self._here = spelled(root, caller.env)
        self._news: asyncio.Queue[News] = asyncio.Queue()
        self._waiting: deque[Order] = deque()
        self._losses: Counter[str] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()
        self._landing = asyncio.Lock()

    @property
    def places(self) -> int:
        """How many orders run at once on all nodes."""
        return sum(node.places for node in self.nodes)

    @classmethod
    async def open(
        cls,
        on: str,
        prepared: Prepared,
        caller: Caller,
        flags: Mapping[str, Any],
        include: Iterable[str],
        say: Say,
    ) -> "ClusterEngine":
        """Connect, send the folder, and find out which nodes can be used; raises `Refusal`."""
        folder = prepared.project.folder
        root = project_root(folder, caller.env) or folder
        ray, is_ours = await connected(on)
        engine = cls(ray, prepared.project, caller, root, say)
        engine._is_ours = is_ours
        try:
            parcel = await in_thread(packed)(root, include, UserGit(root, caller.env))
            nodes = await nodes_of(ray)
            sent = await in_thread(ray.put)(parcel)
            trial = engine._order(Order("", 0, prepared.request, flags), prepared)
            ready = (engine._ready(node, parcel.digest, parcel.name, sent, trial) for node in nodes)
            answers = await asyncio.gather(*ready)
            engine._choose(nodes, answers)
        except BaseException:
            await engine.close()
            raise
        for node in engine.nodes:
            engine._spawn(engine._listen(node))
        return engine

    async def _ready(
        self, node: ClusterNode, digest: str, name: str, sent: Any, trial: Order
    ) -> tuple[str, str]:
        """Get a node ready; return the model that answers there, or why it can't be used."""
        try:
            async with asyncio.timeout(READY_SECONDS):
                if problem := await other_version(node):
                    return "", problem
                has_it = await node.actor.has.remote(digest)
                node.paths = await node.actor.open.remote(digest, name, None if has_it else sent)
                model, problem = await node.actor.model_for.remote(trial)
        except TimeoutError:
            return "", f"it wasn't ready within {READY_SECONDS:.0f} seconds"
        except Exception as error:  # Ray's, and those of a node that lacks Outrider
            return "", _words(error)
        return model, problem or ""

    def _choose(self, nodes: list[ClusterNode], answers: list[tuple[str, str]]) -> None:
        """Keep the nodes that can be used, and name the others; raises `Refusal` for none."""
        has_key = any(model and not is_embedded(model) for model, _ in answers)
        problems: list[str] = []
        for node, (model, problem) in zip(nodes, answers, strict=True):
            if not problem and has_key and is_embedded(model):
                problem = "it has no key for a model"
            if problem:
                problems.append(f"{node.name} gets no item: {problem}")
                self._say(problems[-1])
                self._ray.kill(node.actor)
            else:
                self.nodes.append(node)
        if not self.nodes:
            raise invalid(f"No node of the cluster can be used. {' '.join(problems[:3])}")

    async def start(self, order: Order) -> None:
        """Begin with an order, as soon as a node has a place for it."""
        env, confirm = self._caller.env, self._caller.confirm
        try:
            prepared = await prepare(order.request, env=env, flags=order.flags, confirm=confirm)
            self._waiting.append(self._order(order, prepared))
        except Refusal as refusal:
            self._end(order, REFUSED, refusal.message, refusal.code)
        except Exception as error:  # each order leads to a row
            self._end(order, Outcome.FAILED, f"It broke: {error!r}")
        self._assign()

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

    def _assign(self) -> None:
        """Hand orders to the nodes that have most places free."""
        while self._waiting:
            if not self.nodes:
                self._end(self._waiting.popleft(), REFUSED, "No node of the cluster is left.")
                continue
            node = max(self.nodes, key=_free)
            if _free(node) <= 0:
                return
            order = self._waiting.popleft()
            node.orders[order.key] = order
            self._spawn(self._hand_over(node, order))

    async def _hand_over(self, node: ClusterNode, order: Order) -> None:
        """Start an order on its node. Where that is in doubt, it counts as lost there."""
        actor_error = self._ray.exceptions.RayActorError
        try:
            await node.actor.start.remote(order)
        except actor_error:
            self._lose(node, [order])
        except Exception as error:  # of the order itself: another node would do no better
            if node.orders.pop(order.key, None):
                why = f"It can't be started on {node.name}: {_words(error)}"
                self._end(order, Outcome.FAILED, why)

    async def _listen(self, node: ClusterNode) -> None:
        """Take in what a node says, until it is gone for good."""
        seen, why = 0, ""
        while not why:
            asked = asyncio.ensure_future(node.actor.wait.remote(seen))
            try:
                while not (await asyncio.wait({asked}, timeout=SILENT_SECONDS))[0]:
                    if not node.is_silent:
                        node.is_silent = True
                        self._say(f"{node.name} doesn't answer: what it had counts as lost")
                        self._lose(node, list(node.orders.values()))
                first, told, at_work = asked.result()
            except self._ray.exceptions.ActorUnavailableError:
                await asyncio.sleep(1)
            except Exception as error:
                why = _words(error)
            else:
                for number, one in enumerate(told, first):
                    if number >= seen:
                        seen = number + 1
                        await self._take(node, one)
                self._is_heard(node, at_work)
            finally:
                asked.cancel()
        self.nodes.remove(node)
        self._say(f"{node.name} is lost: {why}")
        self._lose(node, list(node.orders.values()))

    def _is_heard(self, node: ClusterNode, at_work: Iterable[str]) -> None:
        """Take in that a node answers: it takes orders when it has ended all that were lost."""
        node.late = {one for one in node.late if one[0] in at_work}
        if node.is_silent:
            node.is_silent = False
            self._say(f"{node.name} answers again")
            for key, _ in node.late:
                node.actor.cancel.remote(key)
        self._assign()

    async def _take(self, node: ClusterNode, told: Told) -> None:
        """Take in a piece of news, with the record of a run that has ended."""
        news, record = told
        order = node.orders.get(news.key)
        if order is None or order.attempt != news.attempt:
            if news.row:
                self._say(f"a late result of {news.key} from {node.name} was dropped")
            return
        if news.row is None:
            self._news.put_nowait(news)
            return
        row = news.row
        if record:
            try:
                async with self._landing:
                    row = await in_thread(self._keep)(row, record, node)
            except Exception as error:  # each order leads to a row
                row = broken(row, f"its record can't be kept here: {error}")
        node.orders.pop(news.key, None)
        self._news.put_nowait(replace(news, row=row))

    def _keep(self, row: MapRow, record: Any, node: ClusterNode) -> MapRow:
        """Keep a run's record, and land what it changed where the user wants no review."""
        row, run = arrived(row, record, node.paths, self._here)
        if row.completed:
            landed_later(run, self._project)
        return row

    def _lose(self, node: ClusterNode, orders: Iterable[Order]) -> None:
        for order in orders:
            if node.orders.pop(order.key, None) is None:
                continue
            node.late.add((order.key, order.attempt))
            node.actor.cancel.remote(order.key)
            self._losses[order.key] += 1
            if self._losses[order.key] < MAX_LOST:
                self._news.put_nowait(News(order.key, order.attempt, is_lost=True))
            else:
                why = f"Its node was lost {MAX_LOST} times while it ran."
                self._end(order, Outcome.FAILED, why)
        self._assign()

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
        for order in [one for one in self._waiting if one.key == key]:
            self._waiting.remove(order)
            self._end(order, Outcome.CANCELLED, "It was cancelled.", ErrorCode.SUBAGENT_CANCELLED)
        for node in self.nodes:
            if order := node.orders.get(key):
                node.actor.cancel.remote(key)
                later = asyncio.get_running_loop().call_later
                later(CANCEL_SECONDS, self._lose, node, [order])

    async def close(self) -> None:
        """Let go of the cluster; with the actors ends what is left on the nodes."""
        for task in self._tasks:
            task.cancel()
        for node in self.nodes:
            with suppress(Exception):
                self._ray.kill(node.actor)
        if self._is_ours:
            await in_thread(self._ray.shutdown)()

    def _spawn(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _free(node: ClusterNode) -> int:
    return 0 if node.is_silent or node.late else node.places - len(node.orders)


def _words(error: Exception) -> str:
    """Return what Ray says went wrong, without the trace."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[-1] if lines[0].startswith("\x1b") else lines[0]
