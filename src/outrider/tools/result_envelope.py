"""Turns anything that a tool returned or raised into an envelope of plain JSON."""

import math
from collections.abc import Iterable, Mapping
from contextlib import suppress
from enum import Enum
from typing import Any, cast

from outrider.protocol.envelope import Envelope, meaning_of
from outrider.protocol.jsonl import without_surrogates
from outrider.tools import ToolCode, ToolFault, build_error_response, build_success_response

MAX_MESSAGE_CHARACTERS = 20_000
MAX_FAULT_CHARACTERS = 300
MAX_DEPTH = 64
MAX_INTEGER_BITS = 10_000  # Python writes out integers of at most 4,300 digits
_ENVELOPE_KEYS = frozenset({"code", "message", "data", "meta"})


def envelope_of(value: Any) -> Envelope:
    """Return the envelope a tool meant: its own, or a success with the value as data."""
    if not isinstance(value, Mapping) or "code" not in value:
        return build_success_response(jsonable(cast("object", value)))
    fields = cast("Mapping[str, Any]", value)
    code, message = fields["code"], _text(fields.get("message") or "")[:MAX_MESSAGE_CHARACTERS]
    if isinstance(code, int) and not isinstance(code, bool):
        extra = {key: item for key, item in fields.items() if key not in _ENVELOPE_KEYS}
        data = jsonable(fields.get("data", extra or None))
        return {"code": int(code), "message": message or meaning_of(code), "data": data}
    if len(fields) == 1 or not fields.keys() <= _ENVELOPE_KEYS:
        return build_success_response(jsonable(fields))
    given = f"the tool returned code {repr(jsonable(code))[:80]}, which is not an integer"
    message = f"{message} ({given})" if message else given
    return build_error_response(ToolCode.INTERNAL, message, jsonable(fields.get("data")))


def envelope_of_fault(fault: BaseException) -> Envelope:
    """Return the envelope of an exception: what went wrong in a line, never a traceback."""
    if isinstance(fault, ToolFault):
        return envelope_of(build_error_response(fault.code, fault.message, fault.data))
    lines = without_surrogates(str(fault)).strip().splitlines()
    text = lines[0][:MAX_FAULT_CHARACTERS] if lines else ""
    if isinstance(fault, TimeoutError):
        return build_error_response(ToolCode.TIMEOUT, text or "The tool timed out.")
    name = type(fault).__name__
    return build_error_response(ToolCode.INTERNAL, f"{name}: {text}" if text else name)


def jsonable(value: object, above: tuple[int, ...] = ()) -> Any:
    """Return a value as JSON, or else as text; `above` has the ids of the containers it is in."""
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, str):
        return without_surrogates(str(value))
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(value)
    if isinstance(value, int) and value.bit_length() > MAX_INTEGER_BITS:
        return f"(a number of {value.bit_length()} bits)"
    if value is None or isinstance(value, int):
        return value
    if isinstance(value, bytes | bytearray):
        return f"({len(value)} bytes)"
    if id(value) in above or len(above) >= MAX_DEPTH:
        return "(cut: nested too deep)"
    above = (*above, id(value))
    if isinstance(value, Mapping):
        pairs = cast("Mapping[object, object]", value).items()
        return {_text(key): jsonable(item, above) for key, item in pairs}
    if isinstance(value, list | tuple | set | frozenset):
        return [jsonable(item, above) for item in cast("Iterable[object]", value)]
    return jsonable(_converted(value), above)


def _converted(value: object) -> Any:
    """Return a dataclass, model, date or any other object as pydantic writes it in JSON."""
    from pydantic_core import to_jsonable_python

    if hasattr(value, "__next__"):  # an iterator may have no end
        return _text(value)
    with suppress(Exception):  # a cycle, or foreign code, which may do anything
        return to_jsonable_python(value, bytes_mode="base64", serialize_unknown=True)
    return _text(value)


def _text(value: object) -> str:
    with suppress(Exception):  # foreign code again
        return without_surrogates(str(value))
    return f"({type(value).__name__})"
