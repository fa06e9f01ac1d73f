"""No secret passes in pieces: text that comes in deltas is masked as if it had come whole."""

from bisect import bisect_right
from typing import TYPE_CHECKING

from outrider.texts.spans import Findings, Span, compiled, replaced

from .names import NAME_LETTERS

if TYPE_CHECKING:
    from .search import Search

_HELD_BACK = 200  # enough of any secret to recognise it before its beginning is released
_CONTEXT = 256  # what was released and still explains what follows: names, operators
_NAME = 96  # more of a name than is ever looked at
_STEP = 64  # new characters before the next look
_MAX_OPEN = 6000
_OPEN_HEAD = 2600
_OPEN_TAIL = 400
_DATA = r"apiVersion\W{1,8}v1\W{1,12}(?:string[Dd]|d)ata\W(?!(?s:.)*\bkind\b)"


class StreamMasker:
    """Lets text through as soon as no secret can begin in it any more.

    It keeps a few hundred characters, and a few thousand where a secret has begun and not ended:
    of a longer one only the beginning and the latest end are kept.
    """

    __slots__ = ("_buffer", "_is_start", "_next_look", "_released", "_search")

    def __init__(self, search: "Search") -> None:
        self._search = search
        self._buffer = ""
        self._is_start = True
        self._released = 0
        self._next_look = _HELD_BACK + _STEP

    @property
    def held(self) -> int:
        """How many characters are kept: what isn't released yet, and what explains it."""
        return len(self._buffer)

    def feed(self, delta: str) -> str:
        """Take the next piece; return the text that can be shown now."""
        self._buffer += delta
        if len(self._buffer) < self._next_look:
            return ""
        found = self._search.searched(self._buffer, is_start=self._is_start)[0]
        spans = found.spans
        cut = self._cut(spans, found.undecided)
        shown = replaced(self._buffer[:cut], [s for s in spans if s[1] <= cut], self._released)
        self._keep(cut, spans, found)
        # Growing by a share of what is held keeps the work linear when much is held.
        held = len(self._buffer)
        self._next_look = held + max(_STEP, (held - _HELD_BACK - _CONTEXT) // 2)
        return shown

    def finish(self) -> str:
        """Return the rest; the stream is over."""
        found = self._search.searched(self._buffer, is_start=self._is_start)[0]
        shown = replaced(self._buffer, found.spans, self._released)
        self._buffer, self._released = "", 0
        return shown

    def _cut(self, spans: list[Span], undecided: int) -> int:
        """Return up to where the buffer can be released."""
        cut = min(len(self._buffer) - _HELD_BACK, undecided, self._open_secret())
        # In what `kubectl` prints, only what follows the data tells whether they are secret.
        if (data := compiled(_DATA).search(self._buffer)) and len(self._buffer) < _MAX_OPEN:
            cut = min(cut, data.start())
        for start, end, _ in reversed(spans):
            if start < cut < end or (start < cut and end >= len(self._buffer)):
                cut = start
        return max(cut, self._released)

    def _open_secret(self) -> int:
        """Return where a long known secret may have begun that isn't complete yet."""
        earliest = len(self._buffer)
        for secret in self._search.known:
            if len(secret) <= _HELD_BACK:
                break
            at = self._buffer.rfind(secret[:_HELD_BACK])
            if at >= 0 and secret.startswith(self._buffer[at:]):
                earliest = min(earliest, at)
        return earliest

    def _keep(self, cut: int, spans: list[Span], found: Findings) -> None:
        """Drop what was released except its last words, and the middle of an endless secret."""
        # Of a table that goes on the header stays, and then only whole rows.
        forget = max(0, cut - _CONTEXT)
        for start, end, _ in spans:
            # A secret cut in two would no longer be recognised.
            if start < forget < end:
                forget = start if end - start <= _MAX_OPEN else forget
        # Half a name can mean what the whole doesn't: `next_page_` gone, `token` left.
        # Of an endless one its end is kept, by which it is judged.
        while 0 < forget < cut - _NAME and self._buffer[forget - 1] in NAME_LETTERS:
            forget += 1
        # Half an encoding would stand for something else.
        forget = next((start for start, end, _ in found.encodings if start < forget < end), forget)
        header, tables = "", [rows for rows in found.tables.values() if rows]
        table = next((rows for rows in tables if rows[0] < forget and cut < rows[-1]), None)
        if table is not None:
            header = "\n" + self._buffer[table[0] : table[1]]
            forget = table[max(1, bisect_right(table, forget) - 1)]
        self._is_start = self._is_start and not forget
        self._buffer = header + self._buffer[forget:]
        forget -= len(header)
        self._released = cut - forget
        if spans and spans[-1][1] >= len(self._buffer) + forget - _HELD_BACK:
            start = spans[-1][0] - forget
            if len(self._buffer) - start > _MAX_OPEN:
                self._buffer = self._buffer[: start + _OPEN_HEAD] + self._buffer[-_OPEN_TAIL:]
