"""The conversation of a session, rebuilt from its record: what a main agent is told next time.

A turn that was stopped, or whose parent was killed, counts as far as it is recorded.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from outrider.protocol import jsonl
from outrider.protocol.envelope import ToolCode, build_error_response
from outrider.protocol.tool_catalogue import REPORT_BACK

Message = dict[str, Any]
AS_JSON = "json-"
"""How the ids of calls begin that the model didn't make: it wrote its report as text."""
UNANSWERED = build_error_response(ToolCode.UPSTREAM_FAILED, "The turn was stopped before this.")


def history_of(session: Path) -> tuple[Message, ...]:
    """Return the messages of all turns in a transcript, as a brief has them."""
    messages: list[Message] = []
    results: dict[str, Message] = {}
    for event in recorded_events(session):
        match event:
            case {"type": "run", "task": task}:
                if earlier := event.get("resumes"):
                    messages += history_of(session.parents[1] / str(earlier) / session.name)
                messages.append({"role": "user", "text": task})
            case {"type": "user_message", "text": text}:
                messages.append({"role": "user", "text": text, "aside": True})
            case {"type": "message_end", "stopReason": reason} if reason != "error":
                messages += _said(event, results)
            case {"type": "tool_result_end", "id": call, "envelope": envelope} if call in results:
                results[call] |= {"envelope": envelope, "text": event.get("text")}
            case {"type": "dropped", "ids": ids}:
                for result in filter(None, map(results.get, ids)):
                    # Its text stays in the record: a brief that has all of them would only grow.
                    result |= {"dropped": True, "text": None}
                    result["envelope"] = {**result["envelope"], "data": None}
            case {"type": "end", "partialOutput": text} if text and text != _last_text(messages):
                messages.append({"role": "assistant", "text": text, "toolCalls": []})
            case _:
                pass
    return tuple(messages)


def recorded_events(session: Path) -> Iterator[Message]:
    with open(session, "rb") as lines:
        yield from filter(None, map(jsonl.decoded_object, lines))


def _said(event: Message, results: dict[str, Message]) -> list[Message]:
    """Return the model's message, and room for the results of its calls."""
    text: str = event.get("text", "")
    calls: list[Message] = event.get("toolCalls") or []
    calls = [one for one in calls if not one["id"].startswith(AS_JSON)]
    if not text and not calls:
        return []
    asked: list[Message] = [{**call, "envelope": UNANSWERED} for call in calls]
    asked.sort(key=lambda one: one["name"] == REPORT_BACK)  # they are judged after the others
    results.update((one["id"], one) for one in asked)
    said: Message = {"role": "assistant", "text": text, "toolCalls": calls}
    said["kept"] = event.get("kept")
    return [said, {"role": "tools", "results": asked}] if asked else [said]


def _last_text(messages: list[Message]) -> str:
    spoken = (one["text"] for one in reversed(messages) if one["role"] == "assistant")
    return next(spoken, "")
