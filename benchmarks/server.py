"""The scripted model server, in its own process; all contestants use it.

A task holds a mark such as `bench-a1b2-t10-h250`: the model reads a file nine times, waits 250 ms,
and answers `answer-a1b2`. A parent that is told `relay:` and a task calls its `subagent` tool. For
`{"ids": […]}` on stdin, the server reports the times of each task's requests, and the size and the
tools of the last one.
"""

import json
import re
import sys
from collections import defaultdict
from dataclasses import replace
from typing import Any

from benchmarks.messages_wire import TwoWires
from outrider.testing import ModelRequest, Step, answer, tool_call

MARK = re.compile(r"bench-([0-9a-f]+)-t(\d+)-h(\d+)")
NOTE = "note.txt"
RELAY = "relay:"


class Model:
    """Answers by the mark in the task, and keeps the time of each request and the last request."""

    def __init__(self) -> None:
        self.seen: dict[str, list[float]] = defaultdict(list)
        self.last: dict[str, ModelRequest] = {}

    def step(self, request: ModelRequest) -> Step:
        """Return the next step of the task that this request belongs to."""
        if relayed := relay(request):
            return relayed
        identity, turns, hold_ms = marked(request)
        self.seen[identity].append(request.at)
        self.last[identity] = request
        if (turn := len(self.seen[identity])) < turns:
            # Not the same call twice in a row: a model that repeats itself is stopped.
            return tool_call("read", {"path": f"{'./' * (turn % 2)}{NOTE}"})
        text = f"answer-{identity}"
        if "final_answer" in request.tool_names:
            # In two pieces: the call, and its arguments.
            call = tool_call("final_answer", {"answer": text})
            return replace(call, chunk_size=1_000, delay=hold_ms / 2_000)
        return answer(text, delay=hold_ms / 1000)

    def report(self, identity: str) -> dict[str, Any]:
        """Return what the runner needs to know about a task's requests."""
        request = self.last.get(identity)
        body = request.body if request else {}
        size = len(json.dumps(body, separators=(",", ":")).encode())
        times = self.seen.get(identity, [])
        return {"times": times, "tools": body.get("tools") or [], "bytes": size}


def relay(request: ModelRequest) -> Step | None:
    """Return the step of a parent's model that is told to delegate; None for other requests."""
    if "subagent" not in request.tool_names:
        return None
    text = request.last_user_text
    if RELAY in text and request.messages[-1].get("role") == "user":
        task = text.partition(RELAY)[2].strip()
        return tool_call("subagent", {"agent": "scout", "task": task})
    if any(RELAY in json.dumps(message.get("content")) for message in request.messages):
        return answer("Noted.")
    return None


def marked(request: ModelRequest) -> tuple[str, int, int]:
    """Return a task's id, its number of turns, and how long its answer is held back."""
    for message in request.messages:
        content = message.get("content")
        text = content if isinstance(content, str) else json.dumps(content)
        if message.get("role") == "user" and (mark := MARK.search(text)):
            return mark[1], int(mark[2]), int(mark[3])
    raise ValueError("No message of this request holds a task's mark.")


def main() -> None:
    """Serve until stdin ends."""
    model = Model()
    with TwoWires(model.step) as server:
        print(json.dumps({"url": server.base_url}), flush=True)
        for line in sys.stdin:
            reports = [model.report(identity) for identity in json.loads(line)["ids"]]
            print(json.dumps({"reports": reports, "faults": server.faults[:3]}), flush=True)


if __name__ == "__main__":
    main()
