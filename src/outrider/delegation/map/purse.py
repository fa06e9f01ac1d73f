"""What all children of a map may use together, how many of them run at once, and how far it is."""

import time
from collections import Counter
from dataclasses import dataclass, field, replace
from math import inf, isinf

from outrider.protocol.outcomes import Outcome
from outrider.protocol.usage import Usage

Money = tuple[float, float]
"""US dollars and tokens; infinite where nothing limits them."""


def added(money: Money, usage: Usage) -> Money:
    """Return the money with what a run used on top; a cost that isn't known counts as none."""
    return money[0] + usage.cost, money[1] + usage.tokens


@dataclass(slots=True)
class Purse:
    """Money for all. What a child may use at most is set aside before it starts.

    A child ends after the request with which it has used up its part. So the sum is never passed
    by more than one request of each running child.
    """

    most: Money = (inf, inf)
    each: Money = (inf, inf)
    spent: Money = (0.0, 0.0)
    _set_aside: dict[str, Money] = field(default_factory=dict[str, Money])

    def reserve(self, key: str) -> Money | None:
        """Set aside what a child may use, and return it; None while there isn't enough."""
        gone = zip(self.spent, *self._set_aside.values(), strict=True)
        left = [most - sum(parts) for most, parts in zip(self.most, gone, strict=True)]
        cost, tokens = (min(pair) for pair in zip(left, self.each, strict=True))
        is_short = self._set_aside and (cost, tokens) != self.each  # more will be given back
        if min(left) <= 0 or is_short:
            return None
        self._set_aside[key] = 0.0 if isinf(cost) else cost, 0.0 if isinf(tokens) else tokens
        return cost, tokens

    def settle(self, key: str, usage: Usage) -> None:
        """Give back what a child hasn't used; where its cost isn't known, it has used its part."""
        cost, _ = self._set_aside.pop(key)
        is_known = usage.cost_known or not usage.tokens
        self.spent = added(self.spent, usage if is_known else replace(usage, cost=cost))

    def part_of(self, key: str) -> Usage:
        """Return what was set aside for a child, as the use of one of which nothing is known."""
        cost, tokens = self._set_aside[key]
        return Usage(input=int(tokens), cost=cost)


@dataclass(slots=True)
class Pace:
    """How many run at once: half as many when the provider limits the rate, then slowly more."""

    most: float
    until: float = 0.0
    """When the wait is over that the provider asked for."""
    _now: float = inf
    _halved_until: float = 0.0

    def allowed(self, now: float) -> int:
        """Return how many may run at this time."""
        return 0 if now < self.until else int(min(self._now, self.most))

    def slow_down(self, now: float, seconds: float) -> None:
        """Take in that the provider wants us to wait for so long."""
        if now >= self._halved_until:  # else it is the same limit that many children run into
            self._now = max(1.0, min(self._now, self.most) / 2)
            self._halved_until = now + max(seconds, 1.0)
        self.until = max(self.until, now + seconds)

    def speed_up(self) -> None:
        """Take in that an item has completed: after a round of these, one more may run."""
        self._now += 1 / self._now


@dataclass(slots=True)
class Tally:
    """How far a map is."""

    rows: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    """How many rows there are with each outcome and error code."""
    recorded: int = 0
    not_run: int = 0
    begun: float = field(default_factory=time.monotonic)

    @property
    def done(self) -> int:
        """How many rows there are."""
        return self.rows.total()

    @property
    def failed(self) -> int:
        """How many of them aren't of completed tasks."""
        return self.done - self.rows[Outcome.COMPLETED, ""]
