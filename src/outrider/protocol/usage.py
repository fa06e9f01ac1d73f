"""What a run used: tokens, money and turns, summed over all of its attempts."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens, cost in US dollars, and turns; `cost` means something where `cost_known` is true."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cost: float = 0.0
    turns: int = 0
    cost_known: bool = True

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
        )
