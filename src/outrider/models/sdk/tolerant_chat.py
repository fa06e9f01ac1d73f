"""Chat models that stand what a server sends in place of token counts and finish reasons."""

from functools import cache
from typing import Any

from pydantic_ai.messages import FinishReason
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIStreamedResponse
from pydantic_ai.usage import RequestUsage


class _TolerantStream(OpenAIStreamedResponse):
    def _map_usage(self, response: Any) -> RequestUsage:
        try:
            return super()._map_usage(response)
        except Exception:  # whatever is in the place of numbers
            return RequestUsage()

    def _add_usage(self, usage: RequestUsage, *, reported: bool, cumulative: bool = False) -> None:
        # Some servers send it with every chunk, each time of the whole answer so far.
        if reported:
            super()._add_usage(usage, reported=True, cumulative=True)

    def _map_finish_reason(self, key: Any) -> FinishReason | None:
        return None if isinstance(key, dict | list) else super()._map_finish_reason(key)


class _TolerantModel(OpenAIChatModel):
    @property
    def _streamed_response_cls(self) -> type[OpenAIStreamedResponse]:
        return _mixed(_TolerantStream, super()._streamed_response_cls)


def tolerant(model: type[OpenAIChatModel]) -> type[OpenAIChatModel]:
    """Return a class of models that differs only in that."""
    return _mixed(_TolerantModel, model)


@cache
def _mixed(first: type[Any], second: type[Any]) -> type[Any]:
    return first if issubclass(first, second) else type(second.__name__, (first, second), {})
