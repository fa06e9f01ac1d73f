"""Waiting for work that must be finished, even while we are being cancelled."""

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar

T = TypeVar("T")


async def shielded(work: Awaitable[T]) -> T:
    """Return what `work` returns, however often we are cancelled meanwhile; then be cancelled."""
    task = asyncio.ensure_future(work)
    try:
        await ended({task})
    except asyncio.CancelledError:
        if not task.cancelled():
            task.exception()  # looked at, so that it isn't reported as forgotten
        raise
    return task.result()


async def ended(work: "set[asyncio.Future[Any]]") -> None:
    """Return when all of `work` is done, however often we are cancelled; then be cancelled."""
    cancelled = False
    while pending := {one for one in work if not one.done()}:
        try:
            await asyncio.wait(pending)
        except asyncio.CancelledError:
            cancelled = True
    if cancelled:
        raise asyncio.CancelledError
