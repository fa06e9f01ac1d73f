"""Plots as small SVG files, from the results; no I/O."""

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from benchmarks.contestants import CONTESTANTS
from benchmarks.figures import median, number

Json = dict[str, Any]
OURS, ISOLATED, SHARED = "#0a7d5a", "#b4542a", "#8a8f98"
LINES = (
    *("#0a7d5a", "#64b99a", "#123f30", "#a6d854", "#b4542a", "#e0a080"),
    *("#7a2f10", "#345d9d", "#8a63b5", "#c2a000", "#8a8f98", "#d04a7a", "#1f9bb5", "#5b5b00"),
)
WIDTH, LEFT, RIGHT, STEP, TOP = 760, 190, 110, 26, 48


def colour(name: str) -> str:
    """Return a contestant's colour: ours, another with a process for each task, or one without."""
    if name.startswith("outrider"):
        return OURS
    return ISOLATED if CONTESTANTS[name].isolated else SHARED


def bars(title: str, values: Mapping[str, float], unit: str) -> str:
    """Return horizontal bars on a logarithmic scale, shortest first."""
    ordered = sorted(values.items(), key=lambda item: item[1])
    low = math.floor(math.log10(ordered[0][1]))
    high = max(low + 1, math.ceil(math.log10(ordered[-1][1])))
    span = WIDTH - LEFT - RIGHT
    height = TOP + STEP * len(ordered) + 14
    parts = [_text(16, 26, title, size=15, bold=True)]
    for power in range(low, high + 1):
        x = LEFT + span * (power - low) / (high - low)
        parts.append(_line(x, TOP - 6, x, height - 10))
        parts.append(_text(x, TOP - 10, f"{10.0**power:g} {unit}", size=10, anchor="middle"))
    for place, (name, value) in enumerate(ordered):
        y = TOP + STEP * place
        length = max(2.0, span * (math.log10(value) - low) / (high - low))
        parts.append(_text(LEFT - 8, y + 15, name, anchor="end"))
        parts.append(
            f'<rect x="{LEFT}" y="{y + 3}" width="{length:.1f}" height="{STEP - 8}" '
            f'fill="{colour(name)}"/>'
        )
        parts.append(_text(LEFT + length + 6, y + 15, f"{number(value)} {unit}"))
    return _svg(height, parts)


def lines(title: str, series: Mapping[str, Mapping[str, float]], axes: tuple[str, str]) -> str:
    """Return one line for each name, with both axes logarithmic."""
    points = [(float(x), y) for each in series.values() for x, y in each.items() if y > 0]
    left, right = (pick(math.log10(x) for x, _ in points) for pick in (min, max))
    low, high = (pick(math.log10(y) for _, y in points) for pick in (min, max))
    low, high = math.floor(low), max(math.floor(low) + 1, math.ceil(high))
    height, base, top, edge = 380, 330, 48, 560
    parts = [_text(16, 26, title, size=15, bold=True)]

    def place(x: float, y: float) -> tuple[float, float]:
        across = (math.log10(x) - left) / ((right - left) or 1)
        up = (math.log10(y) - low) / (high - low)
        return 70 + (edge - 70) * across, base - (base - top) * up

    for power in range(low, high + 1):
        _, y = place(10**left, 10.0**power)
        parts += [_line(70, y, edge, y), _text(62, y + 4, f"{10.0**power:g}", 10, "end")]
    for x in sorted({x for x, _ in points}):
        parts.append(_text(place(x, 10.0**low)[0], base + 16, f"{x:g}", 10, "middle"))
    parts.append(_text((70 + edge) / 2, base + 38, axes[0], 11, "middle"))
    parts.append(_text(16, 42, axes[1], 10))
    for number_, (name, values) in enumerate(series.items()):
        stroke = LINES[number_ % len(LINES)]
        spots = [place(float(x), y) for x, y in values.items() if y > 0]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in spots)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{stroke}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{stroke}"/>' for x, y in spots]
        y = top + 18 * number_
        parts += [f'<rect x="{edge + 14}" y="{y}" width="10" height="10" fill="{stroke}"/>']
        parts.append(_text(edge + 30, y + 9, name, 11))
    return _svg(height, parts)


def plots(results: Json) -> dict[str, str]:
    """Return every plot that these results have figures for, by its file's name."""
    latency = results.get("latency", {})
    found: dict[str, str] = {}
    for kind, title in (
        ("first", "Until the first request to the model"),
        ("one", "A task of one turn, end to end"),
        ("ten", "A task of ten turns, end to end"),
    ):
        values = {name: median(each) or 0 for name, each in latency.get(kind, {}).items() if each}
        if values:
            found[f"{kind}.svg"] = bars(title, values, "ms")
    if at_once := results.get("at_once"):
        speeds = {
            name: {size: cell["throughput"] for size, cell in sizes.items()}
            for name, sizes in at_once.items()
        }
        found["at-once.svg"] = lines(
            "Tasks at once", speeds, ("started at once", "finished per second")
        )
    if history := results.get("history"):
        series = {**history, "outrider's loop alone": results.get("loop", {})}
        series = {name: costs for name, costs in series.items() if costs}
        found["history.svg"] = lines(
            "What a turn costs as the history grows", series, ("turns so far", "ms per turn")
        )
    return found


def _svg(height: int, parts: Sequence[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
    head += 'font-family="sans-serif" font-size="12">\n'
    ground = f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>'
    return head + "\n".join([ground, *parts]) + "\n</svg>\n"


def _text(
    x: float, y: float, text: str, size: int = 12, anchor: str = "start", *, bold: bool = False
) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" '
        f'fill="#222222"{weight}>{escape(text)}</text>'
    )


def _line(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<path d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}" stroke="#dddddd"/>'
