"""Whether a child can be started: a small task is really delegated, away from all that is kept."""

import asyncio
import os
import site
import tempfile
import time
from pathlib import Path

from outrider.delegation.perform import Caller, perform
from outrider.delegation.request import Request
from outrider.models.catalogue import EMBEDDED
from outrider.protocol.results import ToolResult
from outrider.surfaces.cli.checks import Check, Status
from outrider.surfaces.cli.text import duration

NOTE = "The doctor's stethoscope hangs in the hall.\n"
TASK = "Where does the stethoscope hang?"


def child_check() -> Check:
    """Return the finding on a delegation in a folder made for it."""
    try:
        with tempfile.TemporaryDirectory(prefix="outrider-doctor-") as place:
            start = time.monotonic()
            result = asyncio.run(_delegate(Path(place)))
            took = duration((time.monotonic() - start) * 1000)
    except OSError as error:
        return Check("child", Status.FAIL, f"no temporary folder to try it in: {error}")
    if result.completed and "notes.txt" in result.text:
        return Check("child", Status.OK, f"one was started and did a small task in {took}")
    error = result.details.error
    reason = error.message if error else "it answered, but didn't find what it was asked for"
    return Check("child", Status.FAIL, f"a small task failed after {took}: {reason}")


async def _delegate(place: Path) -> ToolResult:
    work = place / "work"
    work.mkdir()
    (work / "notes.txt").write_text(NOTE)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OUTRIDER_")}
    env = {
        **kept,
        # The user's agents and settings have checks of their own: this one is about the child.
        "HOME": str(place),
        "XDG_CONFIG_HOME": str(place / "config"),
        "OUTRIDER_HOME": str(place / "state"),
        # With another HOME, Python wouldn't find what was installed for this user only.
        "PYTHONUSERBASE": site.getuserbase(),
    }
    flags = {"subagents.timeoutMs": 60_000, "warm.keepMinutes": 0}
    request = Request("explorer", TASK, model=EMBEDDED, cwd=work)
    return await perform(request, Caller(env, flags=flags))
