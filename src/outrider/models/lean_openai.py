"""OpenAI's client, with chat requests that don't get slower as the conversation grows.

The SDK walks the types of the whole conversation on each request, which at 400 turns takes longer
than everything else in a turn. Messages and tools already have their final form, so they are put
into the body without that walk.
"""

from functools import cache
from typing import Any

from openai import AsyncOpenAI
from openai._base_client import Platform, get_platform
from openai.resources.chat import AsyncChat
from openai.resources.chat.completions import AsyncCompletions


@cache
def _platform() -> Platform:
    return get_platform()


class LeanOpenAI(AsyncOpenAI):
    """A class, as the SDK copies a client for each request that has options of its own."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        # The SDK would start a thread for this in each child, which takes time and memory.
        self._platform = _platform()

    @property
    def chat(self) -> AsyncChat:
        """Chat completions."""
        return _LeanChat(self)


class _LeanChat(AsyncChat):
    @property
    def completions(self) -> AsyncCompletions:
        return _LeanCompletions(self._client)


class _LeanCompletions(AsyncCompletions):
    async def create(self, **request: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Send a request as the SDK does, with messages and tools put straight into the body."""
        extra: dict[str, Any] = dict(request.pop("extra_body", None) or {})
        extra["messages"] = request.pop("messages")
        if request.get("tools"):
            extra["tools"] = request.pop("tools")
        send: Any = super().create
        return await send(messages=[], extra_body=extra, **request)
