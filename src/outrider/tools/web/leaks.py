"""Nothing goes out that was read: an address or a query can't carry a secret or a local file.

A page may talk a model into putting what it has read into the next address. What tools return of
local files is remembered, and any run of forty characters of it is refused on its way out, however
it is encoded. So is everything that masking would hide.
"""

import binascii
import re
from base64 import b64decode
from collections.abc import Iterator
from urllib.parse import unquote_plus

from outrider.masking import Masker
from outrider.protocol.envelope import ToolCode, ToolFault

MAX_RUN = 40
"""How many characters of a local file may go out in a row, less one."""
MAX_REMEMBERED = 64 << 20
_BLOCK = MAX_RUN // 2
_ENCODED = re.compile(r"[A-Za-z0-9+/_-]{32,}={0,2}")


class OutgoingGuard:
    """Knows what a child has read in this run, and refuses to let it out."""

    def __init__(self, mask: Masker) -> None:
        self._mask = mask
        self._texts: list[str] = []
        self._size = 0
        # Any run of `MAX_RUN` characters has a whole block of half that length in it, wherever
        # the run begins: so the blocks at every multiple of that length are enough.
        self._blocks: dict[str, tuple[int, int]] = {}

    def remember(self, text: str) -> None:
        """Take note of what a tool showed of local files."""
        text = _plain(text)
        if len(text) < MAX_RUN or self._size + len(text) > MAX_REMEMBERED:
            return
        self._size += len(text)
        self._texts.append(text)
        number = len(self._texts) - 1
        for at in range(0, len(text) - _BLOCK + 1, _BLOCK):
            self._blocks.setdefault(text[at : at + _BLOCK], (number, at))

    def check(self, outgoing: str) -> None:
        """Raise `ToolFault` where a text that is about to go out must stay."""
        for form in dict.fromkeys(_forms(outgoing)):
            if self._mask.text(form) != form:
                raise _refused("has something in it that looks like a secret")
            if run := self._local_run(_plain(form)):
                raise _refused(f"repeats {len(run)} characters that were read from local files")

    def _local_run(self, text: str) -> str:
        for at in range(len(text) - _BLOCK + 1):
            place = self._blocks.get(text[at : at + _BLOCK])
            if place is not None:
                run = _common(text, at, self._texts[place[0]], place[1])
                if len(run) >= MAX_RUN:
                    return run
        return ""


def _common(text: str, at: int, local: str, there: int) -> str:
    """Return the longest text around these two places that is the same in both."""
    before = 0
    while before < min(at, there) and text[at - before - 1] == local[there - before - 1]:
        before += 1
    after = _BLOCK
    most = min(len(text) - at, len(local) - there)
    while after < most and text[at + after] == local[there + after]:
        after += 1
    return text[at - before : at + after]


def _plain(text: str) -> str:
    """Return a text as it is compared: spaces and case are easily changed on the way."""
    return "".join(text.split()).casefold()


def _forms(text: str) -> Iterator[str]:
    """Yield a text as it is, and what it is when it is decoded."""
    yield text
    decoded = unquote_plus(text)
    yield decoded
    yield unquote_plus(decoded)
    for match in _ENCODED.finditer(decoded):
        yield from _decoded(match.group())


def _decoded(word: str) -> Iterator[str]:
    for decode in (bytes.fromhex, _from_base64):
        try:
            data = decode(word)
        except (ValueError, binascii.Error):
            continue
        if data.isascii():
            yield data.decode()


def _from_base64(word: str) -> bytes:
    word = word.rstrip("=").replace("+", "-").replace("/", "_")
    return b64decode(word + "=" * (-len(word) % 4), altchars=b"-_")


def _refused(what: str) -> ToolFault:
    return ToolFault(
        ToolCode.DENIED,
        f"The address or query {what}, so it was not sent. Ask without it: nothing that was read "
        "here may leave this machine.",
    )
