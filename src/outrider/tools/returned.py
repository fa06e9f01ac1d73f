"""Whatever a tool returned or raised, as the envelope it stands for."""

from collections.abc import Mapping
from typing import Any, cast

from outrider.protocol.envelope import (
    Envelope,
    ToolCode,
    build_error_response,
    build_success_response,
)
from outrider.tools.jsonable import jsonable, scrubbed

MAX_MESSAGE_CHARACTERS = 20_000
MAX_FAULT_CHARACTERS = 300
_ENVELOPE_KEYS = {"code", "message", "data", "meta"}


def envelope_of(value: object) -> Envelope:
    """Return the envelope a tool meant: its own, or a success with the value as data."""
    if not isinstance(value, Mapping):
        return build_success_response(jsonable(value))
    fields = cast("Mapping[str, Any]", value)
    code = _code(fields.get("code"))
    if code is not None:
        return _with_code(fields, code)
    if _shaped_like_an_envelope(fields):
        return _with_unknown_code(fields)
    return build_success_response(jsonable(fields))


def envelope_of_fault(fault: BaseException) -> Envelope:
    """Return the envelope of an exception: what went wrong in a line, never a traceback."""
    lines = str(fault).strip().splitlines()
    text = lines[0][:MAX_FAULT_CHARACTERS] if lines else ""
    if isinstance(fault, TimeoutError):
        return build_error_response(ToolCode.TIMEOUT, scrubbed(text) or "The tool timed out.")
    name = type(fault).__name__
    return build_error_response(ToolCode.INTERNAL, scrubbed(f"{name}: {text}" if text else name))


def _code(given: Any) -> ToolCode | None:
    # A code that isn't a number, or is no code of the table, makes a mapping mere data.
    if isinstance(given, bool) or not isinstance(given, int):
        return None
    return next((known for known in ToolCode if int(known) == given), None)


def _with_code(fields: Mapping[str, Any], code: ToolCode) -> Envelope:
    extra = {key: value for key, value in fields.items() if key not in _ENVELOPE_KEYS}
    data = fields.get("data", extra or None)
    return {
        "code": int(code),
        "message": _message(fields) or code.meaning,
        "data": jsonable(data),
    }


def _with_unknown_code(fields: Mapping[str, Any]) -> Envelope:
    given = repr(jsonable(fields["code"]))[:80]
    message = f"the tool answered with {given}, which is no code of the table"
    said = _message(fields)
    return build_error_response(
        _nearest(fields["code"]),
        f"{said} ({message})" if said else message,
        jsonable(fields.get("data")),
    )


def _shaped_like_an_envelope(fields: Mapping[str, Any]) -> bool:
    return "code" in fields and len(fields) > 1 and set(fields) <= _ENVELOPE_KEYS


def _nearest(given: object) -> ToolCode:
    if isinstance(given, int) and 1000 <= given < 2000:
        return ToolCode.BAD_PARAMETER
    if isinstance(given, int) and 2000 <= given < 3000:
        return ToolCode.UPSTREAM_FAILED
    return ToolCode.INTERNAL


def _message(fields: Mapping[str, Any]) -> str:
    message = fields.get("message")
    return "" if message is None else scrubbed(str(message))[:MAX_MESSAGE_CHARACTERS]
