"""What can go wrong with a request to a model: its kind, and the words for people."""

from typing import Any

from outrider.models.endings import StopReason, stop_reason
from outrider.models.local_servers import own_endpoint
from outrider.models.messages import ModelAnswer
from outrider.models.resolution import needs
from outrider.protocol.data import as_object, frozen, member
from outrider.protocol.errors import OutriderError
from outrider.protocol.outcomes import FailureKind
from outrider.protocol.text import as_sentence, one_line

_FILTERED = "The model refused, or its provider's content filter withheld the answer."
_LOST_CALL = "The model's provider announced a tool call and sent none."
_MAX_DETAIL = 300


class ModelUnavailable(OutriderError):
    """A model that can't be built; the message says why and what to do."""


@frozen
class Failure:
    """A failed request: its kind, a message for people, and how long the provider says to wait."""

    kind: FailureKind
    message: str
    retry_after: float | None = None


class RequestFailed(OutriderError):
    """A request that brought no whole answer."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


def ending_of(answer: ModelAnswer) -> tuple[StopReason, Failure | None]:
    """Return how an answer ended, and the failure of one that is neither whole nor cut short."""
    match reason := stop_reason(*answer.endings):
        case None:
            failure = failure_of(FailureKind.CUT_STREAM)
        case StopReason.FILTERED:
            failure = Failure(FailureKind.CONTENT_FILTER, _FILTERED)
        case StopReason.FAILED:
            shown = ", ".join(dict.fromkeys(repr(one)[:_MAX_DETAIL] for one in answer.endings))
            words = f"The model's provider ended the answer with {shown}: it isn't whole."
            failure = Failure(FailureKind.UNKNOWN, answer.failure or words)
        case StopReason.CALLED if not answer.calls:
            failure = Failure(FailureKind.MALFORMED, _LOST_CALL)
        case _:
            failure = None
    return reason or StopReason.FAILED, failure


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


def failure_of(
    kind: FailureKind,
    status: int | None = None,
    detail: str = "",
    *,
    model: str = "",
    base_url: str | None = None,
    retry_after: float | None = None,
) -> Failure:
    """Return the failure of a request to `model`, in words that say what to do.

    `detail` is what the provider or the network said. `base_url` is given where nothing has been
    answered yet: a server of the user's own may still load its model.
    """
    if status == 503 and own_endpoint(base_url):
        kind = FailureKind.LOADING
    text = _WORDS[kind] + (f" (HTTP {status})" if status else "")
    if kind is FailureKind.AUTHENTICATION:
        keys = " or ".join(needs(model)) or "its credentials"
        return Failure(kind, f"{text}: check {keys}.", retry_after)
    if kind is FailureKind.NOT_FOUND and model:
        text += f" [{model}]"
    detail = one_line(detail[: _MAX_DETAIL * 4], _MAX_DETAIL) if kind in _WITH_DETAIL else ""
    place = (base_url or "").rpartition("@")[2] if kind is FailureKind.CONNECTION else ""
    text += f" ({place})" if place else ""
    text = f"{text}: {detail}" if detail else f"{text}."
    if place:
        here = "that the server is running, and its address"
        text = f"{as_sentence(text)} Check {here if own_endpoint(base_url) else 'the network'}."
    return Failure(kind, text, retry_after)


def sentence_in(body: object) -> str:
    """Return the provider's own sentence in the body of an error, if there is one; never all."""
    inner: Any = member(body, "error") or as_object(body)
    text: Any = inner if isinstance(inner, str) else member(inner, "message")
    return text if isinstance(text, str) else ""
