"""Text that passes `clean` can't control a terminal, whoever wrote it. Pure functions on text."""

import json
import re
import unicodedata
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from outrider.protocol.results import WithheldTool
from outrider.protocol.text import one_line

# All control characters but tab and newline, line separators, and what reorders text (bidi).
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_VISIBLE = {**{code: 0x2400 + code for code in range(0x20)}, 0x7F: 0x2421}


def clean(text: str) -> str:
    """Return `text` with every character that could control a terminal as a visible one."""
    unix = text.replace("\r\n", "\n")
    return _CONTROL.sub(lambda match: chr(_VISIBLE.get(ord(match[0]), 0xFFFD)), unix)


def escape_json(text: str) -> str:
    """Return JSON text with the same characters escaped. Its meaning stays the same."""
    return _CONTROL.sub(lambda match: f"\\u{ord(match.group()):04x}", text)


def clean_line(text: str) -> str:
    """Return `text` cleaned and on one line."""
    return one_line(clean(text))


def quoted(text: str, most: int) -> str:
    """Return `text` cleaned and indented, so that no line looks like ours; a cut is mentioned."""
    cleaned = clean(text)
    more = len(cleaned) - most
    hidden = f"\n[{more:,} MORE CHARACTERS ARE NOT SHOWN]" if more > 0 else ""
    return "  " + f"{cleaned[:most]}{hidden}".replace("\n", "\n  ")


def as_text(value: object) -> str:
    """Return a text as it is, and any other value as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def width(text: str) -> int:
    """Return how many terminal columns `text` takes."""
    return len(text) if text.isascii() else sum(_columns(char) for char in text)


def _columns(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def fit(text: str, columns: int) -> str:
    """Return as much of `text` as fits into `columns`, ending in `…` where it was cut."""
    return text if width(text) <= columns else f"{_start(text, columns - 1)}…"


def _start(text: str, columns: int) -> str:
    used = 0
    for number, char in enumerate(text):
        used += _columns(char)
        if used > columns:
            return text[:number]
    return text


def wrapped(text: str, columns: int) -> list[str]:
    """Return `text` in lines of at most `columns`; only a word that is longer is broken."""
    if width(text) <= columns:
        return [text]
    lines, line = list[str](), ""
    for word in text.split():
        if line and width(line) + 1 + width(word) > columns:
            lines.append(line)
            line = ""
        while width(word) > columns:
            lines.append(_start(word, columns) or word[0])
            word = word.removeprefix(lines[-1])
        line = f"{line} {word}" if line else word
    return [*lines, line] if line else lines


def pad(text: str, columns: int) -> str:
    """Return `text` padded with blanks to `columns`."""
    return text + " " * (columns - width(text))


def duration(milliseconds: float) -> str:
    """`950 ms`, `12.3 s`, `4 min 05 s`."""
    if milliseconds < 1000:
        return f"{milliseconds:.0f} ms"
    seconds = milliseconds / 1000
    if seconds < 60:
        return f"{seconds:.1f} s"
    return f"{int(seconds) // 60} min {int(seconds) % 60:02} s"


def local_time(iso: str) -> str:
    """Return a time as people here write it."""
    return f"{datetime.fromisoformat(iso).astimezone():%Y-%m-%d %H:%M:%S}"


def warnings_of(warnings: Iterable[str]) -> tuple[str, ...]:
    """Return the warnings about settings as they are shown."""
    return tuple(f"warning: {one}." for one in warnings)


def count(number: int, noun: str) -> str:
    """`1 turn`, `1,234 tokens`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def by_reason(withheld: Iterable[WithheldTool]) -> list[str]:
    """`write, edit: subagents.allowWrite is off`: a text for each reason, with its tools."""
    tools: dict[str, list[str]] = {}
    for one in withheld:
        tools.setdefault(one.reason, []).append(one.tool)
    return [f"{', '.join(names)}: {reason}" for reason, names in tools.items()]


def withheld_from(agent: Mapping[str, Any]) -> str:
    """Return which of its tools an agent doesn't get, and why, from what is known of it."""
    return "; ".join(by_reason(WithheldTool(**one) for one in agent["withheld"]))
