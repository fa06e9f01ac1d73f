"""A small delegation, to see whether one works here: away from the user's settings and runs."""

import asyncio
import os
import site
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from outrider.agents.discovery import builtin_agent
from outrider.delegation.perform import Caller, perform
from outrider.delegation.request import Request
from outrider.models.resolution import is_embedded
from outrider.protocol.envelope import ToolCode, ToolFault

TIMEOUT_MS = 60_000


def try_delegation(model: str, **variables: str) -> tuple[float, tuple[str, ...]]:
    """Return a small task's milliseconds, and what its walls lacked; raises `ToolFault`."""
    # A model that is only asked whether it answers needs no tools.
    asked = None if is_embedded(model) else replace(builtin_agent("general"), tools=())
    task = "Answer with the word yes." if asked else "Where does the stethoscope hang?"
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OUTRIDER_")}
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="outrider-trial-") as place:
        work = Path(place, "work")
        work.mkdir()
        (work / "notes.txt").write_text("The doctor's stethoscope hangs in the hall.\n")
        moved = {"HOME": place, "XDG_CONFIG_HOME": f"{place}/config", "OUTRIDER_HOME": place}
        # With another HOME, Python wouldn't find what was installed for this user only.
        env = {**kept, **variables, **moved, "PYTHONUSERBASE": site.getuserbase()}
        env["OTEL_SDK_DISABLED"] = "true"
        flags = {"subagents.timeoutMs": TIMEOUT_MS, "warm.keepMinutes": 0}
        request = Request("explorer", task, model=model, cwd=work, definition=asked)
        result = asyncio.run(perform(request, Caller(env, flags=flags)))
    if not result.completed or not (asked or "notes.txt" in result.text):
        error = result.details.error
        reason = error.message if error else "it answered, but didn't find what it was asked for"
        raise ToolFault(ToolCode.UPSTREAM_FAILED, f"a small task failed: {reason}")
    isolation = result.details.results[0].isolation
    return (time.monotonic() - begun) * 1000, isolation.missing if isolation else ()


def try_nodes(on: str) -> Iterator[tuple[str, str, Callable[[], list[tuple[str, str]]]]]:
    """Yield what each node of a cluster has, as a check of doctor; raises `Refusal`."""
    from outrider.delegation.map.cluster.engine import described

    for node in asyncio.run(described(on)):
        said = [f"{node.get('free', 0)} of {node['places']} places free"]
        said += [f"model {node['model']}"] if "model" in node else []
        said += [f"keys: {', '.join(node.get('keys', ())) or 'no key'}"]
        said += [f"not fully confined: {lack}" for lack in node.get("missing", ())] or ["all walls"]
        status = "fail" if node["problem"] else "warn" if node.get("missing") else "ok"
        words = node["problem"] or "; ".join(said)
        yield "nodes", node["name"], partial(list, [(status, words)])
