"""Nothing goes out that was read: an address or a query can't carry a secret or a local file.

A page may talk a model into putting what it has read into the next address. Refused on its way out
is everything that masking would hide, and any run of forty characters that a tool has shown of
local files. Case, spaces and separators don't matter, nor does percent, base64 or
hexadecimal encoding: only letters and digits are compared, after decoding.

Links are the exception, or no link in a README could be followed. An address may begin as an
address in a local text does, and what goes beyond that is checked. An address that stands in what
came from the web may be asked for whole: the web knows it already. Neither covers secrets.
"""

import re
from base64 import b64decode
from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from os.path import commonprefix
from urllib.parse import unquote_plus

from outrider.masking import Masker
from outrider.protocol.envelope import ToolCode, ToolFault

MAX_RUN = 40  # how many characters of a local file may go out in a row, less one
MAX_LETTERS = 32  # the same without what separates them: about forty characters of text
MAX_REMEMBERED = 64 << 20  # how many letters and digits are remembered; of more, those read last
MAX_LINKS = 20_000
_MIN_LETTERS = 20  # how many letters and digits forty characters have at least, code included
_BLOCK = _MIN_LETTERS // 2
_MAX_DECODINGS = 2
_MAX_UNQUOTINGS = 4
_SEPARATORS = re.compile(r"[\W_]+")
_ASCII_SEPARATORS = bytes(code for code in range(128) if not chr(code).isalnum())
_LINE_NUMBER = re.compile(r"(?m)^\d+(?:\t|[:-] )")
_LINK = re.compile(r"https?://[^\s<>\"'`|\\^{}]+")
_NOT_CODE = re.compile(r"[^A-Za-z0-9]+")
_ENCODED = re.compile(r"[A-Za-z0-9+/_-]{32,}")
_HEXADECIMAL = re.compile(r"[0-9A-Fa-f]{40,}")
_READABLE = re.compile(rb"[\t\n\r\x20-\x7e]{16,}")


class OutgoingGuard:
    """Knows what a child has read in this run, and refuses to let it out."""

    def __init__(self, mask: Masker, is_public: Callable[[str], bool] = lambda _: False) -> None:
        """`is_public` tells whether an address stands in what came from the web."""
        self.mask = mask
        self._is_public = is_public
        self._texts: deque[str] = deque()
        self._size = 0
        self._links: set[str] = set()

    def remember(self, text: str) -> None:
        links = (link.rstrip(".,;:!?)]*_") for link in _LINK.findall(text))
        self._links.update(islice(links, MAX_LINKS - len(self._links)))
        letters = _letters(_LINE_NUMBER.sub("", text))
        if len(letters) < _MIN_LETTERS:
            return
        self._texts.append(letters[-MAX_REMEMBERED:])
        self._size += len(self._texts[-1])
        while self._size > MAX_REMEMBERED:
            self._size -= len(self._texts.popleft())

    def check(self, outgoing: str) -> None:
        """Raise `ToolFault` where a text that is about to go out must stay."""
        if any(self.mask.text(form) != form for form in _forms(outgoing)):
            raise _refused("contains something that looks like a secret")
        # A host counts only as a whole: it may be a secret name below another's domain.
        shared = (commonprefix((f"{link}/", f"{outgoing}/")) for link in self._links)  # noqa: RUF071
        known = (len(one) for one in shared if one.count("/") > 2)
        for form in _forms(outgoing[max(known, default=0) :]):
            if (run := self._local_run(form)) and not self._is_public(outgoing):
                raise _refused(f"repeats {run} characters that were read from local files")

    def _local_run(self, text: str) -> int:
        """Return how long a run of local text is that must stay; 0 where there is none."""
        places = [at for at, letter in enumerate(text) if letter.isalnum()]
        letters = _letters(text)
        if len(letters) != len(places):  # a letter that folds to two: count letters only
            places = list(range(len(letters)))
        # What separates counts with the letters that it stands beside.
        begins = [0, *(at + 1 for at in places)]
        ends = [*places, len(text)]
        # Any run that counts has a whole block in it, wherever it begins.
        for block in range(0, len(letters) - _BLOCK + 1, _BLOCK):
            if self._was_read(letters[block : block + _BLOCK]):
                first = max(0, block - _MIN_LETTERS + _BLOCK)
                for start in range(first, block + 1):
                    end = self._end_of_run(letters, start)
                    run = ends[end] - begins[start] if end else 0
                    if run >= MAX_RUN or end - start >= MAX_LETTERS:
                        return max(run, end - start)
        return 0

    def _end_of_run(self, letters: str, start: int) -> int:
        end = start + _MIN_LETTERS
        if end > len(letters) or not self._was_read(letters[start:end]):
            return 0
        while end < len(letters) and self._was_read(letters[start : end + 1]):
            end += 1
        return end

    def _was_read(self, letters: str) -> bool:
        return any(letters in text for text in self._texts)


def _letters(text: str) -> str:
    if text.isascii():  # ten times as fast
        return text.lower().encode().translate(None, _ASCII_SEPARATORS).decode()
    return _SEPARATORS.sub("", text.casefold())


def _forms(text: str, decodings: int = _MAX_DECODINGS) -> Iterator[str]:
    """Yield a text as it is, and what it is when it is decoded."""
    yield text
    for _ in range(_MAX_UNQUOTINGS):
        text, before = unquote_plus(text), text
        if text == before:
            break
        yield text
    if decodings:
        joined = _NOT_CODE.sub("", text)  # what was encoded may have been cut in pieces
        for word in dict.fromkeys([*_ENCODED.findall(text), joined]):
            for data in _decoded(word):
                for readable in _readable(data):
                    yield from _forms(readable, decodings - 1)


def _decoded(word: str) -> Iterator[bytes]:
    """Yield what a word may encode; other text may stand right before the code."""
    for digits in _HEXADECIMAL.findall(word):
        for skipped in range(2):
            yield bytes.fromhex(digits[skipped : len(digits) - (len(digits) - skipped) % 2])
    plain = word.replace("-", "+").replace("_", "/")
    for skipped in range(4):
        part = plain[skipped:] if (len(plain) - skipped) % 4 != 1 else plain[skipped:-1]
        yield b64decode(part + "=" * (-len(part) % 4))


def _readable(data: bytes) -> Iterator[str]:
    try:
        yield data.decode()
    except UnicodeDecodeError:
        yield from (found.decode() for found in _READABLE.findall(data))


def _refused(what: str) -> ToolFault:
    why = "Ask without it: nothing that was read here may leave this machine."
    return ToolFault(ToolCode.DENIED, f"The address or query {what}, so it was not sent. {why}")
