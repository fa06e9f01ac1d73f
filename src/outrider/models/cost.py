"""What the price list says of a model: what a response cost, and how large the window is."""

import math
from typing import TYPE_CHECKING

from outrider.models.known_providers import EMBEDDED

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelResponse
    from pydantic_ai.models import Model

_MIN_TOKENS = 12_000
"""What fits every window that is known: to look one up takes half a millisecond."""


def cost_of(response: "ModelResponse") -> tuple[float, bool]:
    """Return what a response cost in US dollars, and whether that is known."""
    if response.provider_name == EMBEDDED:
        return 0.0, True
    try:
        return float(response.cost().total_price), True
    except (LookupError, ValueError, AssertionError):
        return 0.0, False


def fullness(response: "ModelResponse") -> float:
    """Return which share of its model's window a conversation fills; 0 where that isn't known."""
    used = response.usage.input_tokens + response.usage.output_tokens
    if used < _MIN_TOKENS:
        return 0.0
    try:
        return used / (response.cost().model.context_window or math.inf)
    except (LookupError, ValueError, AssertionError):
        return 0.0


def has_price(model: "Model") -> bool:
    """Whether the price of `model` is known, before any request."""
    from pydantic_ai.messages import ModelResponse
    from pydantic_ai.usage import RequestUsage

    return cost_of(
        ModelResponse(
            parts=[],
            usage=RequestUsage(input_tokens=1, output_tokens=1),
            model_name=model.model_name,
            provider_name=model.system,
            provider_url=model.base_url,
        )
    )[1]
