"""The tool `edit`: exact replacements in a file, all of them or none."""

import threading
from typing import Annotated, Any, NotRequired, TypedDict

from outrider.protocol.envelope import Envelope
from outrider.tools.context import ToolContext
from outrider.tools.files.diffing import compare
from outrider.tools.files.encoding import SAMPLE_BYTES, Encoding, detect
from outrider.tools.files.faults import answer, bad, fault_of, missing, unsupported
from outrider.tools.files.paths import Place, locate, realm_of
from outrider.tools.files.replacing import Replacement, replaced
from outrider.tools.files.sizes import shown_size
from outrider.tools.files.storing import MAX_BYTES, Old, store
from outrider.tools.formatting import Arguments, Formatter
from outrider.tools.registry import tool

MAX_EDITS = 200


class Edit(TypedDict):
    """One replacement, as the caller writes it."""

    oldText: Annotated[str, {"minLength": 1}, "The exact text to replace, blanks included."]
    newText: Annotated[str, "What takes its place."]
    all: NotRequired[Annotated[bool, "Replace it everywhere; else it must be there once."]]


def format_long(data: Any, arguments: Arguments) -> str:
    """Return what changed, as a diff."""
    head = f"Edited {data['path']}: +{data['added']:,} -{data['removed']:,} lines."
    return f"{head}\n{data['diff']}" if data["diff"] else head


def format_short(data: Any, arguments: Arguments) -> str:
    """Return one line that says how much changed."""
    return f"edit {data['path']} → +{data['added']} -{data['removed']} lines"


@tool("file:edit", name="edit", writes=True, format=Formatter(format_long, format_short))
async def edit(
    context: ToolContext,
    path: Annotated[str, {"minLength": 1}],
    edits: Annotated[list[Edit], {"minItems": 1, "maxItems": MAX_EDITS}],
) -> Envelope:
    """Replace exact pieces of text in a file. All edits are made against the file as it is, and
    either all are made or none. Line endings and encoding are kept.

    Args:
        path: The file, relative to the working tree.
        edits: The replacements; they must not overlap.
    """
    replacements = [
        Replacement(one["oldText"], one["newText"], one.get("all", False)) for one in edits
    ]
    return await answer(_edit, context, path, replacements)


def _edit(
    stop: threading.Event, context: ToolContext, path: str, replacements: list[Replacement]
) -> dict[str, Any]:
    place = locate(realm_of(context), path, writing=True)
    work = _Work(place, replacements)
    try:
        stored = store(place, work, stop, make_folders=False)
    except OSError as error:
        raise fault_of(error, place.shown) from None
    before = None if stored.old is None else stored.old.hash
    context.effects.file_written(place.path, before, stored.hash)
    change = compare(work.before, work.after)
    return {
        "path": place.shown,
        "edits": len(replacements),
        "removed": change.removed,
        "added": change.added,
        "diff": change.diff,
        "before": before,
        "after": stored.hash,
    }


class _Work:
    """Makes the new content of a file, and remembers both texts for the diff."""

    def __init__(self, place: Place, replacements: list[Replacement]) -> None:
        self._place = place
        self._replacements = replacements
        self.before = self.after = ""

    def __call__(self, old: Old | None) -> bytes:
        content = _content(old, self._place)
        encoding = _encoding(content, self._place)
        self.before = encoding.decode(content)
        self.after = replaced(self.before, self._replacements, self._place.shown)
        if self.after == self.before:
            raise bad("nothing would change: the edits differ in line endings only")
        try:
            return encoding.encode(self.after)
        except UnicodeEncodeError as error:
            letter = error.object[error.start]
            raise bad(
                f"{letter!r} can't be written in {encoding.shown}, the file's encoding"
            ) from None


def _content(old: Old | None, place: Place) -> bytes:
    if old is None:
        raise missing(f"there is no {place.shown}: use write to make it")
    if old.content is None:
        size = shown_size(old.status.st_size)
        raise unsupported(
            f"{place.shown} has {size}, more than the {shown_size(MAX_BYTES)} that can be edited"
        )
    return old.content


def _encoding(content: bytes, place: Place) -> Encoding:
    encoding = detect(content[:SAMPLE_BYTES], whole=len(content) <= SAMPLE_BYTES)
    if encoding is None:
        raise unsupported(f"{place.shown} is not text: it can't be edited")
    try:
        lossless = encoding.encode(encoding.decode(content)) == content
    except UnicodeError:
        lossless = False
    # Whatever the first bytes promised: as Latin-1 every byte stays what it is.
    return encoding if lossless else Encoding("latin-1")
