"""What all children of a map may use together, and how many of them run at once."""

import math
from dataclasses import dataclass, field, replace

from outrider.protocol.usage import Usage

Money = tuple[float, float]
"""US dollars and tokens; infinite where nothing limits them."""
UNLIMITED: Money = (math.inf, math.inf)


def added(money: Money, usage: Usage) -> Money:
    """Return the money with what a run used on top; a cost that isn't known counts as none."""
    return money[0] + usage.cost, money[1] + usage.tokens


@dataclass(slots=True)
class Purse:
    """Money for the whole map. What a child may use at most is set aside before it starts.

    A child ends after the request with which it has used its part, so that the sum is never
    passed by more than one request of each running child.
    """

    most: Money = UNLIMITED
    each: Money = UNLIMITED
    """What one child may use at most."""
    spent: Money = (0.0, 0.0)
    _set_aside: dict[str, Money] = field(default_factory=dict[str, Money])

    @property
    def left(self) -> Money:
        """What is neither spent nor set aside."""
        gone = [self.spent, *self._set_aside.values()]
        cost, tokens = (sum(part) for part in zip(*gone, strict=True))
        return self.most[0] - cost, self.most[1] - tokens

    @property
    def is_empty(self) -> bool:
        """Whether nothing is left, and nothing will be given back."""
        return not self._set_aside and min(self.left) <= 0

    def reserve(self, key: str) -> Money | None:
        """Set aside what a child may use, and return it; None while there isn't enough."""
        left = self.left
        enough = all(part >= wanted for part, wanted in zip(left, self.each, strict=True))
        if min(left) <= 0 or not (enough or not self._set_aside):
            return None
        cost, tokens = min(left[0], self.each[0]), min(left[1], self.each[1])
        self._set_aside[key] = (
            0.0 if math.isinf(cost) else cost,
            0.0 if math.isinf(tokens) else tokens,
        )
        return cost, tokens

    def settle(self, key: str, usage: Usage) -> None:
        """Give back what a child hasn't used; all is used where its cost isn't known."""
        cost, _ = self._set_aside.pop(key)
        is_known = usage.cost_known or not usage.tokens
        self.spent = added(self.spent, usage if is_known else replace(usage, cost=cost))


@dataclass(slots=True)
class Pace:
    """How many run at once: half as many when a provider limits the rate, then slowly more.

    The wait that the provider asks for holds back the whole map.
    """

    most: int
    until: float = 0.0
    _now: float = 0.0
    _halved_until: float = 0.0

    def __post_init__(self) -> None:
        self._now = float(self.most)

    def allowed(self, now: float) -> int:
        """Return how many may run at this time."""
        return 0 if now < self.until else int(self._now)

    def slow_down(self, now: float, seconds: float) -> None:
        """Take in that the provider wants to wait for so long."""
        if now >= self._halved_until:  # else it is the same limit that many children run into
            self._now = max(1.0, self._now / 2)
            self._halved_until = now + max(seconds, 1.0)
        self.until = max(self.until, now + seconds)

    def speed_up(self) -> None:
        """Take in that an item has ended well: after a round of these, one more may run."""
        self._now = min(float(self.most), self._now + 1 / self._now)
