"""`python3 -m benchmarks.mapping`: what a map costs its process, beside bare delegations.

Both run the same tasks against the same scripted model, as many at once, each in a process of its
own. CPU is that of the parent alone: the children cost the same in both. The bar is drawn on a
pseudo-terminal, and its CPU is measured by itself.

python3 -m benchmarks.mapping [--count N] [--short N] [--at-once N]
"""

import argparse
import asyncio
import json
import os
import pty
import resource
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from outrider.testing import ScriptedModel, answer


async def bare(count: int, at_once: int, model: str) -> None:
    """Delegate so many tasks, without a map."""
    from outrider import subagent

    places = asyncio.Semaphore(at_once)
    config = {"subagents.maxConcurrent": at_once}

    async def one(number: int) -> None:
        async with places:
            result = await subagent("explorer", f"Item {number}", model=model, config=config)
            assert result.completed, result.text

    tasks = set[asyncio.Task[None]]()
    for number in range(count):
        tasks.add(asyncio.create_task(one(number)))
        if len(tasks) >= 2 * at_once:
            _, tasks = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    await asyncio.gather(*tasks)


async def mapped(count: int, at_once: int, model: str) -> float:
    """Do the same as a map with a bar; return the CPU seconds that drawing it took."""
    import outrider
    from outrider.surfaces.terminal.map_bar import MapBar

    work = outrider.map(
        "explorer",
        (f"Item {number}" for number in range(count)),
        model=model,
        concurrency=at_once,
        journal="journal.jsonl",
    )
    work.total = count
    bar, drawing = MapBar(work), 0.0
    draw = bar.tick

    def tick() -> None:
        nonlocal drawing
        begun = time.thread_time()
        draw()
        drawing += time.thread_time() - begun

    bar.tick = tick
    tick()
    done = 0
    async for row in work:
        assert row.completed, row
        done += 1
    bar.close()
    assert done == count
    return drawing


def measure(kind: str, count: int, at_once: int, model: str) -> dict[str, float]:
    """Return what this process used for so many tasks."""
    asyncio.run(bare(2 * at_once, at_once, model))  # the fork server is up, all is imported
    before, begun = resource.getrusage(resource.RUSAGE_SELF), time.monotonic()
    work = bare if kind == "bare" else mapped
    drawing = asyncio.run(work(count, at_once, model))
    taken = time.monotonic() - begun
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    # Not `ru_maxrss`, in which whoever started this process counts too.
    status = Path("/proc/self/status").read_text()
    memory = int(status.partition("VmHWM:")[2].split()[0]) / 1024
    found = {"seconds": taken, "cpuMs": cpu * 1000 / count, "memoryMb": memory}
    return found | ({"barPercent": 100 * drawing / cpu} if drawing else {})


def measured(kind: str, count: int, at_once: int) -> dict[str, float]:
    """Measure in a process of its own, with a terminal as stderr and a server that is new."""
    terminal, stderr = pty.openpty()
    threading.Thread(target=_drain, args=(terminal,), daemon=True).start()
    script = ScriptedModel(lambda _: answer("Done."))
    with script as server, tempfile.TemporaryDirectory(prefix="outrider-map-") as home:
        env = {"PATH": os.environ["PATH"], "HOME": home, "TERM": "xterm", "LANG": "C.UTF-8"}
        env["PYTHONPATH"] = os.getcwd()
        words = ("--measure", kind, "--count", str(count), "--at-once", str(at_once), server.model)
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.mapping", *words],
            env={**env, **server.environment},
            cwd=home,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            check=True,
        )
    os.close(stderr)
    return json.loads(done.stdout)


def _drain(terminal: int) -> None:
    try:
        while os.read(terminal, 1 << 16):
            pass
    except OSError:
        os.close(terminal)


def main(arguments: list[str] | None = None) -> int:
    """Print what both take, and the ratios."""
    parser = argparse.ArgumentParser(prog="python3 -m benchmarks.mapping")
    parser.add_argument("model", nargs="?")
    parser.add_argument("--count", type=int, default=10_000, help="items (10,000)")
    parser.add_argument("--short", type=int, default=1_000, help="items timed thrice (1,000)")
    parser.add_argument("--at-once", type=int, default=8, help="children at once (8)")
    parser.add_argument("--measure", choices=("bare", "map"), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.measure:
        found = measure(options.measure, options.count, options.at_once, options.model)
        print(json.dumps(found))
        return 0
    report: dict[str, Any] = {}
    for name, count, rounds in (("short", options.short, 3), ("long", options.count, 1)):
        pairs = [
            [measured(kind, count, options.at_once) for kind in ("bare", "map")]
            for _ in range(rounds)
        ]
        both = zip(*pairs, strict=True)
        bare, map_ = (min(one, key=lambda found: found["seconds"]) for one in both)
        ratio = {key: map_[key] / bare[key] for key in ("seconds", "cpuMs")}
        report[name] = {"items": count, "bare": bare, "map": map_, "ratio": ratio}
        print(json.dumps({name: report[name]}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
