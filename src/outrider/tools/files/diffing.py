"""A small picture of a change: a unified diff where it is short, its size where it isn't."""

import difflib
from dataclasses import dataclass

MAX_COMPARED_LINES = 1_000
MAX_SHOWN_LINES = 80
MAX_LINE_CHARACTERS = 300
_CONTEXT = 2


@dataclass(frozen=True, slots=True)
class Change:
    """The lines that a change took away and added, and a diff of it."""

    removed: int
    added: int
    diff: str


def compare(before: str, after: str) -> Change:
    """Return what changed between two texts, in bounded time."""
    old, new = before.splitlines(), after.splitlines()
    start = _shared(old, new)
    end = _shared(old[start:][::-1], new[start:][::-1])
    old_middle, new_middle = old[start : len(old) - end], new[start : len(new) - end]
    if max(len(old_middle), len(new_middle)) > MAX_COMPARED_LINES:
        return Change(len(old_middle), len(new_middle), "")
    first = max(0, start - _CONTEXT)
    tail = min(end, _CONTEXT)
    lines = _unified(old[first : len(old) - end + tail], new[first : len(new) - end + tail], first)
    removed = sum(line.startswith("-") for line in lines)
    added = sum(line.startswith("+") for line in lines)
    return Change(removed, added, "\n".join(_shortened(lines)))


def _shared(old: list[str], new: list[str]) -> int:
    """Return how many lines two texts have in common at their start."""
    pairs = zip(old, new, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(old), len(new)))


def _unified(old: list[str], new: list[str], skipped: int) -> list[str]:
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=True)
    lines: list[str] = []
    for group in matcher.get_grouped_opcodes(_CONTEXT):
        lines.append(f"@@ line {skipped + group[0][3] + 1} @@")
        for tag, old_start, old_end, new_start, new_end in group:
            if tag == "equal":
                lines += [f" {line}" for line in old[old_start:old_end]]
                continue
            lines += [f"-{line}" for line in old[old_start:old_end]]
            lines += [f"+{line}" for line in new[new_start:new_end]]
    return lines


def _shortened(lines: list[str]) -> list[str]:
    shown = [line[:MAX_LINE_CHARACTERS] for line in lines[:MAX_SHOWN_LINES]]
    left = len(lines) - len(shown)
    return [*shown, f"[{left} more lines of diff]"] if left else shown
