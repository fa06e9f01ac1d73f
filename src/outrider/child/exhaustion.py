"""A child that can get no memory or no thread ends at once; it never waits for what won't come."""

import asyncio
import os
import signal
import threading
import traceback
from types import FrameType
from typing import Any, NoReturn

MAX_THREAD_START_SECONDS = 10.0


def end_when_exhausted() -> None:
    """End this process where a thread that was started never begins.

    One that finds no memory for its first step dies unseen, and `Thread.start` waits for it.
    """
    start = threading.Thread.start

    def start_in_time(self: threading.Thread) -> None:
        # The timer runs in the kernel: it needs no memory and no other thread.
        signal.setitimer(signal.ITIMER_REAL, MAX_THREAD_START_SECONDS)
        try:
            start(self)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)

    signal.signal(signal.SIGALRM, _on_alarm)
    threading.Thread.start = start_in_time


def _on_alarm(_number: int, _frame: FrameType | None) -> NoReturn:
    _end("A thread was started and did not begin.")


def on_loop_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log an exception that no task handles; the child ends where it was one of memory."""
    loop.default_exception_handler(context)
    if isinstance(context.get("exception"), MemoryError):
        _end("A callback failed.")


def _end(what: str) -> NoReturn:
    try:
        traceback.print_stack()
        os.write(2, f"{what} There is not enough memory for this child.\n".encode())
    finally:
        os._exit(1)
