"""Text from elsewhere goes to the model as data with its origin, and can't get out of that mark."""

import re

from outrider.protocol.jsonl import without_surrogates
from outrider.protocol.text import SEQUENCE, one_line

MAX_SOURCE_CHARACTERS = 500
MAX_TITLE_CHARACTERS = 200
_ESCAPES = re.compile(SEQUENCE)
_UNSEEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"  # control characters
    "\xad\u034f\u061c\u115f\u1160\u180e\u200b\u2060-\u206f\ufeff\ufff9-\ufffb"  # no width
    "\u202a-\u202e"  # overrides of the direction
    "\U000e0000-\U000e007f]|"  # letters that only a model sees
    # These mean something between letters, alone; a run of them is a message.
    "[\u200c-\u200f\ufe00-\ufe0f\U000e0100-\U000e01ef]{2,}"
)
_BREAKS = re.compile("\r\n?|[\u2028\u2029]")
_FORGED = re.compile(
    r"[<\uff1c\ufe64\u2039\u27e8\u3008\u276e\u00ab](?=[\s/\uff0f\u2215\\|]{0,20}"
    r"(?:untrusted|subagent)[\s_\-\u2010-\u2015\u2212\uff0d]{0,5}(?:content|output))",
    re.I,
)


def cleaned(text: str) -> str:
    """Return a text without what a reader wouldn't see: controls, overrides, hidden letters."""
    if text.isascii() and text.isprintable():
        return text
    return without_surrogates(_UNSEEN.sub("", _ESCAPES.sub("", text)))


def untrusted(url: str, text: str, title: str = "") -> str:
    """Return fetched text marked as data, with its origin; nothing in it can end the mark."""
    named = {"title": harmless_line(title, MAX_TITLE_CHARACTERS)} if title else {}
    return marked("untrusted-content", text, source=url, **named)


def marked(tag: str, text: str, **origin: str) -> str:
    """Return a text inside a tag that `_FORGED` knows, and that no text can end or begin."""
    values = {key: harmless_line(value).replace('"', "&quot;") for key, value in origin.items()}
    named = "".join(f' {key}="{value}"' for key, value in values.items())
    return f"<{tag}{named}>\n{_FORGED.sub('&lt;', cleaned(text))}\n</{tag}>"


def harmless_line(text: str, most: int = MAX_SOURCE_CHARACTERS) -> str:
    """Return what a page gave as part of a line of ours: it can begin no line and no mark."""
    line = cleaned(_BREAKS.sub(" ", text))
    line = re.sub("[<>\uff1c\uff1e]", lambda odd: "&lt;" if odd[0] in "<\uff1c" else "&gt;", line)
    return one_line(line, most)
