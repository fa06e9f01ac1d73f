"""Places in source text, in both counts: ours, and that of the language server protocol.

Ours count lines and characters from 1. The protocol counts from 0, and UTF-16 units within a line:
an emoji is one character and two units. What a server names may lie beyond the file.
"""

import os
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, cast
from urllib.parse import unquote_to_bytes, urlsplit

from outrider.protocol.envelope import ToolCode, ToolFault
from outrider.tools.files.text import detect, shown_size
from outrider.workspaces.workspace import Place, Workspace

MAX_SOURCE_BYTES = 4 << 20
# Not `splitlines`, which ends lines at form feeds and other characters too.
_LINE_END = re.compile(r"\r\n|\n|\r")


@dataclass(frozen=True)
class SourceText:
    """The text of a file, with its lines."""

    text: str

    @cached_property
    def lines(self) -> list[str]:
        """The lines without their ends."""
        return _LINE_END.split(self.text)

    def to_server(self, line: int, column: int) -> dict[str, int]:
        """Return a place as servers count it; raises `ToolFault` where the file has none there."""
        text = self.lines[line - 1] if line <= len(self.lines) else ""
        if line > len(self.lines) or column > len(text) + 1:
            has = f"the file has {len(self.lines)} lines, and line {line} {len(text)} characters"
            raise ToolFault(ToolCode.BAD_PARAMETER, f"{line}:{column} is past the end: {has}")
        units = len(text[: column - 1].encode("utf-16-le", "surrogatepass")) // 2
        return {"line": line - 1, "character": units}

    def from_server(self, line: int, units: int) -> tuple[int, int] | None:
        """Return the line and column of what a server names; None where there is no such line."""
        if not 0 <= line < len(self.lines):
            return None
        cut = self.lines[line].encode("utf-16-le", "surrogatepass")[: 2 * max(0, units)]
        return line + 1, len(cut.decode("utf-16-le", "ignore")) + 1

    def offset(self, position: Any) -> int | None:
        """Return how many characters stand before what a server names."""
        place = self.from_server(position["line"], position["character"])
        return None if place is None else self._starts[place[0] - 1] + place[1] - 1

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *(end.end() for end in _LINE_END.finditer(self.text))]


def member(value: Any, name: str) -> Any:
    """Return an entry of what should be an object; None where it isn't one, or has none."""
    return cast("dict[str, Any]", value).get(name) if isinstance(value, dict) else None


def read_source(workspace: Workspace, place: Place) -> SourceText:
    """Return the text of a file; raises `ToolFault` where it has none, or too much of it."""
    with workspace.open_file(place) as file:
        content = file.read(MAX_SOURCE_BYTES + 1)
    encoding = detect(content, len(content))
    if encoding is None or len(content) > MAX_SOURCE_BYTES:
        most = shown_size(MAX_SOURCE_BYTES)
        message = f"{place.shown} is not text of at most {most}: language servers don't get it"
        raise ToolFault(ToolCode.TOO_LARGE, message)
    return SourceText(encoding.readable(content))


def uri_of(path: str) -> str:
    """Return an absolute path as servers name it."""
    return Path(path).as_uri()


def path_of(uri: object) -> str | None:
    """Return the absolute path of a local file that a server names; None where it isn't one."""
    try:
        parts = urlsplit(str(uri))
        path = os.fsdecode(unquote_to_bytes(parts.path))
    except ValueError:
        return None
    local = parts.scheme == "file" and parts.netloc in ("", "localhost")
    return path if local and path.startswith("/") and "\0" not in path else None
