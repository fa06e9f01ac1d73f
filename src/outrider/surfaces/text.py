"""Text that passes `clean` controls no terminal and hides nothing. Pure functions on text."""

import json
import re
import unicodedata
from collections.abc import Iterable, Mapping
from itertools import accumulate
from typing import Any

from outrider.protocol.data import as_object
from outrider.protocol.results import WithheldTool
from outrider.protocol.text import is_visible, one_line

# What is looked at: neither ASCII nor a letter or digit, unless that is one that can't be seen.
_UNCOMMON = re.compile(r"[^\w\t\n -~]|[\u115f\u1160\u3164\uffa0]")
_SHAPING, _SHAPED = "\u200c\u200d\ufe0e\ufe0f", ("Lo", "Mn", "So", "Sk", "Sm", "Cn")
_SIGNS = "\u2139\u203c\u2049\u3030\u303d"  # emoji that are neither symbols nor ASCII
# The argument that says most about a call, in this order; without one, all are shown.
_MAIN_ARGUMENTS = ("pattern", "about", "command", "agent", "query", "url", "path")
_MAX_ARGUMENTS = 500
_PICTURES = {**{chr(code): chr(0x2400 + code) for code in range(0x20)}, "\x7f": "\u2421"}


def clean(text: str) -> str:
    """Return `text` with all that controls a terminal, moves text or can't be seen made visible."""
    unix = text.replace("\r\n", "\n")
    return _UNCOMMON.sub(lambda found: _as_it_is(found) or _escaped(found[0]), unix)


def escape_json(text: str) -> str:
    """Return JSON text with the same characters escaped. Its meaning stays the same."""
    return _UNCOMMON.sub(lambda found: _as_it_is(found) or json.dumps(found[0])[1:-1], text)


def _escaped(char: str) -> str:
    return _PICTURES.get(char) or char.encode("ascii", "backslashreplace").decode()


def _as_it_is(found: re.Match[str]) -> str:
    """Return a character that can be seen, or that shapes others, as joiners do in emoji."""
    char, at, text = found[0], found.start(), found.string
    if is_visible(char):
        return char
    # After a symbol, or in a script without case: Arabic and Indic words need joiners too.
    before, after = text[max(at - 1, 0) : at] or " ", text[at + 1 : at + 2]
    is_symbol = unicodedata.category(before) in _SHAPED and is_visible(before)
    is_shaped = (is_symbol and not before.isascii()) or before in _SIGNS
    is_emoji = before + char == "\ufe0f\u200d" or char + after == "\ufe0f\u20e3"
    return char if is_emoji or (is_shaped and char in _SHAPING) else ""


def clean_line(text: str) -> str:
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


def call_line(name: str, args: object) -> str:
    """Return a tool call as one line: `grep idleTimeout`."""
    values = as_object(args)
    shown = next((values[key] for key in _MAIN_ARGUMENTS if key in values), values or "")
    return clean_line(f"{name} {as_text(shown)[:_MAX_ARGUMENTS]}")


def width(text: str) -> int:
    """Return how many terminal columns `text` takes."""
    return len(text) if text.isascii() else sum(_columns(char) for char in text)


def _columns(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def fit(text: str, columns: int) -> str:
    """Return as much of `text` as fits into `columns`, ending in `…` where it was cut."""
    return text if width(text) <= columns else f"{_start(text, columns - 1)}…"


def _start(text: str, columns: int) -> str:
    used = accumulate(map(_columns, text))
    return text[: sum(size <= columns for size in used)]


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
    from datetime import datetime  # late: no run needs it

    return f"{datetime.fromisoformat(iso).astimezone():%Y-%m-%d %H:%M:%S}"


def warnings_of(warnings: Iterable[str]) -> tuple[str, ...]:
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
