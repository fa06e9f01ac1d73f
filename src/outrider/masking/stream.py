"""No secret passes in pieces: text that comes in deltas, masked as if it had come whole."""

from typing import TYPE_CHECKING

from .names import NAME_LETTERS

if TYPE_CHECKING:
    from .spans import Span

_HELD_BACK = 200  # enough of any secret to know it by, before its beginning is let go
_CONTEXT = 256  # what was let go and still tells what follows: names, operators
_STEP = 64  # new characters that make another look worth while
_MAX_OPEN = 6000
_OPEN_HEAD = 2600
_OPEN_TAIL = 400


class StreamMasker:
    """Lets text through as soon as no secret can begin in it any more.

    It keeps a few hundred characters, and a few thousand where a secret has begun and not ended:
    of a longer one only the beginning and the latest end are kept.
    """

    __slots__ = ("_buffer", "_home", "_next_look", "_project", "_released", "_secrets")

    def __init__(self, project: str | None, home: str | None, secrets: tuple[str, ...]) -> None:
        self._project = project
        self._home = home
        self._secrets = secrets
        self._buffer = ""
        self._released = 0
        self._next_look = _HELD_BACK + _STEP

    @property
    def held(self) -> int:
        """How many characters are kept: what isn't shown yet, and what explains it."""
        return len(self._buffer)

    def feed(self, delta: str) -> str:
        """Take the next piece; return what may be shown now."""
        self._buffer += delta
        if len(self._buffer) < self._next_look:
            return ""
        from .spans import replaced

        spans, undecided = self._spans()
        cut = self._cut(spans, undecided)
        shown = replaced(self._buffer[:cut], [s for s in spans if s[1] <= cut], self._released)
        self._keep(cut, spans)
        # Growing by a share of what is held keeps the work linear when much is held.
        held = len(self._buffer)
        self._next_look = held + max(_STEP, (held - _HELD_BACK - _CONTEXT) // 2)
        return shown

    def finish(self) -> str:
        """Return the rest; the stream is over."""
        from .spans import replaced

        spans, _ = self._spans()
        shown = replaced(self._buffer, spans, self._released)
        self._buffer, self._released = "", 0
        return shown

    def _spans(self) -> "tuple[list[Span], int]":
        from .search import Search

        search = Search(self._secrets, self._project, self._home, traces=False)
        return search.spans(self._buffer)

    def _cut(self, spans: "list[Span]", undecided: int) -> int:
        """Return up to where the buffer can be let go."""
        cut = min(len(self._buffer) - _HELD_BACK, undecided, self._open_secret())
        for start, end, _ in reversed(spans):
            if start < cut < end or (start < cut and end >= len(self._buffer)):
                cut = start
        return max(cut, self._released)

    def _open_secret(self) -> int:
        """Return where a long known secret may have begun that isn't whole yet."""
        from .search import spellings

        earliest = len(self._buffer)
        for secret in spellings(self._secrets):
            if len(secret) <= _HELD_BACK:
                break
            at = self._buffer.rfind(secret[:_HELD_BACK])
            if at >= 0 and secret.startswith(self._buffer[at:]):
                earliest = min(earliest, at)
        return earliest

    def _keep(self, cut: int, spans: "list[Span]") -> None:
        """Drop what was let go but for its last words, and the middle of a secret without end."""
        forget = max(0, cut - _CONTEXT)
        for start, end, _ in spans:
            # A secret cut in two would no longer be known for what it was.
            if start < forget < end:
                forget = start if end - start <= _MAX_OPEN else forget
        # Half a name could promise what the whole doesn't: `next_page_` gone, `token` left.
        while 0 < forget < cut and self._buffer[forget - 1] in NAME_LETTERS:
            forget += 1
        self._buffer = self._buffer[forget:]
        self._released = cut - forget
        if spans and spans[-1][1] >= len(self._buffer) + forget - _HELD_BACK:
            self._shorten(spans[-1][0] - forget)

    def _shorten(self, start: int) -> None:
        """Drop the middle of the secret that began at `start` and hasn't ended."""
        if len(self._buffer) - start > _MAX_OPEN:
            self._buffer = self._buffer[: start + _OPEN_HEAD] + self._buffer[-_OPEN_TAIL:]
