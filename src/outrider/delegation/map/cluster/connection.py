"""The way to a Ray cluster, with an answer in bounded time where there is none."""

import asyncio
import logging
import os
import socket
import threading
from concurrent.futures import Future
from types import ModuleType
from typing import Any

from outrider.delegation.request import invalid
from outrider.processes.threads import in_thread

PROBE_SECONDS, MAX_CONNECT_SECONDS = 10.0, 90.0
ADVICE = "Check RAY_ADDRESS or --on, and that the cluster is running."
INSTALL = "pip install 'outrider[ray]'"


async def connected(on: str) -> tuple[ModuleType, bool]:
    """Return Ray, connected to the cluster that `on` names, and whether we did that.

    `ray` is the one that RAY_ADDRESS names, else the one of this machine, else a new one.
    Raises `Refusal`.
    """
    address = on if on != "ray" else os.environ.get("RAY_ADDRESS", "")
    if on != "ray" and not on.startswith("ray://"):
        raise invalid(f"--on {on!r} is no cluster: write ray, or ray://host:10001.")
    ray = _loaded()
    if ray.is_initialized():
        return ray, False
    await in_thread(_probe)(address)
    try:
        async with asyncio.timeout(MAX_CONNECT_SECONDS):
            await _connect(ray, address)
    except TimeoutError:
        raise invalid(f"No Ray cluster answers at {address or 'this machine'}. {ADVICE}") from None
    except Exception as error:
        ray.shutdown()
        raise invalid(f"Ray can't be reached{f' at {address}' * bool(address)}: {error}") from None
    return ray, True


def _loaded() -> ModuleType:
    # Ray would send the working folder to all nodes where the command was started by `uv run`.
    os.environ["RAY_ENABLE_UV_RUN_RUNTIME_ENV"] = "0"
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError as error:
        raise invalid(f"--on ray needs Ray ({error}). Install it with: {INSTALL}") from None
    return ray


def _probe(address: str) -> None:
    """Find out whether anything listens there; Ray itself would try for a minute or more."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if address in ("", "auto", "local"):
        return
    try:
        if not colon or not port.isdecimal():
            raise OSError("an address is written host:port")
        socket.create_connection((host.strip("[]"), int(port)), PROBE_SECONDS).close()
    except OSError as error:
        raise invalid(f"No Ray cluster answers at {address}: {error}. {ADVICE}") from None


async def _connect(ray: Any, address: str) -> None:
    """Connect in a thread that stays: with it the kernel ends a new cluster's processes."""
    result: Future[None] = Future()
    result.set_running_or_notify_cancel()  # from now on it can't be cancelled

    def stay() -> None:
        try:
            ray._private.worker.print_worker_logs = _drop
            quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
            ray.init(address=address or None, runtime_env={}, **quiet)
            result.set_result(None)
        except BaseException as error:  # not SystemExit, which can't pass through a future
            result.set_exception(OSError(str(error) or type(error).__name__))
        threading.Event().wait()

    logging.getLogger("ray").setLevel(logging.ERROR)
    threading.Thread(target=stay, daemon=True).start()
    await asyncio.wrap_future(result)


def _drop(*_said: object) -> None:
    """Drop what Ray would print of dead workers: stdout is for the rows, and the map tells it."""
