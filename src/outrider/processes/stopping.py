"""Work in a thread can't be ended from outside: it looks whether it should go on."""

import threading

from outrider.protocol.envelope import ToolCode, ToolFault


def raise_if_stopped(stop: threading.Event) -> None:
    """Raise a fault where the call was given up, so that nothing more is done for it."""
    if stop.is_set():
        raise ToolFault(ToolCode.TIMEOUT, "the call was given up")
