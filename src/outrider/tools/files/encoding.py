"""Which encoding a file's text is in, told from its first bytes."""

import codecs
from dataclasses import dataclass

SAMPLE_BYTES = 8_192

# Longest first: the mark of UTF-16 is the start of that of UTF-32.
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_CONTROLS = bytes({*range(9), *range(14, 27), *range(28, 32), 127})


@dataclass(frozen=True, slots=True)
class Encoding:
    """How text is written in a file: its codec, and the mark before it, if any."""

    codec: str = "utf-8"
    mark: bytes = b""

    @property
    def shown(self) -> str:
        """The name for people and models."""
        return f"{self.codec} with BOM" if self.mark else self.codec

    def decode(self, content: bytes) -> str:
        """Return the text of a whole file such that `encode` gives back the same bytes."""
        errors = "surrogateescape" if self.codec == "utf-8" else "strict"
        return content[len(self.mark) :].decode(self.codec, errors)

    def encode(self, text: str) -> bytes:
        """Return the bytes of a whole file that says `text`; a character it lacks raises."""
        errors = "surrogateescape" if self.codec == "utf-8" else "strict"
        return self.mark + text.encode(self.codec, errors)


def detect(sample: bytes, *, whole: bool) -> Encoding | None:
    """Return the encoding of a file that starts with `sample`, or None where it isn't text."""
    for mark, codec in _MARKS:
        if sample.startswith(mark):
            return Encoding(codec, mark)
    if b"\0" in sample:
        return _unmarked_utf16(sample)
    if len(sample.translate(None, _CONTROLS)) < 0.9 * len(sample):
        return None
    if _is_valid(sample, "utf-8", whole=whole):
        return Encoding()
    return Encoding(_eight_bit_codec(sample))


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
