"""Decode and look again: what a terminal, a page, an address or base 64 makes of a text.

Escape sequences and invisible letters vanish; entities, percent and backslash escapes become the
characters that they stand for; base 64 that is text becomes that text. The detectors then look at
the decoded text too, and what they find is masked where it stands.
"""

from binascii import a2b_base64
from bisect import bisect_left
from collections.abc import Iterator

from outrider.texts.spans import LINE_END, Findings, Span, compiled, find_rare

# A terminal's sequences: colours and the like, strings such as links and titles, and the rest. In
# a literal, and in what `cat -v` shows, only the first kind is told from other text.
_ESC = r"(?:\x1b|\\(?:u001[bB]|x1[bB]|033|e)|\^\[)"
_SEQUENCES = rf"""(?x)
    (?>(?: (?:{_ESC}\[|\x9b) [0-?]{{0,64}} [\ -/]{{0,4}} [@-~]
      | (?:\x1b[\]PX^_]|\x9d) [^\x07\x1b\x9c]{{0,2000}}+ (?:\x07|\x1b\\|\x9c)
      | \x1b[\ -/]{{0,3}}[0-~] | [\xad\u200b-\u200f\u2060-\u2064\ufeff] )+)
"""
_STARTS = ("\x1b^", "\x9b\xad\u200b\ufeff")

# Characters that are written out, at any depth of encoding; a sequence may begin with one.
_CHARACTERS = {
    "&": r"&(?:amp;){0,4}(?:#(?:\d{2,7}|[xX][0-9a-fA-F]{2,6})|[a-zA-Z]{2,8});",
    "%": r"%(?>(?:25)*)[2-7][0-9a-fA-F]",
    "\\": r"\\(?![\"n\\])(?:[=:@#!&]|(?:u00|x)[2-7][0-9a-fA-F]|(?:u001[bB]|x1[bB]|033|e)\[)",
}

_RUN = b"a" * 52  # so much base 64 that few words are as long
_CODE = bytes(97 if chr(code).isalnum() or chr(code) in "+/_-" else 32 for code in range(256))
_LINE = r"([A-Za-z0-9+/_-]{4,}+)={0,2}"
_NEXT_LINE = rf"{LINE_END}[ \t]{{0,40}}+(?={_LINE}(?:[\s\"'`\\]|\Z))"
_READABLE = bytes([9, 10, 13, *range(32, 127)])
_CHUNK = 64
_PIECE = 24_000


def decodings(found: Findings) -> list[Span]:
    """Return the encodings in a text, in order, and what each of them stands for."""
    spans = [*_sequences(found), *_characters(found.view), *_base64(found.view)]
    apart: list[Span] = []
    for span in sorted(spans):
        if not apart or span[0] >= apart[-1][1]:
            apart.append(span)
    return apart


def without_sequences(text: str, encodings: list[Span], span: Span) -> Span:
    """Return `span` without an escape sequence before it; those inside follow its words."""
    start, end, words = span
    inside = encodings[bisect_left(encodings, (start,)) : bisect_left(encodings, (end,))]
    sequences = [(a, b) for a, b, character in inside if not character]
    if sequences and sequences[0][0] == start:
        start = sequences.pop(0)[1]
    return start, max(start, end), words + "".join(text[a:b] for a, b in sequences)


def _sequences(found: Findings) -> Iterator[Span]:
    for text, starts in zip((found.view, found.beyond_ascii), _STARTS, strict=True):
        for start in filter(text.__contains__, starts):
            for match in find_rare(compiled(_SEQUENCES), found.text, start):
                yield *match.span(), ""


def _characters(view: str) -> Iterator[Span]:
    for sign in filter(view.__contains__, _CHARACTERS):
        for match in find_rare(compiled(_CHARACTERS[sign]), view, sign):
            code, (start, end) = match.group(), match.span()
            if sign == "\\":
                before = view[max(0, start - 8) : start]
                start -= len(before) - len(before.rstrip("\\"))
            if code.endswith("["):
                sequence = compiled(_SEQUENCES).match(view, match.start())
                if sequence is not None:
                    yield start, sequence.end(), ""
            elif character := _character(code):
                yield start, end, character


def _character(code: str) -> str:
    """Return the visible character that `%3D`, `&#61;`, `\\u003d` or `\\=` stands for."""
    if code[0] == "&":
        from html import unescape

        character = unescape(code.replace("amp;", "") if code != "&amp;" else code)
    else:
        character = code[-1] if code[-2] == "\\" else chr(int(code[-2:], 16))
    return character if len(character) == 1 and " " <= character <= "~" else ""


def _base64(view: str) -> Iterator[Span]:
    """Yield the base 64 that stands for readable text, in chunks."""
    done = 0
    # In pieces: in them a search is faster.
    for first in range(0, len(view) - len(_RUN) + 1, _PIECE):
        letters = view[first : first + _PIECE + len(_RUN) - 1].encode("ascii").translate(_CODE)
        at = letters.find(_RUN, max(0, done - first))
        while at >= 0:
            for start, done, text in _chunks(view, first + at):
                if text:
                    yield start, done, text
            at = letters.find(_RUN, done - first)


def _chunks(view: str, at: int) -> Iterator[Span]:
    """Yield the base 64 that begins here, line by line; from where it isn't text, as nothing."""
    line, width = compiled(_LINE).match(view, at), 0
    while line is not None:
        start, end, code = line.start(), line.end(), line.group(1)
        below = compiled(_NEXT_LINE).match(view, end) if len(code) % 4 == 0 else None
        line = below and compiled(_LINE).match(view, below.end())
        if line is None or len(line.group(1)) > len(code) or (width and len(code) < width):
            line = None
        else:
            end, width = line.start(), len(code)
        for offset in range(0, len(code), _CHUNK):
            text = _decoded(code[offset : offset + _CHUNK])
            is_last = not text or offset + _CHUNK >= len(code)
            yield start + offset, end if is_last else start + offset + _CHUNK, text
            if not text:
                return


def _decoded(code: str) -> str:
    """Return what base 64 stands for, or nothing if that isn't text."""
    code = code.replace("-", "+").replace("_", "/")
    octets = a2b_base64(code[: len(code) - (len(code) % 4 == 1)] + "==")
    others = len(octets.translate(None, _READABLE))
    return octets.decode("latin-1") if 4 * others < len(octets) else ""
