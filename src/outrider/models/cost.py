"""What the price list says of a model: what an answer cost, and how large the window is."""

import asyncio
import math
import re
import sys
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

from outrider.models.known_providers import EMBEDDED
from outrider.models.messages import ModelAnswer
from outrider.protocol.usage import Usage

if TYPE_CHECKING:
    from genai_prices.types import PriceCalculation

_LIST = "genai_prices.data"
_SOON_SECONDS = 0.05
"""When a request is on its way."""
_MIN_TOKENS = 12_000
"""What fits every window that is known: to look one up takes half a millisecond."""


def load_prices_soon() -> None:
    """Load the list while the model is waited for: that takes a fifth of a second of CPU time."""
    if _LIST not in sys.modules:
        loop = asyncio.get_running_loop()
        loop.call_later(_SOON_SECONDS, loop.run_in_executor, None, import_module, _LIST)


def cost_of(answer: ModelAnswer, usage: Usage) -> tuple[float, bool]:
    """Return what an answer cost in US dollars, and whether that is known."""
    if answer.provider == EMBEDDED:
        return 0.0, True
    price = _price(answer, usage)
    return (float(price.total_price), True) if price else (0.0, False)


def fullness(answer: ModelAnswer, usage: Usage) -> float:
    """Return which share of its model's window a conversation fills; 0 where that isn't known."""
    if usage.tokens < _MIN_TOKENS:
        return 0.0
    price = _price(answer, usage)
    return usage.tokens / ((price and price.model.context_window) or math.inf)


def has_price(model: str, env: Mapping[str, str]) -> bool:
    """Whether the price of `provider:name` is known, before any request."""
    provider, _, name = model.partition(":")
    address = next((env[one] for one in env if one.endswith("_BASE_URL")), None)
    answer = ModelAnswer(re.sub("-(chat|responses)$", "", provider), address, name)
    return cost_of(answer, Usage(input=1, output=1))[1]


def _price(answer: ModelAnswer, usage: Usage) -> "PriceCalculation | None":
    from genai_prices import Usage as Priced, calc_price

    tokens = Priced(
        input_tokens=usage.input,
        output_tokens=usage.output,
        cache_read_tokens=usage.cache_read,
        cache_write_tokens=usage.cache_write,
    )
    # The address says more than the provider's name, and the list may not know it.
    places: list[Any] = [{"provider_api_url": answer.base_url}, {"provider_id": answer.provider}]
    for place in places:
        with suppress(Exception):  # or what the provider calls its model isn't even a name
            return calc_price(tokens, answer.model, price_context=answer.price_context, **place)
    return None
