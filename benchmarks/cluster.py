"""`python3 -m benchmarks.cluster`: what a second node brings, and what the way through Ray costs.

Tasks that wait for their model are mapped on one node of eight places, then on two. Then the same
agent is asked one task after the other, in this process and on a node. The nodes are raylets on
this machine, the model is a scripted server. Needs `pip install 'outrider[ray]'`.

python3 -m benchmarks.cluster [--tasks N] [--wait SECONDS] [--rounds N]
"""

import argparse
import asyncio
import json
import os
import subprocess
import tempfile
import time
from itertools import pairwise
from statistics import median
from typing import Any

MAX_SHARE, MAX_MORE_MS, PLACES = 0.6, 15.0, 8


async def mapped(model: str, count: int, **how: Any) -> list[float]:
    """Map so many tasks; return when each row came, in seconds since the first child started."""
    import outrider

    work = outrider.map("explorer", (f"Item {n}" for n in range(count)), model=model, **how)
    await work.open()  # the nodes are found, and have the folder
    begun, came = time.monotonic(), list[float]()
    async for row in work:
        assert row.completed, row
        came.append(time.monotonic() - begun)
    return came


def per_task(came: list[float]) -> float:
    """Return the milliseconds between one row and the next; the first ones warm up."""
    gaps = [later - sooner for sooner, later in pairwise(came[5:])]
    return 1000 * median(gaps)


def main(arguments: list[str] | None = None) -> int:
    """Print both figures; the exit code is 1 where one is over its limit."""
    parser = argparse.ArgumentParser(prog="python3 -m benchmarks.cluster")
    parser.add_argument("--tasks", type=int, default=300, help="tasks that wait (300)")
    parser.add_argument("--wait", type=float, default=2.0, help="seconds each waits (2)")
    parser.add_argument("--rounds", type=int, default=60, help="tasks one after the other (60)")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="or") as home:
        project = f"{home}/project"
        os.mkdir(project)
        os.chdir(project)
        subprocess.run(["git", "init", "-q"], check=True)
        os.environ.update(HOME=home, OUTRIDER_HOME=f"{home}/state", RAY_AUTH_MODE="disabled")
        return _measure(options)


def _measure(options: argparse.Namespace) -> int:
    os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_ENABLE_UV_RUN_RUNTIME_ENV="0")
    from ray.cluster_utils import Cluster

    from outrider.testing import ScriptedModel, answer

    delay = 0.0
    node = {"num_cpus": 2, "resources": {"outrider": PLACES}, "object_store_memory": 80 << 20}
    with ScriptedModel(lambda _: answer("Done. ", chunk_size=3, delay=delay / 2)) as server:
        os.environ.update(server.environment)
        cluster = Cluster(True, head_node_args={**node, "include_dashboard": False})
        os.environ["RAY_ADDRESS"] = cluster.address
        try:
            asyncio.run(mapped(server.model, PLACES, on="ray"))  # forks are warm
            near = per_task(asyncio.run(mapped(server.model, options.rounds, concurrency=1)))
            far = asyncio.run(mapped(server.model, options.rounds, concurrency=1, on="ray"))
            more = per_task(far) - near
            delay = options.wait
            one = asyncio.run(mapped(server.model, options.tasks, on="ray"))[-1]
            cluster.add_node(**node)
            cluster.wait_for_nodes()
            two = asyncio.run(mapped(server.model, options.tasks, on="ray"))[-1]
        finally:
            cluster.shutdown()
    report = {"tasks": options.tasks, "waitSeconds": options.wait, "placesPerNode": PLACES}
    report |= {"oneNodeSeconds": round(one, 2), "twoNodesSeconds": round(two, 2)}
    report |= {"share": round(two / one, 3), "mostShare": MAX_SHARE}
    report |= {"localMs": round(near, 2), "moreThroughRayMs": round(more, 2), "mostMs": MAX_MORE_MS}
    print(json.dumps(report, indent=2))
    return int(two / one > MAX_SHARE or more > MAX_MORE_MS)


if __name__ == "__main__":
    raise SystemExit(main())
