"""Waiting for work that must be finished, even while we are being cancelled."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


async def shielded(work: Awaitable[T]) -> T:
    """Return what `work` returns, however often we are cancelled meanwhile; then be cancelled."""
    task = asyncio.ensure_future(work)
    cancelled = False
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            cancelled = True
    if cancelled:
        if not task.cancelled():
            task.exception()  # looked at, so that it isn't reported as forgotten
        raise asyncio.CancelledError
    return task.result()
