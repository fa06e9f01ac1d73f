"""OpenAI's client without its look at every old message: a long history stays cheap to send.

The SDK walks the types of the whole conversation on each request, which at 400 turns takes longer
than all else in a turn. Messages and tools are in their final form already, so they go round that
walk.
"""

from typing import Any

from openai import AsyncOpenAI
from openai.resources.chat import AsyncChat
from openai.resources.chat.completions import AsyncCompletions


class _LeanCompletions(AsyncCompletions):
    async def create(self, **request: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Send a request as the SDK does; messages and tools are put straight into the body."""
        extra: dict[str, Any] = dict(request.pop("extra_body", None) or {})
        extra["messages"] = request.pop("messages")
        if request.get("tools"):
            extra["tools"] = request.pop("tools")
        send: Any = super().create
        return await send(messages=[], extra_body=extra, **request)


class _LeanChat(AsyncChat):
    @property
    def completions(self) -> AsyncCompletions:
        return _LeanCompletions(self._client)


class LeanOpenAI(AsyncOpenAI):
    """An `AsyncOpenAI` whose chat completions don't slow down as the conversation grows."""

    @property
    def chat(self) -> AsyncChat:
        return _LeanChat(self)
