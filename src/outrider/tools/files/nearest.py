"""The lines of a file that come nearest to a text that isn't in it, found in bounded time."""

import difflib
import re

MAX_LINES = 20_000
MAX_RATIOS = 2_000
MAX_SHOWN_LINES = 12
MAX_LINE_CHARACTERS = 300
_MIN_RATIO = 0.5
_NUMBERED = re.compile(r"\s*\d+\t")


def nearest_lines(text: str, wanted: str) -> str:
    """Return the lines of `text` nearest to `wanted`, and what may be wrong with it."""
    lines = text.splitlines()[:MAX_LINES]
    asked = [line for line in wanted.splitlines() if line.strip()]
    if not asked:
        return "It is blank: give text that can be told apart"
    if all(map(_NUMBERED.match, asked)):
        return "It starts with line numbers, which are no part of the file: leave them out"
    anchor = max(asked, key=len)[:MAX_LINE_CHARACTERS]
    at = _nearest(lines, anchor)
    if at is None:
        return "No line comes near it: read the file again"
    first = max(0, at - _lines_before(wanted, anchor))
    last = min(first + wanted.count("\n") + 1, first + MAX_SHOWN_LINES, len(lines))
    hint = " (they differ in blanks only)" if _same_but_blanks(lines[at], anchor) else ""
    shown = [
        f"{number + 1}\t{lines[number][:MAX_LINE_CHARACTERS]}" for number in range(first, last)
    ]
    return f"The nearest lines{hint}:\n" + "\n".join(shown)


def _nearest(lines: list[str], anchor: str) -> int | None:
    """Return the place of the line most like `anchor`, or None where none is like it."""
    matcher = difflib.SequenceMatcher(autojunk=False)
    matcher.set_seq2(anchor.strip())
    best, best_ratio, ratios = None, _MIN_RATIO, 0
    for at, line in enumerate(lines):
        matcher.set_seq1(line.strip()[:MAX_LINE_CHARACTERS])
        if matcher.real_quick_ratio() <= best_ratio or matcher.quick_ratio() <= best_ratio:
            continue
        ratios += 1
        if ratios > MAX_RATIOS:
            break
        ratio = matcher.ratio()
        if ratio > best_ratio:
            best, best_ratio = at, ratio
            if ratio == 1.0:
                break
    return best


def _lines_before(wanted: str, anchor: str) -> int:
    """Return how many lines of the wanted text come before the one that was looked for."""
    return wanted[: wanted.find(anchor)].count("\n")


def _same_but_blanks(line: str, other: str) -> bool:
    return "".join(line.split())[:MAX_LINE_CHARACTERS] == "".join(other.split())
