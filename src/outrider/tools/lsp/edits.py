"""Edits that a server proposes: shown, or made in all files or in none."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from outrider.protocol.envelope import ToolCode, ToolFault
from outrider.tools.context import ToolContext
from outrider.tools.files.diffs import change
from outrider.tools.files.edit import decoded, encoded
from outrider.tools.lsp.positions import SourceText, path_of
from outrider.tools.lsp.symbols import entries
from outrider.workspaces.workspace import FileVersion, Place

MAX_FILES = 500


@dataclass(frozen=True, slots=True)
class Change:
    """A file, what it holds, and what it is to hold."""

    place: Place
    before: bytes
    after: bytes
    told: dict[str, Any]


def planned(context: ToolContext, edit: Any) -> list[Change]:
    """Return the changes of a server's edit; raises `ToolFault` where one of them can't be made."""
    by_file: dict[str, list[dict[str, Any]]] = {}
    for one in entries(edit):
        files: dict[str, Any] = one.get("changes") or {}
        for uri, changes in files.items():
            by_file.setdefault(uri, []).extend(entries(changes))
        for document in entries(one.get("documentChanges") or []):
            if "kind" in document:
                message = f"the edit would {document['kind']} a file, which is not supported"
                raise ToolFault(ToolCode.TOO_LARGE, message)
            uri = str(document["textDocument"]["uri"])
            by_file.setdefault(uri, []).extend(entries(document["edits"]))
    if len(by_file) > MAX_FILES:
        message = f"the edit changes {len(by_file)} files; at most {MAX_FILES} are changed at once"
        raise ToolFault(ToolCode.TOO_LARGE, message)
    if not by_file:
        raise ToolFault(ToolCode.NOT_FOUND, "the server would change nothing")
    return [_change(context, uri, changes) for uri, changes in by_file.items()]


def _change(context: ToolContext, uri: str, edits: list[dict[str, Any]]) -> Change:
    place = context.workspace.resolve(path_of(uri) or "/", writing=True)
    with context.workspace.open_file(place) as file:
        before = file.read()
    encoding, text = decoded(FileVersion("", len(before), before), place.shown)
    source, crlf = SourceText(text), 2 * text.count("\r\n") > text.count("\n")
    pieces: list[tuple[int, int, str]] = []
    for one in edits:
        start, end = (source.offset(one["range"][side]) for side in ("start", "end"))
        new = str(one["newText"]).replace("\r\n", "\n")
        if start is None or end is None or end < start:
            raise _stale(place, "a place that the file doesn't have")
        pieces.append((start, end, new.replace("\n", "\r\n") if crlf else new))
    pieces.sort(key=lambda piece: piece[:2])
    if any(following[0] < one[1] for one, following in pairwise(pieces)):
        raise _stale(place, "places that overlap")
    after = text
    for start, end, new in reversed(pieces):
        after = after[:start] + new + after[end:]
    told = {"path": place.shown, "edits": len(pieces), **change(text, after)}
    return Change(place, before, encoded(after, encoding), told)


def _stale(place: Place, what: str) -> ToolFault:
    message = f"the edit names {what} in {place.shown}: nothing was changed"
    return ToolFault(ToolCode.CONFLICT, message)


def apply(context: ToolContext, changes: list[Change]) -> None:
    """Make all changes, or none where one fails."""
    done: list[Change] = []
    try:
        for one in changes:
            context.workspace.replace(one.place, _if(one, one.before, one.after), context.stop)
            done.append(one)
    except ToolFault:
        for one in reversed(done):
            context.workspace.replace(one.place, _if(one, one.after, one.before), context.stop)
        raise
    for one in changes:
        hashes = (hashlib.sha256(content).hexdigest() for content in (one.before, one.after))
        context.effects.file_written(one.place.path, *hashes)


def _if(one: Change, expected: bytes, new: bytes) -> Callable[[FileVersion | None], bytes]:
    def rewrite(old: FileVersion | None) -> bytes:
        if old is None or old.content != expected:
            message = f"{one.place.shown} was changed meanwhile: nothing was changed"
            raise ToolFault(ToolCode.CONFLICT, message)
        return new

    return rewrite
