"""Guarantees that any file name is shown on one line, and can be typed back.

A name is bytes. Newlines in it could forge a line of a listing, control characters a terminal,
and bytes that are not UTF-8 can't be sent as JSON: all of these are shown as `\\x` and two digits
for each byte, and `unescaped` turns what was shown into the name again.
"""

import os
import re
import unicodedata

_ESCAPE = re.compile(rb"\\x([0-9a-f]{2})")


def shown_name(name: str | bytes) -> str:
    """Return `name` (a path too) as printable text on one line."""
    text = os.fsdecode(name)
    if text.isprintable() and "\\" not in text:
        return text
    return "".join(map(_escaped, text))


def _escaped(character: str) -> str:
    if character.isprintable() and character != "\\":
        return character
    is_byte = "\udc80" <= character <= "\udcff"  # one that isn't UTF-8
    content = os.fsencode(character) if is_byte else character.encode(errors="surrogatepass")
    return "".join(f"\\x{byte:02x}" for byte in content)


def unescaped(shown: str) -> str:
    """Return the name that `shown_name` shows as `shown`."""
    try:
        content = os.fsencode(shown)
    except UnicodeEncodeError:  # half a surrogate pair
        content = shown.encode(errors="surrogatepass")
    return os.fsdecode(_ESCAPE.sub(lambda match: bytes([int(match[1], 16)]), content))


def undisguised(name: str) -> str:
    """Return `name` with look-alikes (wide dots and slashes) plain and without the invisible."""
    flat = unicodedata.normalize("NFKC", name)
    return "".join(character for character in flat if unicodedata.category(character) != "Cf")


def folded(name: str) -> str:
    """Return `name` without case too: two names that some file system takes for one are equal."""
    if name.isascii():
        return name.lower()
    return unicodedata.normalize("NFKC", undisguised(name).casefold())
