"""The tool `write`: a whole file, made or replaced in one step."""

from typing import Annotated, Any

from outrider.tools import Arguments, Formatter, ToolCode, ToolContext, ToolFault, tool
from outrider.tools.files.text import shown_size


def _format_long(data: Any, arguments: Arguments) -> str:
    size = f"{shown_size(data['size'])}, {data['lines']:,} lines"
    return f"{'Made' if data['created'] else 'Replaced'} {data['path']} ({size})."


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
        raise ToolFault(ToolCode.BAD_PARAMETER, f"{place.shown}/ is a folder: leave out the slash")
    encoded, workspace = content.encode(), context.workspace
    old, after = workspace.replace(place, lambda _: encoded, context.stop, make_folders=True)
    before = old and old.hash
    context.effects.file_written(place.path, before, after)
    lines = content.count("\n") + (not content.endswith("\n") and bool(content))
    data = {"path": place.shown, "created": old is None, "size": len(encoded), "lines": lines}
    return {**data, "before": before, "after": after}
