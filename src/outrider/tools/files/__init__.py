"""The file tools: what a child can see and change in its workspace. One module for each tool."""

import threading
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec

from outrider.processes.threads import in_thread
from outrider.protocol.envelope import Envelope, build_error_response, build_success_response
from outrider.tools.faults import ToolFault
from outrider.workspaces.workspace import WorkspaceFault

P = ParamSpec("P")


async def answer(
    work: Callable[Concatenate[threading.Event, P], Any], *args: P.args, **kwargs: P.kwargs
) -> Envelope:
    """Return the envelope of `work`, done in a thread so that tools of one turn overlap.

    `work` gets an event first. Once it is set the caller has given up: what isn't done yet must
    not be done.
    """
    stop = threading.Event()
    try:
        return build_success_response(await in_thread(work)(stop, *args, **kwargs))
    except (ToolFault, WorkspaceFault) as fault:
        return build_error_response(fault.code, fault.message, fault.data)
    finally:
        stop.set()
