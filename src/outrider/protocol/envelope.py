"""The one shape of every tool's answer, and the one table of its codes."""

from enum import IntEnum
from typing import Any, NotRequired, TypedDict, cast

from outrider.protocol.errors import OutriderError


class ToolCode(IntEnum):
    """How a tool call ended: 0 success, 1xxx the caller, 2xxx a service, all others the system."""

    meaning: str

    def __new__(cls, value: int, meaning: str) -> "ToolCode":
        member = int.__new__(cls, value)
        member._value_ = value
        member.meaning = meaning
        return member

    SUCCESS = 0, "success"
    ARGUMENTS_NOT_JSON = 1001, "arguments are not JSON"
    BAD_PARAMETER = 1002, "bad parameter"
    NOT_FOUND = 1003, "not found"
    DENIED = 1004, "denied by policy"
    UNKNOWN_TOOL = 1005, "unknown tool"
    CONFLICT = 1006, "conflict (missing or not unique)"
    TOO_LARGE = 1007, "too large or unsupported"
    UPSTREAM_FAILED = 2001, "upstream failed"
    TIMEOUT = 2002, "timeout"
    RATE_LIMITED = 2003, "rate limited"
    NOT_AVAILABLE = 2004, "not available (not installed or not running)"
    NOT_AUTHORISED = 2005, "not authorised"
    INTERNAL = 5000, "internal error"


_RANGES = {1: "the caller's error", 2: "a service's error"}


def meaning_of(code: int) -> str:
    """Return what a code means: by the table, or else by its range."""
    known = {int(known): known.meaning for known in ToolCode}
    return known.get(code) or _RANGES.get(code // 1000, "a system error")


class Meta(TypedDict):
    """What the executor knows of a call; a field that doesn't apply is null."""

    execution_time_ms: float
    tool: str
    resource_type: str | None
    session_id: str | None
    temporary_session: bool


class Envelope(TypedDict):
    """A tool's answer; `meta` is filled in by the executor and by nobody else."""

    code: int
    message: str
    data: Any
    meta: NotRequired[Meta]


def build_meta(
    tool: str,
    elapsed_seconds: float,
    resource_type: str | None = None,
    session_id: str | None = None,
    temporary_session: bool = False,
) -> Meta:
    return {
        "execution_time_ms": round(elapsed_seconds * 1000, 3),
        "tool": tool[:100],
        "resource_type": resource_type,
        "session_id": session_id,
        "temporary_session": temporary_session,
    }


def build_success_response(data: Any = None, message: str = "success") -> Envelope:
    """Return an envelope that says the call succeeded."""
    return {"code": int(ToolCode.SUCCESS), "message": message, "data": data}


def build_error_response(code: int, message: str, data: Any = None) -> Envelope:
    """Return an envelope that says the call failed, and how."""
    return {"code": int(code), "message": message, "data": data}


def is_success(envelope: object) -> bool:
    """Whether something is an envelope that says that the call succeeded."""
    return isinstance(envelope, dict) and cast("Any", envelope).get("code") == ToolCode.SUCCESS


class ToolFault(OutriderError):
    """Why a tool call is refused or fails; it becomes the caller's envelope."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data
