"""One event of a transcript, as a line for people."""

import json
from collections.abc import Mapping
from typing import Any, cast

from outrider.surfaces.cli.output import coloured
from outrider.surfaces.cli.text import one_line, pad

MAX_WORDS = 300


def event_line(event: Mapping[str, Any]) -> str:
    """Return an event as a line: when, what, and the most telling of its words."""
    kind = str(event.get("type", "?"))
    at = event.get("at")
    seconds = f"{at / 1000:9.2f} s" if isinstance(at, int | float) else " " * 11
    words = one_line(_words(kind, event)[: MAX_WORDS * 4])
    if len(words) > MAX_WORDS:
        words = f"{words[:MAX_WORDS]}…"
    return f"{coloured(seconds, 'dim')}  {coloured(pad(one_line(kind), 15), 'cyan')}  {words}"


def _words(kind: str, event: Mapping[str, Any]) -> str:
    match kind:
        case "run":
            return f"{event.get('agent')} on {event.get('model')}: {event.get('task')}"
        case "session":
            return f"{event.get('agent')} on {event.get('model')}"
        case "turn_start" | "turn_end":
            return f"turn {event.get('turn')}"
        case "message_end":
            return _message(event)
        case "tool_start":
            return f"{event.get('name')} {_short(event.get('args'))}"
        case "tool_result_end":
            return str(event.get("summary") or f"{event.get('name')}: {_envelope(event)}")
        case "retry":
            return f"{event.get('message')} (again in {event.get('delayMs')} ms)"
        case "task_finish" | "end":
            return f"{event.get('outcome')} {event.get('error') or ''}"
        case _:
            return _short(event)


def _message(event: Mapping[str, Any]) -> str:
    calls = cast("list[dict[str, Any]]", event.get("toolCalls") or [])
    named = ", ".join(str(call.get("name")) for call in calls)
    return " ".join(part for part in (str(event.get("text", "")), named and f"→ {named}") if part)


def _envelope(event: Mapping[str, Any]) -> str:
    envelope = event.get("envelope")
    if not isinstance(envelope, dict):
        return _short(envelope)
    entries = cast("dict[str, Any]", envelope)
    return f"{entries.get('code')} {entries.get('message')}"


def _short(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
