"""Running a blocking function without blocking the child, and without waiting for it at the end."""

import asyncio
import contextvars
import functools
import threading
from collections.abc import Awaitable, Callable
from typing import Any


def in_thread(function: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
    """Return an async form of a blocking function.

    Each call has a daemon thread of its own: a thread of a pool that never returns would keep
    the child from ending.
    """

    @functools.wraps(function)
    async def run(*args: Any, **kwargs: Any) -> Any:
        loop = asyncio.get_running_loop()
        result: asyncio.Future[Any] = loop.create_future()
        call = functools.partial(contextvars.copy_context().run, function, *args, **kwargs)

        def work() -> None:
            try:
                value, fault = call(), None
            except BaseException as raised:
                value, fault = None, raised
            # The loop may be closed by now, with nobody left to tell.
            if not loop.is_closed():
                loop.call_soon_threadsafe(_settle, result, value, fault)

        threading.Thread(target=work, name=f"tool-{function.__name__}", daemon=True).start()
        return await result

    return run


def _settle(result: asyncio.Future[Any], value: Any, fault: BaseException | None) -> None:
    if result.done():
        return
    if isinstance(fault, StopIteration | SystemExit | KeyboardInterrupt):
        # None of these can travel through a future as it is.
        fault = RuntimeError(f"{type(fault).__name__}: {fault}")
    if fault is not None:
        result.set_exception(fault)
    else:
        result.set_result(value)
