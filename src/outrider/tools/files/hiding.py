"""Guarantees that a search doesn't show a line that is a secret only among its neighbours.

One line of a private key looks like any other base64, and `value: …` like any other setting. Where
such a line was found, the file around it tells what it is.
"""

import os
import re

from outrider.masking import Masker
from outrider.tools.files.encoding import SAMPLE_BYTES, Encoding, detect
from outrider.tools.files.faults import FileFault
from outrider.tools.files.matches import MAX_LINE_CHARACTERS, FoundFile, FoundLine
from outrider.tools.files.opening import opened_file
from outrider.tools.files.paths import Place

MAX_BYTES = 8 * 1024 * 1024
_UNCLEAR = re.compile(r"[A-Za-z0-9+/]{40}|\bvalue\b[\"']?[ \t]*[:=]")
_UNCHECKED = "[not shown: it may be part of a secret, and its file can't be looked at]"


def hide_secrets(found: FoundFile, place: Place, mask: Masker) -> None:
    """Mask the kept lines of a file that are secret for what stands around them."""
    if not any(_UNCLEAR.search(line.text) for line in found.lines):
        return
    masked = _masked_lines(place, mask)
    found.lines = [_checked(line, masked) for line in found.lines]


def _checked(line: FoundLine, masked: dict[int, str] | None) -> FoundLine:
    if masked is None:
        hidden = _UNCHECKED if _UNCLEAR.search(line.text) else None
    else:
        hidden = None if line.number is None else masked.get(line.number)
    return line if hidden is None else FoundLine(line.number, hidden, line.is_match)


def _masked_lines(place: Place, mask: Masker) -> dict[int, str] | None:
    """Return the lines of a file that masking changes, by number; None where it can't be read."""
    try:
        with opened_file(place) as file:
            content = os.pread(file, MAX_BYTES + 1, 0)
    except (FileFault, OSError):
        return None
    if len(content) > MAX_BYTES:
        return None
    encoding = detect(content[:SAMPLE_BYTES], whole=len(content) <= SAMPLE_BYTES) or Encoding()
    lines = content[len(encoding.mark) :].decode(encoding.codec, "replace").split("\n")
    pairs = zip(lines, mask.lines(lines), strict=True)
    return {
        number: masked
        for number, (line, masked) in enumerate(pairs, 1)
        # A longer one was looked at before it was cut.
        if masked != line and len(line) <= MAX_LINE_CHARACTERS
    }
