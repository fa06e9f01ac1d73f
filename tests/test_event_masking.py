"""What a child sends is masked once, where it enters; nothing gets around it."""

import ast
import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import outrider
from outrider import ToolResult, subagent
from outrider.delegation import perform
from outrider.protocol import jsonl
from outrider.protocol.brief import Brief
from outrider.protocol.events import EVENTS
from outrider.runtimes.native import runtime as native
from outrider.runtimes.runtime import ChildExit, Listener

CANARY = "canary-" + "Zx81-Qw77-Lm20"
SOURCE = Path(outrider.__file__).parent

# Every event, with the canary in every text that a child, its model or its tools can choose.
SAMPLES: dict[str, dict[str, Any]] = {
    "session": {"runId": "0", "agent": CANARY, "model": CANARY, "cwd": f"/tmp/{CANARY}"},
    "turn_start": {"turn": 1},
    "message_update": {"turn": 1, "delta": f"I found {CANARY} here."},
    "retry": {"turn": 1, "attempt": 2, "kind": "server", "message": CANARY, "delayMs": 1},
    "message_end": {
        "turn": 1,
        "text": f"I found {CANARY} here.",
        "toolCalls": [{"id": CANARY, "name": CANARY, "args": {"path": CANARY, CANARY: [CANARY]}}],
        "stopReason": CANARY,
    },
    "tool_start": {"id": CANARY, "name": CANARY, "args": {"path": CANARY}, "timeoutMs": 1000},
    "tool_result_end": {
        "id": CANARY,
        "name": CANARY,
        "envelope": {"code": 1, "message": CANARY, "data": {CANARY: CANARY}},
        "effects": {
            "filesRead": [CANARY],
            "filesWritten": [{"path": CANARY, "before": CANARY, "after": CANARY}],
            "commands": [{"command": CANARY, "exitCode": 0}],
        },
        "summary": CANARY,
    },
    "parent_request": {"id": CANARY, "kind": CANARY, "name": CANARY, "args": {CANARY: CANARY}},
    "user_message": {"turn": 1, "text": CANARY, "id": CANARY},
    "unconfined": {"missing": [CANARY]},
    "dropped": {"turn": 1, "ids": [CANARY]},
    "turn_end": {"turn": 1},
    "task_finish": {
        "outcome": "schema_failed",
        "taskResult": f"I found {CANARY} here.",
        "structuredOutput": {"a": [CANARY], CANARY: 1},
        "error": CANARY,
        "schemaFaults": [{"path": "$", "message": CANARY}],
        "lastReport": [CANARY],
    },
}


class Telling:
    """A runtime that sends all samples up to one, a word on stderr, and ends."""

    def __init__(self, until: str) -> None:
        self._until = until

    async def run(
        self, brief: Brief, environment: Mapping[str, str], listener: Listener
    ) -> ChildExit:
        listener.on_errors(f"it broke: {CANARY}\n".encode())
        for kind, fields in SAMPLES.items():
            listener.on_events(jsonl.encode({"type": kind, "at": 0, **fields}) + b"\n")
            await asyncio.sleep(0)
            if kind == self._until:
                break
        return ChildExit(started=True, signal=9)


@pytest.mark.parametrize("until", SAMPLES)
async def test_nothing_reaches_a_file_a_result_or_a_stream_unmasked(
    world: Path, monkeypatch: pytest.MonkeyPatch, until: str
) -> None:
    monkeypatch.setenv("CANARY_API_TOKEN", CANARY)
    monkeypatch.setattr(perform, "UPDATE_INTERVAL_SECONDS", 0)
    monkeypatch.setattr(native, "NativeRuntime", lambda *_, **__: Telling(until))
    updates: list[ToolResult] = []
    result = await subagent("explorer", "Look.", model="embedded", on_update=updates.append)
    single = result.details.results[0]
    kept = [path for path in Path(single.session_file or "").parent.rglob("*") if path.is_file()]
    seen = [json.dumps(one.to_dict()) for one in (result, *updates)]
    seen += [path.read_text() for path in kept]
    assert CANARY not in "\n".join(seen)
    assert "masked" in "\n".join(seen)
    assert {path.name for path in kept} == {"session.jsonl", "output.md", "result.json"}


def test_the_samples_are_all_events() -> None:
    assert set(SAMPLES) == set(EVENTS)


def test_no_other_module_of_delegation_masks() -> None:
    """`EventMasker` masks a child's words, a project's masker the caller's task and folder."""
    using = {
        path.name
        for path in (SOURCE / "delegation").glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module == "outrider.masking"
    }
    assert using == {"event_masking.py", "project.py"}
