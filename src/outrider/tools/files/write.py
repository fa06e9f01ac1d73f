"""The tool `write`: a whole file, made or replaced in one step."""

from typing import Annotated, Any

from outrider.protocol.envelope import ToolCode, ToolFault
from outrider.tools.context import ToolContext
from outrider.tools.files.diffs import change
from outrider.tools.files.text import detect, shown_size
from outrider.tools.formatting import Arguments, Formatter
from outrider.tools.registry import tool
from outrider.workspaces.workspace import MAX_CONTENT_BYTES, FileVersion


def _format_long(data: Any, arguments: Arguments) -> str:
    size = f"{shown_size(data['size'])}, {data['lines']:,} lines"
    if data["created"]:
        return f"Made {data['path']} ({size})."
    counts = f" +{data['added']:,} -{data['removed']:,} lines" if "diff" in data else ""
    head = f"Replaced {data['path']} ({size}).{counts}"
    return f"{head}\n{data['diff']}" if data.get("diff") else head


def _format_short(data: Any, arguments: Arguments) -> str:
    return f"write {data['path']} → {data['lines']} lines"


@tool("file:write", name="write", format=Formatter(_format_long, _format_short))
def write(
    context: ToolContext, path: Annotated[str, {"minLength": 1}], content: str
) -> dict[str, Any]:
    """Write a whole file, making it and its folders, or replacing what it held. Use edit to
    change parts of a file.

    Args:
        path: The file, relative to the working tree.
        content: The whole content of the file.
    """
    place = context.workspace.resolve(path, writing=True)
    if path.endswith("/"):
        message = f"{place.shown} is named as a folder: leave out the slash at its end"
        raise ToolFault(ToolCode.BAD_PARAMETER, message)
    encoded = content.encode()
    workspace, stop = context.workspace, context.stop
    old, after = workspace.replace(place, lambda old: encoded, stop, make_folders=True)
    before = old and old.hash
    context.effects.file_written(place.path, before, after)
    return {
        "path": place.shown,
        "created": old is None,
        "size": len(encoded),
        "lines": content.count("\n") + (not content.endswith("\n") and bool(content)),
        "before": before,
        "after": after,
        **_change(old, content),
    }


def _change(old: FileVersion | None, content: str) -> dict[str, Any]:
    """Return what changed, where both are text and small enough to be compared."""
    if old is None or old.content is None or len(content) > MAX_CONTENT_BYTES:
        return {}
    encoding = detect(old.content, old.size)
    return {} if encoding is None else change(encoding.readable(old.content), content)
