"""What the bytes of a file are: text in some encoding, or something else."""

import codecs

from outrider.protocol.data import frozen

SAMPLE_BYTES = 8_192
# How far above what is shown a secret may have begun: the largest private keys have 200 lines.
LINES_ABOVE = 250

# Longest first: the mark of UTF-16 is the start of that of UTF-32.
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_CONTROLS = bytes({*range(9), *range(14, 27), *range(28, 32), 127})


@frozen
class Encoding:
    """How text is written in a file: its codec, and the mark before it, if any."""

    codec: str = "utf-8"
    mark: bytes = b""

    @property
    def shown(self) -> str:
        return f"{self.codec} with BOM" if self.mark else self.codec

    def readable(self, content: bytes) -> str:
        """Return the text of a whole file, with U+FFFD for what can't be decoded."""
        return content[len(self.mark) :].decode(self.codec, "replace")

    def decode(self, content: bytes) -> str:
        """Return the text of a whole file such that `encode` gives back the same bytes."""
        return content[len(self.mark) :].decode(self.codec, self._errors)

    def encode(self, text: str) -> bytes:
        """Return the bytes of a file with this text; raises where the codec lacks a character."""
        return self.mark + text.encode(self.codec, self._errors)

    @property
    def _errors(self) -> str:
        return "surrogateescape" if self.codec == "utf-8" else "strict"


def detect(content: bytes, size: int) -> Encoding | None:
    """Return the encoding of a file of `size` bytes that starts with `content`; None: not text."""
    sample = content[:SAMPLE_BYTES]
    if (encoding := encoding_by_mark(sample)) is not None:
        return encoding
    if b"\0" in sample:
        return _unmarked_utf16(sample)
    if len(sample.translate(None, _CONTROLS)) < 0.9 * len(sample):
        return None
    if _is_valid(sample, "utf-8", whole=len(sample) == size):
        return Encoding()
    return Encoding(_eight_bit_codec(sample))


def encoding_by_mark(content: bytes) -> Encoding | None:
    """Return the encoding that the mark at the start of a file names, if it has one."""
    return next((Encoding(codec, mark) for mark, codec in _MARKS if content.startswith(mark)), None)


def _is_valid(sample: bytes, codec: str, *, whole: bool) -> bool:
    try:
        codecs.getincrementaldecoder(codec)("strict").decode(sample, whole)
    except UnicodeDecodeError:
        return False
    return True


def _unmarked_utf16(sample: bytes) -> Encoding | None:
    """Return UTF-16 where every other byte of mostly Latin text is zero."""
    pairs = len(sample) // 2
    zeros = (sample[0 : 2 * pairs : 2].count(0), sample[1 : 2 * pairs : 2].count(0))
    for codec, high, low in (("utf-16-le", zeros[1], zeros[0]), ("utf-16-be", *zeros)):
        if high > 0.7 * pairs and low == 0 and _is_valid(sample[: 2 * pairs], codec, whole=False):
            return Encoding(codec)
    return None


def _eight_bit_codec(sample: bytes) -> str:
    """Return the codec of text that isn't valid UTF-8: damaged UTF-8, or a Western one."""
    text = sample.decode("utf-8", "replace")
    damaged = text.count("\ufffd")
    intact = sum(not character.isascii() for character in text) - damaged
    if intact >= damaged:
        return "utf-8"
    if not any(0x80 <= byte < 0xA0 for byte in sample):
        return "latin-1"
    return "cp1252" if _is_valid(sample, "cp1252", whole=True) else "utf-8"


def shown_size(size: int) -> str:
    """Return a number of bytes in the unit that keeps it short: `512 B`, `3.4 KB`."""
    power = min((max(size, 1).bit_length() - 1) // 10, 4)
    return f"{size / 1024**power:.1f} {'KMGT'[power - 1]}B" if power else f"{size} B"
