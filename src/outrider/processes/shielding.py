"""Waiting for work that must be finished, even while we are being cancelled."""

import asyncio
import time
from collections.abc import Awaitable
from typing import Any, TypeVar

T = TypeVar("T")


async def finish(work: Awaitable[T]) -> T:
    """Return what `work` returns, however often we are cancelled meanwhile; then be cancelled."""
    task = asyncio.ensure_future(work)
    try:
        await wait_for_all({task})
    except asyncio.CancelledError:
        if not task.cancelled():
            task.exception()  # looked at, so that it isn't reported as forgotten
        raise
    return task.result()


async def wait_for_all(work: "set[asyncio.Future[Any]]", seconds: float | None = None) -> None:
    """Return when all is done or `seconds` are over; a cancellation takes effect only then."""
    cancelled, begun = False, time.monotonic()
    while pending := {one for one in work if not one.done()}:
        left = seconds and begun + seconds - time.monotonic()
        if left is not None and left <= 0:
            break
        try:
            await asyncio.wait(pending, timeout=left)
        except asyncio.CancelledError:
            cancelled = True
    if cancelled:
        raise asyncio.CancelledError
