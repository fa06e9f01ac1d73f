"""Guarantees that a search depends on nothing that masking hides (no oracle).

A line that masking changes is searched in a form in which all that is hidden is 0xFF, a byte that
no pattern over text matches, with no word boundary beside it. What matches in this form matches in
the file too, whatever is hidden there. So a search may first choose by the real content, and then
drop what doesn't match in this form: the answer is the same for any secret.
"""

import codecs
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

from outrider.masking import Masker
from outrider.tools.files.text import LINES_ABOVE, Encoding, detect, encoding_by_mark

MAX_BLOCK_BYTES = 8 * 1024 * 1024
_FIRST_BYTES = 64 * 1024
_HIDDEN = "\udcff"
_TOO_LONG = b"\xff\n"
# Some characters outside ASCII are part of words, and it doesn't matter which.
_WORD = r"[\w\x80-\U0010ffff]"
# A mask with the words that it touches. Each word is tried from its start only: in linear time.
_MASK = re.compile(rf"(?:(?<!{_WORD}){_WORD}++)?\[masked:[a-z-]+\]{_WORD}*")
_NOT_DECODED = re.compile("\ufffd")
_NOT_ASCII = re.compile(r"[^\0-\x7f]")


@dataclass(slots=True)
class Block:
    """Whole lines of a file, as the file has them."""

    path: str
    first: int  # the number of the first line
    content: bytes  # the lines, each ended by a newline
    lines: int
    above: bytes = b""  # what comes before it in the file, as far as that may tell what is secret
    shown: dict[int, str] = field(default_factory=dict[int, str])
    """By their numbers, the lines that are shown as something else."""

    @property
    def is_too_long(self) -> bool:
        """Whether it stands for a line that is too long to be searched."""
        return self.content is _TOO_LONG

    def hide_secrets(self, mask: Masker) -> dict[int, bytes]:
        """Let its secrets be shown masked; returns those lines as they are searched."""
        # The mask must hide secrets only: anything else in a masked line is taken for its own.
        found = None if b"\0" in self.content else detect(self.content, len(self.content))
        # The file's own mark is no longer there, so one that is found here is text.
        codec = found.codec if found and not found.mark else Encoding().codec
        above, lines = _texts(self.above, codec), _texts(self.content, codec)
        masked = mask.lines([*above, *lines])[len(above) :]
        if self.is_too_long or masked == lines:
            return {}
        numbered = enumerate(zip(lines, masked, strict=True), self.first)
        changed = {number: shown for number, (line, shown) in numbered if line != shown}
        self.shown |= changed
        return {number: _searchable(shown, codec) for number, shown in changed.items()}


def blocks_of(path: str, file: BinaryIO, *, binary: bool) -> Iterator[Block]:
    """Yield a file in bounded blocks; one that isn't text has none, unless `binary` is set."""
    start = file.read(_FIRST_BYTES)
    found = detect(start, len(start)) if b"\0" in start else encoding_by_mark(start)
    encoding = found or Encoding()
    chunks = _chunks(start, file, encoding)
    if encoding.codec != "utf-8":
        chunks = _in_utf8(chunks, encoding.codec)
    first, before = 1, b""
    for content in _whole_lines(chunks):
        if not binary and b"\0" in content:
            return
        above = b"\n".join(before.rsplit(b"\n", LINES_ABOVE + 1)[-LINES_ABOVE - 1 :])
        block = Block(path, first, content, content.count(b"\n"), above)
        if block.is_too_long:
            block.shown[first] = "[a line too long to search]"
        yield block
        first += block.lines
        before = content


def _texts(lines: bytes, codec: str) -> list[str]:
    return lines.decode(codec, "replace").replace("\r\n", "\n").split("\n")[:-1]


def _chunks(start: bytes, file: BinaryIO, encoding: Encoding) -> Iterator[bytes]:
    """Yield a file without its mark, and with a newline at its end."""
    chunk, newline = start[len(encoding.mark) :], "\n".encode(encoding.codec)
    while more := file.read(MAX_BLOCK_BYTES):
        if len(chunk) >= MAX_BLOCK_BYTES:
            yield chunk
            chunk = b""
        chunk += more
    yield chunk if not chunk or chunk.endswith(newline) else chunk + newline


def _in_utf8(chunks: Iterable[bytes], codec: str) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder(codec)("replace")
    for chunk in chunks:
        yield decoder.decode(chunk).encode()
    yield decoder.decode(b"", True).encode()


def _whole_lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield lines, many at a time, and `_TOO_LONG` in place of each that is too long."""
    rest, skipping = b"", False
    for chunk in chunks:
        if skipping:
            _, newline, chunk = chunk.partition(b"\n")
            skipping = not newline
        end = chunk.rfind(b"\n") + 1
        if end:
            yield rest + chunk[:end]
            rest = b""
        rest += chunk[end:]
        if len(rest) > MAX_BLOCK_BYTES:
            yield _TOO_LONG
            rest, skipping = b"", True


def _searchable(masked: str, codec: str) -> bytes:
    """Return a masked line as it is searched: as long, and all the rest as ripgrep reads it."""
    # ripgrep takes every file without a mark for UTF-8, and matches nothing that isn't.
    doubtful = _NOT_DECODED if codec == "utf-8" else _NOT_ASCII
    hidden = _MASK.sub(lambda mask: _HIDDEN * len(mask[0]), masked)
    return doubtful.sub(_HIDDEN, hidden).encode(errors="surrogateescape")
