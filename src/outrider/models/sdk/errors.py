"""What went wrong in the provider layer, by the error's class and status, never by its text."""

from json import JSONDecodeError
from typing import Any, cast

import httpx2
from pydantic_ai import exceptions as known

from outrider.models.failures import Failure, failure_of, sentence_in
from outrider.protocol.data import as_object
from outrider.protocol.outcomes import FailureKind

_PASSING = (408, 425)  # statuses of a request that may be sent again; pydantic-ai sorts others
_LATE = (known.ModelTimeoutError, known.ModelRequestTimeout, TimeoutError, httpx2.TimeoutException)
_LOST = (known.ModelConnectionError, ConnectionError, httpx2.TransportError)
# Most specific first: some of these are subclasses of others.
_KINDS: dict[FailureKind, type[Exception] | tuple[type[Exception], ...]] = {
    FailureKind.RATE_LIMIT: known.ModelRateLimitError,
    FailureKind.QUOTA: known.ModelQuotaExceededError,
    FailureKind.OVERLOADED: known.ModelUnavailableError,
    FailureKind.SERVER: known.ModelServerError,
    FailureKind.TIMEOUT: _LATE,
    FailureKind.CONNECTION: _LOST,
    FailureKind.WINDOW_OVERFLOW: known.ModelContextWindowExceededError,
    FailureKind.AUTHENTICATION: known.ModelAuthenticationError,
    FailureKind.NOT_FOUND: known.ModelNotFoundError,
    FailureKind.CONTENT_FILTER: known.ContentFilterError,
    FailureKind.MALFORMED: (known.UnexpectedModelBehavior, JSONDecodeError, UnicodeDecodeError),
}


def classify(error: BaseException, model: str = "", base_url: str | None = None) -> Failure:
    status = cast("int | None", getattr(error, "status_code", None))
    wait = cast("float | None", getattr(error, "retry_after", None))
    kind, detail = _kind(error), _detail(error, status)
    return failure_of(kind, status, detail, model=model, base_url=base_url, retry_after=wait)


def _kind(error: BaseException) -> FailureKind:
    for kind, classes in _KINDS.items():
        if isinstance(error, classes):
            return kind
    if isinstance(error, known.ModelHTTPError):
        if error.status_code in _PASSING:
            return FailureKind.TIMEOUT
        return FailureKind.SERVER if error.status_code >= 500 else FailureKind.REJECTED
    if isinstance(error, known.ModelRequestRejectedError):
        return FailureKind.REJECTED
    if not isinstance(error, known.ModelAPIError):
        return FailureKind.UNKNOWN
    # An error without a class of its own: a stream that couldn't be decoded, or that was cut.
    if isinstance(error.__cause__, ValueError):
        return FailureKind.MALFORMED
    return FailureKind.CUT_STREAM if error.__cause__ is None else FailureKind.UNKNOWN


def _detail(error: BaseException, status: int | None) -> str:
    body = cast("Any", getattr(error, "body", None))
    if as_object(body) or status is not None:
        return sentence_in(body)
    cause = error.__cause__ or error
    text: Any = getattr(error, "message", "") or str(cause) or type(cause).__name__
    return text if isinstance(text, str) else ""
