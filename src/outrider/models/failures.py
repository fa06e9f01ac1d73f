"""What went wrong with a model, decided by the error's class and status, never by its text."""

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from outrider.models.local_servers import own_endpoint
from outrider.models.resolution import needs
from outrider.protocol.errors import OutriderError
from outrider.protocol.outcomes import FailureKind

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelResponse

_MAX_DETAIL = 300
_PASSING = (408, 425)
"""The statuses of a request that may be sent again as it is; pydantic-ai sorts the others."""


class ModelUnavailable(OutriderError):
    """A model that can't be built; the message says why and what to do."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed request: its kind, a message for people, and how long the provider says to wait."""

    kind: FailureKind
    message: str
    retry_after: float | None = None


def cut_failure(response: "ModelResponse") -> Failure | None:
    """Return the failure of an answer whose stream was cut; None if the answer is complete."""
    # Every provider ends with a reason; one that pydantic-ai can't map is in the details.
    if response.finish_reason or (response.provider_details or {}).get("finish_reason"):
        return None
    return Failure(FailureKind.CUT_STREAM, f"{_WORDS[FailureKind.CUT_STREAM]}.")


def classify(error: BaseException, model: str = "", base_url: str | None = None) -> Failure:
    """Return what `error`, raised by a request to `model` at an address, means."""
    kind = _kind(error)
    status = cast("int | None", getattr(error, "status_code", None))
    if status == 503 and own_endpoint(base_url):
        kind = FailureKind.LOADING
    retry_after = cast("float | None", getattr(error, "retry_after", None))
    return Failure(kind, _message(kind, error, status, model), retry_after)


def _kind(error: BaseException) -> FailureKind:
    import httpx2
    from pydantic_ai import exceptions as known

    # Most specific first: some of these are subclasses of others.
    by_class: tuple[tuple[type[BaseException], FailureKind], ...] = (
        (known.ModelRateLimitError, FailureKind.RATE_LIMIT),
        (known.ModelQuotaExceededError, FailureKind.QUOTA),
        (known.ModelUnavailableError, FailureKind.OVERLOADED),
        (known.ModelServerError, FailureKind.SERVER),
        (known.ModelTimeoutError, FailureKind.TIMEOUT),
        (known.ModelRequestTimeout, FailureKind.TIMEOUT),
        (known.ModelConnectionError, FailureKind.CONNECTION),
        (known.ModelContextWindowExceededError, FailureKind.WINDOW_OVERFLOW),
        (known.ModelAuthenticationError, FailureKind.AUTHENTICATION),
        (known.ModelNotFoundError, FailureKind.NOT_FOUND),
        (known.ContentFilterError, FailureKind.CONTENT_FILTER),
        (known.UnexpectedModelBehavior, FailureKind.MALFORMED),
        (TimeoutError, FailureKind.TIMEOUT),
        (ConnectionError, FailureKind.CONNECTION),
        (json.JSONDecodeError, FailureKind.MALFORMED),
        (UnicodeDecodeError, FailureKind.MALFORMED),
        (httpx2.TimeoutException, FailureKind.TIMEOUT),
        (httpx2.TransportError, FailureKind.CONNECTION),
    )
    for error_class, kind in by_class:
        if isinstance(error, error_class):
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


# These are followed by the provider's own sentence.
_WITH_DETAIL = {
    FailureKind.CONNECTION: "The connection to the model's provider failed or was lost",
    FailureKind.SERVER: "The model's provider failed",
    FailureKind.NOT_FOUND: "The model's provider doesn't know this model",
    FailureKind.REJECTED: "The model's provider rejected the request",
    FailureKind.MALFORMED: "The model's provider sent an unreadable response",
    FailureKind.UNKNOWN: "The request to the model failed",
}
_WORDS = _WITH_DETAIL | {
    FailureKind.RATE_LIMIT: "The model's provider is limiting requests",
    FailureKind.OVERLOADED: "The model's provider is overloaded or unavailable",
    FailureKind.LOADING: "The local model server is busy or still loading its model",
    FailureKind.TIMEOUT: "The model's provider didn't answer in time",
    FailureKind.AUTHENTICATION: "The model's provider refused the key",
    FailureKind.QUOTA: "The provider account has no credit or quota left",
    FailureKind.WINDOW_OVERFLOW: "The conversation no longer fits the model's context window",
    FailureKind.CONTENT_FILTER: "The model's provider filtered the answer",
    FailureKind.CUT_STREAM: "The model's answer was cut off: its stream ended early",
}


def _message(kind: FailureKind, error: BaseException, status: int | None, model: str) -> str:
    text = _WORDS[kind] + (f" (HTTP {status})" if status else "")
    if kind is FailureKind.AUTHENTICATION:
        keys = " or ".join(needs(model)) or "its credentials"
        return f"{text}: check {keys}."
    if kind is FailureKind.NOT_FOUND and model:
        text += f" [{model}]"
    detail = _detail(error) if kind in _WITH_DETAIL else ""
    return f"{text}: {detail}" if detail else f"{text}."


def _detail(error: BaseException) -> str:
    """Return the provider's own sentence, if it sent one; never its whole answer."""
    body: Any = getattr(error, "body", None)
    if isinstance(body, dict):
        fields = cast("dict[str, Any]", body)
        inner: Any = fields.get("error", fields)
        if isinstance(inner, dict):
            inner = cast("dict[str, Any]", inner).get("message")
        text = inner if isinstance(inner, str) else ""
    elif getattr(error, "status_code", None) is not None:
        text = ""
    else:
        cause = error.__cause__ or error
        text = getattr(error, "message", "") or str(cause) or type(cause).__name__
    text = " ".join(text[: _MAX_DETAIL * 4].split())
    return text if len(text) <= _MAX_DETAIL else text[: _MAX_DETAIL - 1] + "…"
