"""Guarantees that any file name is shown on one line, and can be typed back.

A name is bytes. Newlines in it could forge a line of a listing, control characters a terminal,
and bytes that are not UTF-8 can't be sent as JSON: all of these are shown escaped, and
`unescaped` turns what was shown into the name again.
"""

import os
import re
import unicodedata

_ESCAPE = re.compile(r"\\(?:[nrt\\]|x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8})")


def shown_name(name: str | bytes) -> str:
    """Return `name` (a path too) as printable text on one line."""
    text = os.fsdecode(name)
    if text.isprintable() and "\\" not in text:
        return text
    return "".join(_shown_character(character) for character in text)


def _shown_character(character: str) -> str:
    if character.isprintable() and character != "\\":
        return character
    number = ord(character)
    if 0xDC80 <= number <= 0xDCFF:  # a byte that isn't UTF-8 (surrogateescape)
        return f"\\x{number - 0xDC00:02x}"
    if 0x80 <= number <= 0xFF:  # else it would read as such a byte
        return f"\\u{number:04x}"
    return character.encode("unicode_escape").decode()


def unescaped(shown: str) -> str:
    """Return the name that `shown_name` shows as `shown`."""
    raw = _ESCAPE.sub(_real_character, shown)
    try:
        return os.fsdecode(os.fsencode(raw))
    except UnicodeEncodeError:
        return raw


def _real_character(match: re.Match[str]) -> str:
    escape = match[0]
    if escape[1] == "x" and escape >= r"\x80":
        return chr(0xDC00 + int(escape[2:], 16))
    try:
        return escape.encode().decode("unicode_escape")
    except UnicodeDecodeError:  # beyond the last code point
        return escape


def undisguised(name: str) -> str:
    """Return `name` with look-alikes (wide dots and slashes) plain and without the invisible."""
    flat = unicodedata.normalize("NFKC", name)
    return "".join(character for character in flat if unicodedata.category(character) != "Cf")


def folded(name: str) -> str:
    """Return `name` without case too: two names that some file system takes for one are equal."""
    if name.isascii():
        return name.lower()
    return unicodedata.normalize("NFKC", undisguised(name).casefold())
