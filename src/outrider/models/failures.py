"""What went wrong with a model, decided by the error's class and status, never by its text."""

from dataclasses import dataclass
from json import JSONDecodeError
from typing import TYPE_CHECKING, Any, cast

from outrider.models.local_servers import own_endpoint
from outrider.models.resolution import needs
from outrider.protocol.data import member
from outrider.protocol.errors import OutriderError
from outrider.protocol.outcomes import FailureKind
from outrider.protocol.text import one_line

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelResponse

_MAX_DETAIL = 300
_PASSING = (408, 425)
"""The statuses of a request that may be sent again as it is; pydantic-ai sorts the others."""


class ModelUnavailable(OutriderError):
    """A model that can't be built; the message says why and what to do."""


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

    late = (known.ModelTimeoutError, known.ModelRequestTimeout, TimeoutError)
    lost = (known.ModelConnectionError, ConnectionError, httpx2.TransportError)
    # Most specific first: some of these are subclasses of others.
    by_kind: dict[FailureKind, type[Exception] | tuple[type[Exception], ...]] = {
        FailureKind.RATE_LIMIT: known.ModelRateLimitError,
        FailureKind.QUOTA: known.ModelQuotaExceededError,
        FailureKind.OVERLOADED: known.ModelUnavailableError,
        FailureKind.SERVER: known.ModelServerError,
        FailureKind.TIMEOUT: (*late, httpx2.TimeoutException),
        FailureKind.CONNECTION: lost,
        FailureKind.WINDOW_OVERFLOW: known.ModelContextWindowExceededError,
        FailureKind.AUTHENTICATION: known.ModelAuthenticationError,
        FailureKind.NOT_FOUND: known.ModelNotFoundError,
        FailureKind.CONTENT_FILTER: known.ContentFilterError,
        FailureKind.MALFORMED: (known.UnexpectedModelBehavior, JSONDecodeError, UnicodeDecodeError),
    }
    for kind, classes in by_kind.items():
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
    text: Any = ""
    if isinstance(body, dict):
        inner: Any = member(body, "error") or cast("Any", body)
        text = member(inner, "message") if isinstance(inner, dict) else inner
    elif getattr(error, "status_code", None) is None:
        cause = error.__cause__ or error
        text = getattr(error, "message", "") or str(cause) or type(cause).__name__
    return one_line(text[: _MAX_DETAIL * 4], _MAX_DETAIL) if isinstance(text, str) else ""
