"""Steps: what a scripted model does with one request, as data, and the functions that make them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

ToolArgs: TypeAlias = Mapping[str, object] | str

__all__ = [
    "Reply", "Step", "Usage", "answer", "context_overflow", "cut", "drip", "empty", "endless",
    "fail", "garbage", "hang_up", "malformed", "refusal", "silence", "silence_after",
    "stream_error", "tool_call", "tool_calls",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Usage:
    """The tokens that a reply reports; `cached` is the part of `input` that came from a cache."""

    input: int = 10
    output: int = 5
    cached: int = 0


UsageLike: TypeAlias = object
"""A `Usage` or its two or three numbers. All else is sent as it is; with None there is no usage."""

DEFAULT_USAGE = Usage()
DEFAULT_CHUNK_SIZE = 32


class StreamEnd(Enum):
    """What happens after the last piece of a reply, or instead of one."""

    FINISHED = "finished"
    CUT = "cut"
    RESET = "reset"
    MALFORMED = "malformed"
    SILENT = "silent"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One tool call of a reply; without an `id` the server generates one."""

    name: str
    arguments: str
    id: str | None = None


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """A whole HTTP response that isn't an answer: an error, or garbage."""

    status: int
    body: str
    content_type: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Reply:
    """What the model says: text, refusal and tool calls in pieces, then an ending."""

    text: str = ""
    refusal: str = ""
    calls: tuple[ToolCall, ...] = ()
    usage: UsageLike = DEFAULT_USAGE
    chunk_size: int = DEFAULT_CHUNK_SIZE
    delay: float = 0
    finish_reason: object = "stop"
    """Sent as it is, whatever it is; with None the stream never says why it ended."""
    ending: StreamEnd = StreamEnd.FINISHED
    error: HttpResponse | None = None
    max_bytes: int = 0
    """Where it isn't 0, the text is repeated until so much was sent."""
    model: str | None = None
    """The model that the reply says it is from; None for the one that was asked for."""

    def __post_init__(self) -> None:
        """Raise ValueError for a reply that can't be streamed."""
        if self.chunk_size < 1:
            raise ValueError(f"chunk_size is {self.chunk_size}; it must be at least 1 character.")


Step: TypeAlias = Reply | HttpResponse | StreamEnd
"""An ending alone takes the place of a whole response."""


def answer(
    text: str,
    *,
    usage: UsageLike = DEFAULT_USAGE,
    chunk_size: int = DEFAULT_CHUNK_SIZE,
    delay: float = 0,
    finish_reason: object = "stop",
    model: str | None = None,
) -> Reply:
    """Text in chunks of `chunk_size` characters, `delay` seconds apart.

    With `finish_reason=None` the stream ends properly but never says why. `model` says that
    another model has answered.
    """
    return Reply(text, "", (), usage, chunk_size, delay, finish_reason, model=model)


def empty(*, usage: UsageLike = DEFAULT_USAGE) -> Reply:
    """A finished answer without any text."""
    return Reply(usage=usage)


def refusal(text: str, *, usage: UsageLike = DEFAULT_USAGE) -> Reply:
    """A refusal, in the wire format's own field for it."""
    return Reply(refusal=text, usage=usage)


def tool_call(
    name: str,
    args: ToolArgs,
    *,
    id: str | None = None,  # noqa: A002 - the wire format's own word
    text: str = "",
    usage: UsageLike = DEFAULT_USAGE,
    finish_reason: object = "tool_calls",
) -> Reply:
    """One tool call; `args` given as text are sent unchanged, malformed or not."""
    call = ToolCall(name, args if isinstance(args, str) else json.dumps(args), id)
    return Reply(text, calls=(call,), usage=usage, chunk_size=8, finish_reason=finish_reason)


def tool_calls(
    calls: Sequence[Reply | tuple[str, ToolArgs]],
    *,
    text: str = "",
    usage: UsageLike = DEFAULT_USAGE,
    finish_reason: object = "tool_calls",
) -> Reply:
    """Several tool calls in one turn, each a `tool_call(...)` or a pair of name and arguments."""
    parts = [tool_call(*call) if isinstance(call, tuple) else call for call in calls]
    texts = [text, *(part.text for part in parts)]
    each = tuple(call for part in parts for call in part.calls)
    return Reply("".join(texts), "", each, usage, 8, finish_reason=finish_reason)


def fail(
    status: int,
    *,
    message: str = "The scripted model failed, as the script says.",
    retry_after: float | str | None = None,
    code: str | None = None,
    type: str | None = None,  # noqa: A002 - the wire format's own word
    headers: Mapping[str, str] | None = None,
) -> HttpResponse:
    """An HTTP error: 401, 429 with `Retry-After`, 500, 529, or any other."""
    pairs = dict(headers or {})
    if retry_after is not None:
        pairs["Retry-After"] = str(retry_after)
    error = {"message": message, "type": type, "param": None, "code": code}
    body = json.dumps({"error": error}, separators=(",", ":"))
    return HttpResponse(status, body, headers=tuple(pairs.items()))


def context_overflow() -> HttpResponse:
    """The error for a conversation that no longer fits the model's window."""
    message = "The conversation is longer than this model's context window. Shorten it."
    return fail(400, message=message, code="context_length_exceeded", type="invalid_request_error")


def cut(text: str = "", *, reset: bool = False) -> Reply:
    """Text, then the end of the stream without a finish; with `reset` a reset connection."""
    return Reply(text, ending=StreamEnd.RESET if reset else StreamEnd.CUT)


def malformed(text: str = "") -> Reply:
    """Text, then an event that is not JSON, then an ordinary finish."""
    return Reply(text, ending=StreamEnd.MALFORMED)


def garbage(
    body: str = "<html><body>Bad gateway</body></html>", *, content_type: str = "text/html"
) -> HttpResponse:
    """Status 200 with a body that is neither JSON nor an event stream."""
    return HttpResponse(200, body, content_type)


def silence() -> Step:
    """No answer until the client or the server closes the connection."""
    return StreamEnd.SILENT


def silence_after(text: str) -> Reply:
    """Text, then silence on an open stream."""
    return Reply(text, ending=StreamEnd.SILENT)


def drip(text: str, seconds_per_chunk: float, *, chunk_size: int = 8) -> Reply:
    """A complete answer that arrives slowly, a few characters at a time."""
    return answer(text, chunk_size=chunk_size, delay=seconds_per_chunk)


def endless(chunk_text: str = "…", *, delay: float = 0, max_bytes: int = 256 << 20) -> Reply:
    """Output without end; `max_bytes` keeps a forgotten client from filling a disk."""
    return Reply(chunk_text, delay=delay, ending=StreamEnd.CUT, max_bytes=max_bytes)


def hang_up() -> Step:
    """A closed connection instead of a response."""
    return StreamEnd.CUT


def stream_error(
    message: str = "The scripted model failed in mid-stream.",
    code: str | None = None,
    *,
    text: str = "",
) -> Reply:
    """Text, then an error event in a stream that began with status 200."""
    error = fail(500, message=message, code=code, type="server_error")
    return Reply(text, ending=StreamEnd.ERROR, error=error)
