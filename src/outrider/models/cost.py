"""What the price list says of a model: what an answer cost, and how large the window is."""

import asyncio
import math
import re
import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from outrider.models.known_providers import EMBEDDED
from outrider.models.local_servers import own_endpoint
from outrider.models.messages import ModelAnswer
from outrider.models.wires import OPENAI_URL
from outrider.protocol.usage import Usage

if TYPE_CHECKING:
    from genai_prices.types import PriceCalculation

_LIST = "genai_prices.data"
_SOON_SECONDS = 0.05  # when a request is on its way
_MIN_TOKENS = 12_000  # fits every window known: to look one up takes half a millisecond


def load_prices_soon() -> None:
    """Load the list while the model is waited for: that takes a fifth of a second of CPU time."""
    if _LIST not in sys.modules:
        loop = asyncio.get_running_loop()
        loop.call_later(_SOON_SECONDS, loop.run_in_executor, None, import_module, _LIST)


def remember_price(model: str) -> None:
    """Look up a model, if the list is loaded: the forks of this process needn't do it again."""
    provider, _, name = model.partition(":")
    if _LIST in sys.modules:
        _known(name, provider_id=provider.removesuffix("-chat"))
        _known(name, provider_api_url=OPENAI_URL)


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
    provider = re.sub("-(chat|responses)$", "", provider)
    address = env.get(f"{provider.upper().replace('-', '_')}_BASE_URL")
    return cost_of(ModelAnswer(provider, address, name), Usage(input=1, output=1))[1]


def _price(answer: ModelAnswer, usage: Usage) -> "PriceCalculation | None":
    from genai_prices import Usage as Priced, calc_price

    # The address says more than the provider's name, and the list may not know it.
    places: list[dict[str, Any]] = [{"provider_id": answer.provider}]
    if not own_endpoint(answer.base_url):
        places.insert(0, {"provider_api_url": answer.base_url})
    for place in places:
        with suppress(Exception):  # or what the provider calls its model isn't even a name
            if _known(answer.model, **place):
                tokens = Priced(
                    input_tokens=usage.input,
                    output_tokens=usage.output,
                    cache_read_tokens=usage.cache_read,
                    cache_write_tokens=usage.cache_write,
                )
                return calc_price(tokens, answer.model, price_context=answer.price_context, **place)
    return None


@lru_cache
def _known(model: str, provider_id: str | None = None, provider_api_url: str | None = None) -> bool:
    """Whether the list has a model; that it hasn't, the list itself doesn't remember."""
    from genai_prices.data_snapshot import get_snapshot

    with suppress(LookupError):
        get_snapshot().find_provider_model(model, None, provider_id, provider_api_url)
        return True
    return False
