"""JSON with comments and trailing commas: one member of it changed, every other byte kept.

What `with_member` puts in, `without_member` takes out again to the byte. An object that had to be
made is written without spaces around its only member, which tells it from one that was there.
"""

import json
import re
from collections.abc import Sequence
from contextlib import suppress
from functools import reduce
from typing import Any

from outrider.protocol.data import as_object, member

_TOKEN = re.compile(
    r'(?P<skipped>[ \t\r\n\ufeff]+|//[^\r\n]*|/\*.*?\*/)|"(?:[^"\\]|\\.)*"|[{}\[\]:,]|[\w.+-]+',
    re.DOTALL,
)
_SPACE = " \t\r\n"
_Tokens = list[re.Match[str]]


def read_jsonc(text: str) -> Any:
    """Return the value; raises `ValueError`."""
    with suppress(ValueError, RecursionError):  # most have no comments, and some are large
        return json.loads(text)
    words = ["[", *(token[0] for token in _tokens(text)), "]"]
    near = zip(words, words[1:], words[2:], strict=False)
    kept = (now for was, now, then in near if now != "," or then not in "]}" or was in "[{,")
    try:
        return json.loads(" ".join(kept), strict=False)
    except (ValueError, RecursionError):
        raise ValueError("it isn't JSON, with or without comments") from None


def with_member(text: str, path: Sequence[str], value: object) -> str:
    """Return the text, empty for no file, with a value at a path of names; raises `ValueError`."""
    if not text:
        return f"{_made(path, value)}\n"
    if reduce(member, path, read_jsonc(text)) == value:
        return text
    tokens, at, last = _tokens(text), 0, 0
    for depth, name in enumerate(path):
        if tokens[at][0] != "{":
            raise ValueError(f"{'.'.join(path[:depth]) or 'it'} isn't a JSON object")
        members, closing = _members(tokens, at)
        if name not in members:
            made = _made(path[depth:], value)[1:-1]
            return _inserted(text, tokens[at : closing + 1], made)
        first, last = members[name]
        at = first + 2
    new = json.dumps(value, ensure_ascii=False)
    return f"{text[: tokens[at].start()]}{new}{text[tokens[last].end() :]}"


def without_member(text: str, path: Sequence[str]) -> str:
    """Return the text without what is at a path; empty where it holds nothing else."""
    *above, name = path
    if not text or name not in as_object(reduce(member, above, read_jsonc(text))):
        return text
    tokens = _tokens(text)
    opening = reduce(lambda at, outer: _members(tokens, at)[0][outer][0] + 2, above, 0)
    first, last = _members(tokens, opening)[0][name]
    before, start, end, after = (tokens[at] for at in (first - 1, first, last, last + 1))
    whole = text[before.start() : after.end()]
    if whole == f"{{{text[start.start() : end.end()]}}}":
        if above:
            return without_member(text, above)
        if text.strip() == whole:
            return ""
    head, tail = text[: start.start()], text[(after if after[0] == "," else end).end() :]
    # A comment up to the end of its line needs that end, where what follows has none.
    if "//" not in head[before.end() :] or re.match(r"[ \t]*[\r\n]", tail):
        head = head.rstrip(_SPACE)
    if before[0] == "," and after[0] == "}":
        head = head[: before.start()] + head[before.end() :]
    return head + tail


def _tokens(text: str) -> _Tokens:
    found = list(_TOKEN.finditer(text))
    if "".join(token[0] for token in found) != text:
        raise ValueError("it isn't JSON, with or without comments")
    return [token for token in found if token["skipped"] is None]


def _members(tokens: _Tokens, opening: int) -> tuple[dict[str, tuple[int, int]], int]:
    """Return the first and the last token of each member of an object, and its closing brace."""
    members: dict[str, tuple[int, int]] = {}
    depth, first, at = 1, opening + 1, opening
    while depth:
        at += 1
        word = tokens[at][0]
        if depth == 1 and word in (",", "}"):
            if first < at:
                members[json.loads(tokens[first][0], strict=False)] = (first, at - 1)
            first = at + 1
        depth += (word in ("{", "[")) - (word in ("}", "]"))
    return members, at


def _made(path: Sequence[str], value: object) -> str:
    """Return a value below a path of objects that have only this member."""
    whole = reduce(lambda inner, name: {name: inner}, reversed(path), value)
    return json.dumps(whole, ensure_ascii=False)


def _inserted(text: str, tokens: _Tokens, made: str) -> str:
    """Return the text with one more member in the object that has these tokens, brace to brace."""
    opening, first, last, closing = tokens[0], tokens[1], tokens[-2], tokens[-1]
    head = text[: closing.start()].rstrip(_SPACE)
    gap, tail = text[opening.end() : first.start()], head[last.end() :]
    space, more = " ", "" if last is opening or last[0] == "," else ","
    if found := re.search(r"(\r\n?|\n)(?:.*[\r\n])?([ \t]*)", gap, re.DOTALL):
        space = found[1] + found[2] + ("  " if first is closing else "")
    elif "//" in tail:  # this comment has no other end than that of its line
        space = "\n"
    ending = "," if last[0] == "," else ""
    return f"{head[: last.end()]}{more}{tail}{space}{made}{ending}{text[len(head) :]}"
