"""A child that can get no memory or no thread ends; it never waits for what won't come."""

import asyncio
import os
import signal
import threading
import traceback
from typing import Any, NoReturn

MAX_THREAD_START_SECONDS = 10.0
_one_at_a_time = threading.Lock()  # there is one timer


def end_when_exhausted() -> None:
    """End this process where a thread finds no memory to begin: `Thread.start` would wait on."""
    start = threading.Thread.start

    def start_in_time(self: threading.Thread) -> None:
        # The timer runs in the kernel: it needs no memory and no other thread.
        with _one_at_a_time:
            signal.setitimer(signal.ITIMER_REAL, MAX_THREAD_START_SECONDS)
            try:
                start(self)
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)

    signal.signal(signal.SIGALRM, lambda _number, _frame: _end())
    threading.Thread.start = start_in_time


def on_loop_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log what a callback raised; nobody else would end the child where memory was lacking."""
    loop.default_exception_handler(context)
    if isinstance(context.get("exception"), MemoryError):
        _end()


def _end() -> NoReturn:
    try:
        traceback.print_stack()
        os.write(2, b"The child has no memory left, or can't start a thread.\n")
    finally:
        os._exit(1)
