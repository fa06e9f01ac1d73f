"""Turns anything that a tool returned or raised into an envelope."""

from collections.abc import Mapping
from typing import Any, cast

from outrider.protocol.envelope import (
    Envelope,
    ToolCode,
    build_error_response,
    build_success_response,
    meaning_of,
)
from outrider.protocol.jsonl import without_surrogates
from outrider.tools.faults import ToolFault
from outrider.tools.jsonable import jsonable

MAX_MESSAGE_CHARACTERS = 20_000
MAX_FAULT_CHARACTERS = 300
_ENVELOPE_KEYS = frozenset({"code", "message", "data", "meta"})


def envelope_of(value: Any) -> Envelope:
    """Return the envelope a tool meant: its own, or a success with the value as data."""
    if not isinstance(value, Mapping) or "code" not in value:
        return build_success_response(jsonable(cast("object", value)))
    fields = cast("Mapping[str, Any]", value)
    code, message = fields["code"], _message(fields.get("message"))
    if isinstance(code, int) and not isinstance(code, bool):
        extra = {key: item for key, item in fields.items() if key not in _ENVELOPE_KEYS}
        data = jsonable(fields.get("data", extra or None))
        return {"code": int(code), "message": message or meaning_of(code), "data": data}
    if len(fields) == 1 or not fields.keys() <= _ENVELOPE_KEYS:
        return build_success_response(jsonable(fields))
    given = f"the tool answered with the code {repr(jsonable(code))[:80]}, which is not an integer"
    message = f"{message} ({given})" if message else given
    return build_error_response(ToolCode.INTERNAL, message, jsonable(fields.get("data")))


def envelope_of_fault(fault: BaseException) -> Envelope:
    """Return the envelope of an exception: what went wrong in a line, never a traceback."""
    if isinstance(fault, ToolFault):
        return envelope_of(fault.envelope())
    lines = without_surrogates(str(fault)).strip().splitlines()
    text = lines[0][:MAX_FAULT_CHARACTERS] if lines else ""
    if isinstance(fault, TimeoutError):
        return build_error_response(ToolCode.TIMEOUT, text or "The tool timed out.")
    name = type(fault).__name__
    return build_error_response(ToolCode.INTERNAL, f"{name}: {text}" if text else name)


def _message(given: object) -> str:
    return "" if given is None else without_surrogates(str(given))[:MAX_MESSAGE_CHARACTERS]
