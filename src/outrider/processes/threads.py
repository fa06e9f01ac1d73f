"""Blocking work in threads: a call doesn't block the child, and what is given up stops itself."""

import contextvars
import functools
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import Any

from outrider.protocol.envelope import ToolCode, ToolFault


def in_thread(function: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
    """Return an async form of a blocking function.

    Each call has a daemon thread of its own: a pool's thread that never returns would keep the
    child from ending.
    """

    @functools.wraps(function)
    async def run(*args: Any, **kwargs: Any) -> Any:
        import asyncio  # late: `outrider.tools` is imported by programs that need none of it

        result: Future[Any] = Future()
        result.set_running_or_notify_cancel()  # from now on it can't be cancelled
        call = functools.partial(contextvars.copy_context().run, function, *args, **kwargs)

        def work() -> None:
            try:
                result.set_result(call())
            except (StopIteration, SystemExit, KeyboardInterrupt) as fault:
                # None of these can pass through a future as it is.
                result.set_exception(RuntimeError(f"{type(fault).__name__}: {fault}"))
            except BaseException as fault:
                result.set_exception(fault)

        threading.Thread(target=work, name=f"tool-{function.__name__}", daemon=True).start()
        return await asyncio.wrap_future(result)

    return run


def raise_if_stopped(stop: threading.Event) -> None:
    """Raise a fault where the call was given up: a thread can't be ended from outside."""
    if stop.is_set():
        raise ToolFault(ToolCode.TIMEOUT, "the call was given up")
