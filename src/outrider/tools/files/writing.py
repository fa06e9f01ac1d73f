"""The tool `write`: a whole file, made or replaced in one step."""

import threading
from typing import Annotated, Any

from outrider.protocol.envelope import Envelope
from outrider.tools.context import ToolContext
from outrider.tools.files.diffing import Change, compare
from outrider.tools.files.encoding import SAMPLE_BYTES, detect
from outrider.tools.files.faults import answer, bad, fault_of
from outrider.tools.files.paths import locate, realm_of
from outrider.tools.files.sizes import shown_size
from outrider.tools.files.storing import MAX_BYTES, Old, store
from outrider.tools.formatting import Arguments, Formatter
from outrider.tools.registry import tool


def format_long(data: Any, arguments: Arguments) -> str:
    """Return what was written, with a diff where a file was replaced."""
    size = f"{shown_size(data['size'])}, {data['lines']:,} lines"
    if data["created"]:
        return f"Made {data['path']} ({size})."
    change = f" +{data['added']:,} -{data['removed']:,} lines" if "diff" in data else ""
    head = f"Replaced {data['path']} ({size}).{change}"
    return f"{head}\n{data['diff']}" if data.get("diff") else head


def format_short(data: Any, arguments: Arguments) -> str:
    """Return one line that says what was written."""
    return f"write {data['path']} → {data['lines']} lines"


@tool("file:write", name="write", writes=True, format=Formatter(format_long, format_short))
async def write(
    context: ToolContext, path: Annotated[str, {"minLength": 1}], content: str
) -> Envelope:
    """Write a whole file, making it and its folders, or replacing what it held. Use edit to
    change parts of a file.

    Args:
        path: The file, relative to the working tree.
        content: All that the file shall hold.
    """
    return await answer(_write, context, path, content)


def _write(stop: threading.Event, context: ToolContext, path: str, content: str) -> dict[str, Any]:
    place = locate(realm_of(context), path, writing=True)
    if path.endswith("/"):
        raise bad(f"{place.shown} is named as a folder: leave out the slash at its end")
    try:
        encoded = content.encode()
    except UnicodeEncodeError:
        raise bad("content holds half a surrogate pair, which no file can hold as text") from None
    try:
        stored = store(place, lambda old: encoded, stop, make_folders=True)
    except OSError as error:
        raise fault_of(error, place.shown) from None
    before = None if stored.old is None else stored.old.hash
    context.effects.file_written(place.path, before, stored.hash)
    data: dict[str, Any] = {
        "path": place.shown,
        "created": stored.old is None,
        "size": len(encoded),
        "lines": content.count("\n") + (not content.endswith("\n") and bool(content)),
        "before": before,
        "after": stored.hash,
    }
    change = _change(stored.old, content)
    if change is not None:
        data |= {"removed": change.removed, "added": change.added, "diff": change.diff}
    return data


def _change(old: Old | None, content: str) -> Change | None:
    """Return what changed, where both are text and small enough to be compared."""
    if old is None or old.content is None or len(content) > MAX_BYTES:
        return None
    encoding = detect(old.content[:SAMPLE_BYTES], whole=len(old.content) <= SAMPLE_BYTES)
    if encoding is None:
        return None
    before = old.content[len(encoding.mark) :].decode(encoding.codec, "replace")
    return compare(before, content)
