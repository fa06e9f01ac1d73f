"""What a host gets of a run: the same in text and in structure, since hosts drop one or the other.

A child's words are quoted as that child's, and bounded; the rest is read page by page.
"""

import os
from collections.abc import Mapping
from typing import Any

from outrider.protocol import jsonl
from outrider.protocol.outcomes import Outcome
from outrider.protocol.quoting import marked
from outrider.records.runs import OUTPUT, find_run
from outrider.settings.places import runs_folder
from outrider.surfaces.mcp.offer import READER
from outrider.surfaces.mcp.wire import Json
from outrider.surfaces.text import count

MAX_FAULTS = 10
GOES_ON = ("running", "waiting")
"""What a run is called that hasn't ended, or not begun."""


def told(details: Mapping[str, Any], max_bytes: int, offset: int = 0) -> Json:
    """Return the result of a tool call, from the `details` of a delegation's result."""
    run: Json = details["results"][0] if details.get("results") else {}
    said: Json = {"outcome": run.get("outcome", "refused")}
    said |= {name: run[name] for name in ("agent", "usage") if name in run}
    said |= {"runId": details["runId"]} if "runId" in details else {}
    output: str = run.get("output", "")
    page = output[offset:].encode()[:max_bytes].decode(errors="ignore")
    end = offset + len(page)
    if "structuredOutput" in run and len(page) == len(output):
        said["structuredOutput"] = run["structuredOutput"]
    elif page:
        said["answer"] = _quoted(page, said)
    if error := details.get("error"):
        faults = [f"{fault['path']}: {fault['message']}" for fault in run.get("schemaFaults", ())]
        said["error"] = {**error, "message": "; ".join([error["message"], *faults[:MAX_FAULTS]])}
    if end < len(output):
        said["readOn"] = {"runId": details["runId"], "offset": end}
    return call_result(said)


def recorded(run_id: str) -> Json:
    """Return the `details` of a run as its record has them; raises `Refusal`."""
    run = find_run(runs_folder(os.environ), run_id)
    if run.result:
        return dict(run.result["details"])
    output = run.folder / OUTPUT
    said = output.read_text("utf-8", "replace") if output.exists() else ""
    agent = str(run.opening.get("agent", ""))
    return {"runId": run.id, "results": [{"agent": agent, "outcome": run.state, "output": said}]}


def handle(run_id: str) -> Json:
    """Return the answer for a run that goes on; without an id it hasn't begun."""
    if not run_id:
        return call_result({"outcome": "waiting"})
    return call_result({"outcome": "running", "runId": run_id, "readOn": {"runId": run_id}})


def call_result(said: Json) -> Json:
    """Return the result of a tool call that says this, in both ways."""
    return {
        "content": [{"type": "text", "text": _text(said)}],
        "structuredContent": said,
        "isError": said["outcome"] not in (Outcome.COMPLETED, *GOES_ON),
    }


def _quoted(text: str, said: Json) -> str:
    origin = {"agent": said.get("agent", ""), "run": said["runId"], "outcome": said["outcome"]}
    return marked("subagent-output", text, **origin)


def _text(said: Json) -> str:
    parts = [said["answer"]] if "answer" in said else []
    if "structuredOutput" in said:
        parts.append(_quoted(jsonl.pretty(said["structuredOutput"]), said))
    if error := said.get("error"):
        parts.append(f"{error['code']}: {error['message']}")
    return "\n".join([*parts, f"[{' · '.join(_facts(said))}]"])


def _facts(said: Json) -> list[str]:
    facts = [said["outcome"], *([f"run {said['runId']}"] if "runId" in said else [])]
    if usage := said.get("usage"):
        facts += [count(usage["turns"], "turn"), count(usage["input"] + usage["output"], "token")]
        facts += [f"${usage['cost']:.4f}"] if usage["cost"] else []
    if said["outcome"] in GOES_ON:
        facts.append("it goes on: the same call again joins it and starts no other")
    if "readOn" in said:
        facts.append(f"for more: {READER} {jsonl.encode(said['readOn']).decode()}")
    return facts
