"""A conversation with a model in words of our own; each wire turns them into its provider's."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from outrider.protocol.data import frozen
from outrider.protocol.envelope import Envelope


@frozen
class SystemPrompt:
    """Who the model is to be."""

    text: str


@frozen
class UserPrompt:
    """What the user said, or Outrider on its own account."""

    text: str
    is_ours: bool = False  # said beside the task: by us, or by a person while the child works


@frozen
class ModelCall:
    """A call as the model wrote it, whatever that is."""

    id: str
    name: str
    arguments: Any = None
    extra: Any = None  # what its provider wants back with it, such as the signature of a thought


@frozen
class CallResult:
    id: str
    name: str
    text: str
    has_failed: bool = False
    envelope: Envelope | None = None  # sent to no provider; the embedded model reads it


@dataclass(slots=True)
class ModelAnswer:
    """What a model says, as far as it has come; nothing in it has been checked."""

    provider: str = ""
    base_url: str | None = None
    model: Any = None  # who answers, as the provider calls it
    text: str = ""
    thoughts: dict[str, str] = field(default_factory=dict[str, str])
    """What it thought, by the field it came in, in which it is sent back."""
    calls: list[ModelCall] = field(default_factory=list[ModelCall])
    endings: list[Any] = field(default_factory=list[Any])  # every finish reason that was given
    tokens: tuple[Any, ...] = (None, None, None, None)
    """In, out, read from a cache and put there, as the provider counted them."""
    price_context: dict[str, Any] = field(default_factory=dict[str, Any])
    failure: str | None = None  # why the model itself says that it failed
    native: Any = None  # in the provider layer's words, with parts that only it can send back


Message = SystemPrompt | UserPrompt | CallResult | ModelAnswer
Conversation = Sequence[Message]


class OfferedTool(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def parameters(self) -> dict[str, Any]: ...


OfferedTools = Sequence[OfferedTool]


class ChatModel(Protocol):
    name: str
    provider: str
    base_url: str | None
    takes_schema: bool
    has_native: bool

    def stream(
        self, messages: Conversation, tools: OfferedTools, schema: Any, answer: ModelAnswer
    ) -> AsyncIterator[str]:
        """Yield the text as it comes, and nothing now and then as a sign of life.

        With a schema the text is JSON that fits it. `answer` is filled; raises `RequestFailed`.
        """
        ...
