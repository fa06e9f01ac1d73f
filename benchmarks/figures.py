"""The arithmetic of the benchmark, and how its figures are written; no I/O."""

import math
import statistics
from collections.abc import Iterable, Sequence

NONE = "\N{EN DASH}"
TIMES = "\N{MULTIPLICATION SIGN}"


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the smallest value that at least `percent` of them don't exceed."""
    ordered = sorted(values)
    place = max(1, math.ceil(len(ordered) * percent / 100))
    return ordered[place - 1]


def median(values: Sequence[float] | None) -> float | None:
    """Return the median; None if there are no values."""
    return statistics.median(values) if values else None


def window(values: Sequence[float], centre: int, reach: int) -> Sequence[float]:
    """Return the values around a place; near the end, the last values of the same number."""
    end = min(len(values), centre + reach)
    return values[max(0, end - 2 * reach - 1) : end]


def ratio(value: float | None, reference: float | None) -> float | None:
    """Return how many times the reference a value is."""
    return value / reference if value is not None and reference else None


def number(value: float | None) -> str:
    """Return a figure with three significant digits, at most three of them decimals."""
    if value is None:
        return NONE
    if value == 0:
        return "0"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:,.{min(digits, 3)}f}" if digits else f"{round(value):,}"


def milliseconds(value: float | None) -> str:
    """Return a time, in milliseconds below ten seconds."""
    if value is None:
        return NONE
    return f"{number(value)} ms" if value < 10_000 else f"{number(value / 1000)} s"


def times(value: float | None) -> str:
    """Return a ratio."""
    return NONE if value is None else f"{number(value)}{TIMES}"


def table(header: Sequence[str], rows: Iterable[Sequence[str]], *, words: int = 1) -> str:
    """Return a Markdown table; all columns but the first `words` hold figures."""
    rule = ["---" if place < words else "---:" for place in range(len(header))]
    lines = [list(header), rule, *map(list, rows)]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)
