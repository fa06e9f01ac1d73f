"""How a delegation can end: outcomes, their error codes, and kinds of failures of a model."""

from enum import StrEnum

from outrider.protocol.errors import ErrorCode


class Outcome(StrEnum):
    """How a child's run ended, in `results[0].outcome`."""

    COMPLETED = "completed"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"
    OVER_BUDGET = "over_budget"
    SCHEMA_FAILED = "schema_failed"
    CHECK_FAILED = "check_failed"
    FAILED = "failed"


class TimeoutReason(StrEnum):
    """Which deadline passed."""

    RUNTIME = "runtime"
    IDLE = "idle"


ERROR_OF_OUTCOME = {
    Outcome.TIMED_OUT: ErrorCode.SUBAGENT_TIMEOUT,
    Outcome.CANCELLED: ErrorCode.SUBAGENT_CANCELLED,
    Outcome.OVER_BUDGET: ErrorCode.SUBAGENT_BUDGET_EXCEEDED,
    Outcome.SCHEMA_FAILED: ErrorCode.SUBAGENT_OUTPUT_INVALID,
    Outcome.CHECK_FAILED: ErrorCode.SUBAGENT_CHECK_FAILED,
    Outcome.FAILED: ErrorCode.SUBAGENT_FAILED,
}


class FailureKind(StrEnum):
    """What went wrong with a request to a model."""

    CONNECTION = "connection"
    RATE_LIMIT = "rate_limit"
    OVERLOADED = "overloaded"
    LOADING = "loading"
    SERVER = "server"
    TIMEOUT = "timeout"
    AUTHENTICATION = "authentication"
    NOT_FOUND = "not_found"
    QUOTA = "quota"
    WINDOW_OVERFLOW = "window_overflow"
    CONTENT_FILTER = "content_filter"
    REJECTED = "rejected"
    CUT_STREAM = "cut_stream"
    MALFORMED = "malformed"
    UNKNOWN = "unknown"
