"""Text on one line, and what of it can be seen: pure functions that every room can use."""

import re
import unicodedata
from collections.abc import Iterable

# Letters and marks that leave no trace on a screen, and what is reserved for such.
_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u3164\ufdd0-\ufdef\ufe00-\ufe0f\uffa0"
    "\ufff0-\ufffb\ufffe\uffff\U000e0000-\U000e0fff]"
)

SEQUENCE = (
    r"\x1b(?:\[[0-?]{0,64}[ -/]{0,4}[@-~]"  # control sequences: colours, cursor moves
    r"|[\]PX^_][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)"  # titles, links, device strings
    r"|[ -/]{0,3}[0-~])"  # the short ones
)
"""What a terminal obeys and doesn't show."""


def is_visible(char: str) -> bool:
    """Whether a character leaves a trace on a screen, if only a blank, and moves no other one."""
    # What this Python doesn't know is mostly a newer emoji.
    is_shown = char.isprintable() or unicodedata.category(char) in ("Zs", "Cn")
    return is_shown and not _INVISIBLE.match(char)


def one_line(text: str, most: int | None = None) -> str:
    """Return `text` with each run of white space as one blank, cut to `most` characters with `…`.

    What is on the line is as it was: text from elsewhere is cleaned first, as its reader needs it.
    """
    line = " ".join(text.split())
    return line if most is None or len(line) <= most else line[: most - 1].rstrip() + "…"


def printable(text: str) -> str:
    """Return `text` with a blank for each character that can't be seen, line breaks too."""
    return "".join(char if char.isprintable() else " " for char in text)


def most_alike(word: str, known: Iterable[str], least: float = 0.6) -> list[str]:
    """Return the one of the known words that `word` may be a slip for; empty where none is."""
    from difflib import get_close_matches  # late: only a mistake needs it

    return get_close_matches(word, list(known), 1, least)


def as_sentence(text: str) -> str:
    """Return `text` with a full stop, unless it ends in one already, as others' messages may."""
    return text if text.endswith((".", "?", "!")) else f"{text}."
