"""What a server that speaks chat completions means by an error, before or within its stream."""

from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from math import inf
from typing import Any

from outrider.models.failures import sentence_in
from outrider.protocol import jsonl
from outrider.protocol.data import as_object, member
from outrider.protocol.outcomes import FailureKind

_QUOTA = (
    "insufficient_quota billing_hard_limit_reached credit_balance_exhausted "
    "organization_spend_limit_exceeded project_spend_limit_exceeded "
    "organization_usage_limit_exceeded"
)
# By the `code` or the `type` of an error, whatever its status is.
_BY_WORD = {
    **dict.fromkeys(_QUOTA.split(), FailureKind.QUOTA),
    "context_length_exceeded": FailureKind.WINDOW_OVERFLOW,
    "exceed_context_size_error": FailureKind.WINDOW_OVERFLOW,
    "model_not_found": FailureKind.NOT_FOUND,
    "invalid_api_key": FailureKind.AUTHENTICATION,
}
# Within a stream an error has no status: this is the one it would have had before.
_STATUS_OF_WORD = {
    **dict.fromkeys(("rate_limit_exceeded", "rate_limit_error", "too_many_requests"), 429),
    **dict.fromkeys(_QUOTA.split(), 429),
    "context_length_exceeded": 400,
    **dict.fromkeys(("service_unavailable", "service_unavailable_error"), 503),
    **dict.fromkeys(("server_is_overloaded", "overloaded"), 503),
    "server_error": 500,
}
_BY_STATUS = {
    **dict.fromkeys((401, 403), FailureKind.AUTHENTICATION),
    402: FailureKind.QUOTA,
    404: FailureKind.NOT_FOUND,
    **dict.fromkeys((408, 425), FailureKind.TIMEOUT),
    429: FailureKind.RATE_LIMIT,
    **dict.fromkeys((503, 529), FailureKind.OVERLOADED),
}
# How servers word an overflow that send no code for it.
_OVERFLOWS = ("maximum context length", "reduce the length of the messages")
_OVERLOADS = ("overloaded", "over capacity")


def status_error(status: int, body: bytes) -> tuple[FailureKind, str]:
    """Return what a status that is no success means, and the provider's own sentence."""
    told: Any = None
    text = body.decode(errors="replace")
    with suppress(ValueError):
        told = jsonl.decode(text.encode())
    error = as_object(member(told, "error")) or told
    return _kind(status, error, text), sentence_in(told)


def event_error(error: Any) -> tuple[FailureKind, int | None, str]:
    """Return what an error within a stream means, the status it would have had, and its words."""
    code = str(member(error, "code"))
    words = (code, str(member(error, "type")))
    status = next((_STATUS_OF_WORD[word] for word in words if word in _STATUS_OF_WORD), None)
    if status is None and code.isdecimal() and len(code) == 3 and code[0] in "45":
        status = int(code)
    detail = error if isinstance(error, str) else sentence_in(error)
    return _kind(status, error, detail), status, detail


def _kind(status: int | None, error: Any, text: str) -> FailureKind:
    words = [one for one in (member(error, "code"), member(error, "type")) if isinstance(one, str)]
    if known := next(filter(None, map(_BY_WORD.get, words)), None):
        return known
    if any(phrase in text.lower() for phrase in _OVERFLOWS):
        return FailureKind.WINDOW_OVERFLOW
    if any(phrase in word.lower() for phrase in _OVERLOADS for word in words):
        return FailureKind.OVERLOADED
    if status is None or status < 400:
        return FailureKind.UNKNOWN
    return _BY_STATUS.get(status, FailureKind.SERVER if status >= 500 else FailureKind.REJECTED)


def seconds_to_wait(headers: Mapping[str, str]) -> float | None:
    """Return how long the server says to wait, by `retry-after-ms` or `Retry-After`."""
    with suppress(ValueError):
        if 0 <= (wait_ms := float(headers.get("retry-after-ms", ""))) < inf:
            return wait_ms / 1000
    told = headers.get("retry-after", "").strip()
    if told.isdecimal():
        return float(told[:20])
    from email.utils import parsedate_to_datetime  # a heavy import, seldom needed

    with suppress(ValueError, TypeError, OverflowError):
        when = parsedate_to_datetime(told)
        when = when if when.tzinfo else when.replace(tzinfo=UTC)
        return max(0.0, (when - datetime.now(UTC)).total_seconds())
    return None
