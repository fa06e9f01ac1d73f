"""Compares texts in bounded time: a short diff of a change, the lines nearest to a text."""

import difflib
import re
from itertools import islice
from typing import Any

MAX_COMPARED_LINES = 1_000
MAX_DIFF_LINES = 80
MAX_SEARCHED_LINES = 20_000
MAX_RATIOS = 2_000
MAX_NEAREST_LINES = 12
MAX_LINE_CHARACTERS = 300
_CONTEXT_LINES = 2
_MIN_RATIO = 0.5
_HUNK = re.compile(r"@@ -\S+ \+(\d+)")
_NUMBERED = re.compile(r"\s*\d+\t")


def change(before: str, after: str) -> dict[str, Any]:
    """Return how many lines a change removed and added, and a diff of it unless it is too large."""
    old, new = before.splitlines(), after.splitlines()
    start = _shared(old, new)
    end = _shared(old[start:][::-1], new[start:][::-1])
    removed, added = len(old) - start - end, len(new) - start - end
    if max(removed, added) > MAX_COMPARED_LINES:
        return {"removed": removed, "added": added, "diff": ""}
    first = max(0, start - _CONTEXT_LINES)
    tail = end - min(end, _CONTEXT_LINES)
    parts = old[first : len(old) - tail], new[first : len(new) - tail]
    unified = difflib.unified_diff(*parts, n=_CONTEXT_LINES, lineterm="")
    # Without the header; hunks have line numbers of the whole new text.
    lines = [
        f"@@ line {first + int(hunk[1])} @@" if (hunk := _HUNK.match(line)) else line
        for line in islice(unified, 2, None)
    ]
    shown = [line[:MAX_LINE_CHARACTERS] for line in lines[:MAX_DIFF_LINES]]
    if len(lines) > len(shown):
        shown.append(f"[{len(lines) - len(shown)} more lines of diff]")
    return {
        "removed": sum(line.startswith("-") for line in lines),
        "added": sum(line.startswith("+") for line in lines),
        "diff": "\n".join(shown),
    }


def _shared(old: list[str], new: list[str]) -> int:
    """Return how many lines two texts have in common at their start."""
    pairs = zip(old, new, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(old), len(new)))


def nearest_lines(text: str, wanted: str) -> str:
    """Return the lines of `text` nearest to `wanted`, and what may be wrong with it."""
    lines = text.splitlines()[:MAX_SEARCHED_LINES]
    asked = [line for line in wanted.splitlines() if line.strip()]
    if not asked:
        return "It is blank: include some text"
    if all(map(_NUMBERED.match, asked)):
        return "It starts with line numbers, which are not in the file: leave them out"
    anchor = max(asked, key=len)[:MAX_LINE_CHARACTERS]
    at = _nearest(lines, anchor)
    if at is None:
        return "No line is like it: read the file again"
    first = max(0, at - wanted[: wanted.find(anchor)].count("\n"))
    shown = lines[first : first + min(wanted.count("\n") + 1, MAX_NEAREST_LINES)]
    same = "".join(lines[at].split())[:MAX_LINE_CHARACTERS] == "".join(anchor.split())
    hint = " (they differ only in whitespace)" if same else ""
    numbered = [f"{n}\t{line[:MAX_LINE_CHARACTERS]}" for n, line in enumerate(shown, first + 1)]
    return f"The nearest lines{hint}:\n" + "\n".join(numbered)


def _nearest(lines: list[str], anchor: str) -> int | None:
    """Return the index of the line most like `anchor`, or None where none is like it."""
    matcher = difflib.SequenceMatcher(autojunk=False)
    matcher.set_seq2(anchor.strip())
    best, best_ratio, ratios = None, _MIN_RATIO, 0
    for at, line in enumerate(lines):
        matcher.set_seq1(line.strip()[:MAX_LINE_CHARACTERS])
        if matcher.real_quick_ratio() <= best_ratio or matcher.quick_ratio() <= best_ratio:
            continue
        ratios += 1
        if (ratio := matcher.ratio()) > best_ratio:
            best, best_ratio = at, ratio
        if ratio == 1.0 or ratios == MAX_RATIOS:
            break
    return best
