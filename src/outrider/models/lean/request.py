"""A conversation as the body of a request for a chat completion."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, cast

from outrider.models import messages as ours
from outrider.models.messages import Conversation, ModelAnswer, OfferedTool, OfferedTools
from outrider.protocol import jsonl
from outrider.protocol.data import as_object
from outrider.protocol.tool_catalogue import REPORT_BACK

IN_CONTENT = "content"  # where a thought came in that stood in the text itself, between tags
OPTIONS = "stream_options"


def request_body(
    model: str, messages: Conversation, tools: OfferedTools, schema: Any, *, inline: bool
) -> dict[str, Any]:
    """Return the body of a request; `inline` is for servers that look up no `$ref`."""
    body: dict[str, Any] = {"model": model, "messages": list(_written(messages)), "stream": True}
    body[OPTIONS] = {"include_usage": True}
    # Never `strict`: it forbids all properties that aren't listed, and refuses schemas.
    if schema is not None:
        shape = {"name": REPORT_BACK, "schema": schema, "strict": False}
        body["response_format"] = {"type": "json_schema", "json_schema": shape}
    elif tools:
        body["tools"] = [_offered(tool, inline=inline) for tool in tools]
        body["tool_choice"] = "auto"
    return body


def _written(messages: Conversation) -> Iterator[dict[str, Any]]:
    for message in messages:
        match message:
            case ours.SystemPrompt(text):
                yield {"role": "system", "content": text}
            case ours.CallResult(id, _, text):
                yield {"role": "tool", "tool_call_id": id, "content": text}
            case ModelAnswer():
                yield from _said(message)
            case _:
                yield {"role": "user", "content": message.text}


def _said(answer: ModelAnswer) -> Iterator[dict[str, Any]]:
    """Yield an answer, with its thoughts in the fields they came in; nothing where it is empty."""
    thought = answer.thoughts.get(IN_CONTENT)
    texts = [f"<think>\n{thought}\n</think>"] if thought else []
    texts += [answer.text] if answer.text else []
    if texts or answer.calls:
        others = {name: text for name, text in answer.thoughts.items() if name != IN_CONTENT}
        said: dict[str, Any] = {"role": "assistant", **others}
        said["content"] = "\n\n".join(texts) or None
        if answer.calls:
            said["tool_calls"] = [_called(call) for call in answer.calls]
        yield said


def _called(call: ours.ModelCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": _arguments(call.arguments)}
    sent = {"id": call.id, "type": "function", "function": function}
    return {**sent, "extra_content": call.extra} if call.extra else sent


def _arguments(given: Any) -> str:
    """Return arguments as the text of an object: some servers read them, and refuse all else."""
    read: Any = given or {}
    if isinstance(given, str) and given:
        with suppress(ValueError):
            read = jsonl.decode(given.encode(errors="replace"))
        if isinstance(read, dict):
            return given
    return jsonl.encode(read if isinstance(read, dict) else {"INVALID_JSON": given}).decode()


def _offered(tool: OfferedTool, *, inline: bool) -> dict[str, Any]:
    parameters = inlined(tool.parameters) if inline else tool.parameters
    function = {"name": tool.name, "description": tool.description, "parameters": parameters}
    return {"type": "function", "function": function}


def inlined(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema with what it refers to under `$defs` put in place; what recurs stays."""
    stores = {f"#/{name}/": as_object(schema.get(name)) for name in ("$defs", "definitions")}
    targets = {start + name: one for start, store in stores.items() for name, one in store.items()}
    left: set[str] = set()

    def put(value: Any, within: tuple[str, ...]) -> Any:
        if isinstance(value, list):
            return [put(one, within) for one in cast("list[Any]", value)]
        entries = as_object(value)
        ref = str(entries.get("$ref"))
        if ref in targets and ref not in within:
            rest = {key: one for key, one in entries.items() if key != "$ref"}
            return {**as_object(put(targets[ref], (*within, ref))), **put(rest, within)}
        left.add(ref)
        return {key: put(one, within) for key, one in entries.items()} if entries else value

    whole = {key: one for key, one in schema.items() if f"#/{key}/" not in stores}
    result = as_object(put(whole, ()))
    return {**schema, **result} if left & targets.keys() else result
