"""What a run used: tokens, money and turns, summed over all of its attempts."""

from collections.abc import Callable, Sequence
from typing import TypeGuard

from outrider.protocol.data import frozen

MAX_TOKENS = 1_000_000_000
BYTES_PER_TOKEN = 4  # what a token is estimated as, where nobody counted


@frozen
class Usage:
    """Tokens, cost in US dollars, and turns; `cost` means something where `cost_known` is true."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cost: float = 0.0
    turns: int = 0
    cost_known: bool = True
    estimated: bool = False
    """Whether any of the tokens weren't counted by the provider, but estimated from bytes."""

    @property
    def tokens(self) -> int:
        """Tokens in and out."""
        return self.input + self.output

    def __add__(self, other: "Usage") -> "Usage":
        known = self.cost_known and other.cost_known
        return Usage(
            input=self.input + other.input,
            output=self.output + other.output,
            cache_read=self.cache_read + other.cache_read,
            cache_write=self.cache_write + other.cache_write,
            cost=self.cost + other.cost if known else 0.0,
            turns=self.turns + other.turns,
            cost_known=known,
            estimated=self.estimated or other.estimated,
        )


def is_count(value: object) -> TypeGuard[int]:
    """Whether a number of tokens from elsewhere can be one."""
    return type(value) is int and 0 <= value <= MAX_TOKENS


def counted_usage(given: Sequence[object], sent: Callable[[], int], written: int) -> Usage:
    """Return the tokens that a provider counted: in, out, and those read from and put in a cache.

    A count that can't be one is passed over; one that an answer lacks is estimated by the tokens
    that were `sent` and `written`.
    """
    fresh, output, read, write = (one if is_count(one) else 0 for one in given)
    is_odd = any(one is not None and not is_count(one) for one in given)
    if written and not (fresh and output):
        fresh, output, is_odd = fresh or sent(), output or written, True
    if read + write > fresh:
        read, write, is_odd = 0, 0, True
    return Usage(fresh, output, read, write, estimated=is_odd)


def estimated_tokens(*texts: str) -> int:
    """Return about how many tokens texts have: one for each four bytes of UTF-8."""
    return -(-sum(len(text.encode(errors="replace")) for text in texts) // BYTES_PER_TOKEN)
