"""A short diff of a change, made in bounded time."""

import difflib
import re
from itertools import islice
from typing import Any

MAX_COMPARED_LINES = 1_000
MAX_DIFF_LINES = 80
MAX_LINE_CHARACTERS = 300
_CONTEXT_LINES = 2
_HUNK = re.compile(r"@@ -\S+ \+(\d+)")


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
