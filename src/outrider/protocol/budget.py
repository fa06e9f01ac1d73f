"""The budget of one run: what it may use, when to wrap up, and when it is spent."""

from dataclasses import dataclass, field

from outrider.protocol.brief import BudgetLimits
from outrider.protocol.usage import Usage

WRAP_UP_SHARE = 0.8


@dataclass(slots=True)
class Budget:
    """Counts a run's turns, tool calls, tokens and money against their limits."""

    limits: BudgetLimits
    usage: Usage = field(default_factory=Usage)
    tool_calls: int = 0
    _asked_to_wrap_up: bool = False

    def forbids_turn(self) -> str | None:
        """Return why another turn isn't covered; None where it is."""
        for unit, used, limit in self._counters():
            if unit != "tool calls" and used >= limit and (used or unit == "turns"):
                return f"The budget of {limit:g} {unit} is used up ({used:g} used)."
        return None

    def forbids_tool_calls(self, number: int) -> str | None:
        """Return why that many more tool calls aren't covered; None where they are."""
        limit = self.limits.max_tool_calls
        if limit is None or self.tool_calls + number <= limit:
            return None
        used = f"({self.tool_calls} used)"
        return f"The budget of {limit} tool calls doesn't cover {number} more {used}."

    def wrap_up(self) -> str | None:
        """Return, once, a message that asks the model to finish when a limit is near."""
        near = [
            f"{used:g} of {limit:g} {unit}"
            for unit, used, limit in self._counters()
            # The next turn counts: of three turns, the last is the one to wrap up in.
            if limit > 0 and used + (unit == "turns") > WRAP_UP_SHARE * limit
        ]
        if self._asked_to_wrap_up or not near:
            return None
        self._asked_to_wrap_up = True
        return (
            f"Your budget is nearly used up ({', '.join(near)}). Wrap up now: stop exploring and "
            "give your best final answer from what you have, saying what is left open."
        )

    def _counters(self) -> list[tuple[str, float, float]]:
        counters = (
            ("turns", self.usage.turns, self.limits.max_turns),
            ("tool calls", self.tool_calls, self.limits.max_tool_calls),
            ("tokens", self.usage.tokens, self.limits.max_tokens),
            ("US dollars", self.usage.cost, self.limits.max_cost),
        )
        return [(unit, used, limit) for unit, used, limit in counters if limit is not None]
