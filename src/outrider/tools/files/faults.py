"""What a file tool answers when it can't do what was asked: one exception, one envelope."""

import errno
import os
import threading
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec

from outrider.processes.threads import in_thread
from outrider.protocol.envelope import (
    Envelope,
    ToolCode,
    build_error_response,
    build_success_response,
)

P = ParamSpec("P")


class FileFault(Exception):
    """Why a file tool refuses or fails; becomes the envelope that the caller gets."""

    def __init__(self, code: ToolCode, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data

    def envelope(self) -> Envelope:
        """Return the fault as a tool's answer."""
        return build_error_response(self.code, self.message, self.data)


def bad(message: str) -> FileFault:
    """Return a fault that says the arguments can't be used."""
    return FileFault(ToolCode.BAD_PARAMETER, message)


def denied(message: str) -> FileFault:
    """Return a fault that says the policy refuses."""
    return FileFault(ToolCode.DENIED, message)


def missing(message: str) -> FileFault:
    """Return a fault that says there is no such thing."""
    return FileFault(ToolCode.NOT_FOUND, message)


def unsupported(message: str) -> FileFault:
    """Return a fault that says the thing is too large, or of a kind no tool handles."""
    return FileFault(ToolCode.TOO_LARGE, message)


_CODE_OF_ERRNO = {
    errno.ENOENT: ToolCode.NOT_FOUND,
    errno.ENOTDIR: ToolCode.NOT_FOUND,
    errno.EACCES: ToolCode.DENIED,
    errno.EPERM: ToolCode.DENIED,
    errno.EROFS: ToolCode.DENIED,
    errno.ELOOP: ToolCode.DENIED,
    errno.ENAMETOOLONG: ToolCode.BAD_PARAMETER,
    errno.EINVAL: ToolCode.BAD_PARAMETER,
    errno.EISDIR: ToolCode.BAD_PARAMETER,
    errno.EILSEQ: ToolCode.BAD_PARAMETER,
    errno.ENXIO: ToolCode.TOO_LARGE,
    errno.EFBIG: ToolCode.TOO_LARGE,
    errno.ENOSPC: ToolCode.NOT_AVAILABLE,
    errno.EDQUOT: ToolCode.NOT_AVAILABLE,
    errno.EIO: ToolCode.NOT_AVAILABLE,
    errno.EMFILE: ToolCode.NOT_AVAILABLE,
}


def fault_of(error: OSError, shown: str) -> FileFault:
    """Return the fault that stands for what the system said about the path `shown`."""
    number = error.errno or 0
    code = _CODE_OF_ERRNO.get(number, ToolCode.INTERNAL)
    return FileFault(code, f"{shown}: {os.strerror(number)}")


async def answer(
    work: Callable[Concatenate[threading.Event, P], Any], *args: P.args, **kwargs: P.kwargs
) -> Envelope:
    """Return the envelope of `work`, done in a thread so that tools of one turn overlap.

    `work` gets an event first: once it is set nobody waits for the answer any more, and what
    isn't done yet must not be done.
    """
    stop = threading.Event()
    try:
        return build_success_response(await in_thread(work)(stop, *args, **kwargs))
    except FileFault as fault:
        return fault.envelope()
    finally:
        stop.set()


def go_on(stop: threading.Event) -> None:
    """Raise a fault where the call was given up."""
    if stop.is_set():
        raise FileFault(ToolCode.TIMEOUT, "the call was given up")
