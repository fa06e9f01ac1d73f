"""What a search for secrets found: spans of a text, and the text with those spans replaced."""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import islice

_LONG = 65536
_PIECE = 4096
_FEW, _RARE = 32, 400  # so many letters are few, and rare is one in so many
MASK = r"\[masked:[a-z-]+\]"
LINE_END = r"(?:\r?\n|(?:\\{1,8}r)?\\{1,8}n)"  # the end of a line, as it is or escaped in a literal

Span = tuple[int, int, str]  # where something begins and ends, and what replaces it


@cache
def compiled(pattern: str) -> re.Pattern[str]:
    """Return the compiled pattern; at its first use, because compiling all takes 20 ms."""
    return re.compile(pattern)


class Findings:
    """A text as the detectors see it, and what they found in it.

    `view` is the text with every non-ASCII character as "?", `folded` the same in lower case.
    Positions agree in all three, and a search reads one byte per character. Without `is_start`
    there was more before the text, maybe in its first line. `undecided` is the
    start of the earliest thing that the end of the text may have cut, `masked_to` the end of the
    latest secret: what a pass finds before it needs no second look, as nothing does in the
    object that was `examined` last, in braces or in lines. `tables` has for each
    line that was examined as a header where its table's header and rows begin; `encodings` are the
    parts that stand for something else, and what for, `beyond_ascii` has what isn't ASCII.
    """

    def __init__(self, text: str, is_start: bool = True) -> None:
        self.text, self.is_start = text, is_start
        # In pieces: most of a long text is ASCII and needs no conversion.
        starts = range(0, 0 if text.isascii() else len(text), _PIECE)
        pieces = [text[start : start + _PIECE] for start in starts]
        self.view = "".join(map(_ascii, pieces)) if starts else text
        self.beyond_ascii = "".join(piece for piece in pieces if not piece.isascii())
        self.folded = self.view.lower()
        self.undecided, self.masked_to = len(text), 0
        self.spans, self.encodings = list[Span](), list[Span]()
        self.tables, self.examined = dict[int, list[int]](), dict[bool, range]()

    def mask(self, start: int, end: int, kind: str) -> None:
        """Note a secret; the text will read `[masked:kind]` in its place."""
        self.spans.append((start, end, f"[masked:{kind}]"))
        self.masked_to = end

    def replace(self, start: int, end: int, replacement: str) -> None:
        """Note a part that isn't a secret and is replaced all the same: a path, a trace."""
        self.spans.append((start, end, replacement))

    def leave(self, start: int, end: int) -> None:
        """Note something examined and left alone; at the end of the text more may follow."""
        if end >= len(self.text):
            self.undecided = min(self.undecided, start)


def _ascii(piece: str) -> str:
    return piece if piece.isascii() else piece.encode("ascii", "replace").decode("ascii")


def merged(view: str, spans: list[Span]) -> list[Span]:
    """Return `spans` in order without overlap; of those that overlap the widest wins."""
    # Masks that the text already has take part, so that nothing inside one is masked again.
    if not spans:
        return []
    standing = ((m.start(), m.end(), m.group()) for m in compiled(MASK).finditer(view))
    joined: list[Span] = []
    width = 0
    for start, end, replacement in sorted([*spans, *standing]):
        if joined and start < joined[-1][1]:
            first, last, words = joined[-1]
            if end - start > width:
                width, words = end - start, replacement
            joined[-1] = (first, max(last, end), words)
        else:
            joined.append((start, end, replacement))
            width = end - start
    return [span for span in joined if view[span[0] : span[1]] != span[2]]


def worth_searching(text: str, *anchors: str) -> bool:
    """Return whether a pattern that needs one of `anchors` can match at all."""
    # In a short text this saves compiling the pattern; in a long one the pattern itself is as fast
    # as a search for its anchor.
    return len(text) > _LONG or any(map(text.__contains__, anchors))


def find_rare(pattern: re.Pattern[str], view: str, letter: str) -> Iterator[re.Match[str]]:
    """Yield the matches of a pattern that begins with a letter that is rare in most texts."""
    # There a search for the letter is many times faster than one for the pattern.
    at, hits = view.find(letter), 0
    while at >= 0:
        hits += 1
        if hits > _FEW and hits * _RARE > at:
            yield from pattern.finditer(view, at)
            return
        match = pattern.match(view, at)
        if match is not None:
            yield match
        at = view.find(letter, match.end() if match else at + 1)


def replaced(text: str, spans: list[Span], start: int = 0) -> str:
    """Return `text` from `start` on with the (merged) spans replaced."""
    pieces: list[str] = []
    for first, last, replacement in spans:
        if last <= start:
            continue
        pieces.append(text[start:first])
        pieces.append(replacement)
        start = last
    pieces.append(text[start:])
    return "".join(pieces)


def replaced_lines(lines: Sequence[str], spans: list[Span]) -> list[str]:
    """Return lines with the (merged) spans of their joined text replaced in each of them."""
    # A mask is written into every line that it covers; any other span that joins lines is skipped.
    masked: list[str] = []
    start = first = 0
    for line in lines:
        end = start + len(line)
        while first < len(spans) and spans[first][1] <= start:
            first += 1
        own: list[Span] = []
        for begin, stop, words in islice(spans, first, None):
            if begin >= end:
                break
            if (start <= begin and stop <= end) or words.startswith("[masked:"):
                own.append((max(begin, start) - start, min(stop, end) - start, words))
        masked.append(replaced(line, own))
        start = end + 1
    return masked


class Places:
    """Maps positions in the replaced text back to the text before."""

    def __init__(self, spans: list[Span]) -> None:
        self._spans = spans
        self._starts: list[int] = []
        shift = 0
        for start, end, replacement in spans:
            self._starts.append(start + shift)
            shift += len(replacement) - (end - start)

    def masks(self) -> list[tuple[int, int]]:
        return [
            (start, start + len(words))
            for start, (_, _, words) in zip(self._starts, self._spans, strict=True)
            if words.startswith("[masked:")
        ]

    def before(self, span: Span) -> Span:
        """Return `span` of the replaced text in the text before, with whole replacements."""
        start, end, replacement = span
        return self._place(start, 0), self._place(end, 1), replacement

    def _place(self, position: int, side: int) -> int:
        index = bisect_right(self._starts, position - side) - 1
        if index < 0:
            return position
        replaced_from = self._starts[index]
        start, end, replacement = self._spans[index]
        beyond = position - replaced_from - len(replacement)
        if beyond < side:
            return end if side else start
        return end + beyond
