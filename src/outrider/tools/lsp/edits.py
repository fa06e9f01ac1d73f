"""Edits that a server proposes: shown, or made in all files or in none."""

import hashlib
from contextlib import suppress
from itertools import pairwise
from threading import Event
from typing import Any

from outrider.protocol.data import frozen
from outrider.tools import ToolCode, ToolContext, ToolFault
from outrider.tools.files import edit as exact
from outrider.tools.lsp.positions import entries, path_of, read_source
from outrider.workspaces.place import FileVersion, Place

MAX_FILES = 500


@frozen
class Change:
    place: Place
    before: bytes
    after: bytes
    told: dict[str, Any]

    def make(self, context: ToolContext, *, undo: bool = False) -> None:
        """Replace the file's content, unless somebody else has changed it."""
        old, new = (self.after, self.before) if undo else (self.before, self.after)

        def rewrite(now: FileVersion | None) -> bytes:
            if now is None or now.content != old:
                raise ToolFault(ToolCode.CONFLICT, f"{self.place.shown} was changed meanwhile")
            return new

        # What was begun is undone also where the caller has given up.
        context.workspace.replace(self.place, rewrite, Event() if undo else context.stop)


def plan(context: ToolContext, edit: Any) -> list[Change]:
    """Return the changes of a server's edit; raises `ToolFault` where one of them can't be made."""
    by_file: dict[str, list[dict[str, Any]]] = {}
    for one in entries(edit):
        files: dict[str, Any] = one.get("changes") or {}
        documents = entries(one.get("documentChanges"))
        if any("kind" in document for document in documents):
            message = "the edit would create, rename or delete files, which isn't supported"
            raise ToolFault(ToolCode.TOO_LARGE, message)
        told = [*files.items(), *((one["textDocument"]["uri"], one["edits"]) for one in documents)]
        for uri, changes in told:
            by_file.setdefault(uri, []).extend(entries(changes))
    if not 0 < len(by_file) <= MAX_FILES:
        message = f"the edit changes {len(by_file)} files; 1 to {MAX_FILES} are changed at once"
        raise ToolFault(ToolCode.TOO_LARGE, message)
    return [_change(context, uri, changes) for uri, changes in by_file.items()]


def _change(context: ToolContext, uri: str, edits: list[dict[str, Any]]) -> Change:
    place = context.workspace.resolve(path_of(uri) or "/", writing=True)
    source = read_source(context.workspace, place)  # as the server knows it, and of bounded size
    with context.workspace.open_file(place) as file:
        before = file.read()
    encoding, text = exact.editable_text(FileVersion("", len(before), before), place.shown)
    if source.text != text:
        message = f"{place.shown} is damaged text, in which a server counts differently"
        raise ToolFault(ToolCode.CONFLICT, f"{message}: nothing was changed")
    crlf = 2 * text.count("\r\n") > text.count("\n")
    made: list[exact.Replacement] = []
    for number, one in enumerate(edits, 1):
        start, end = (source.offset(one["range"][side]) for side in ("start", "end"))
        if start is None or end is None or end < start:
            raise _misplaced(place)
        new = exact.ended_alike(text[start:end], str(one["newText"]), crlf)
        made.append(exact.Replacement(start, end, new, number))
    made.sort(key=lambda one: one[:2])
    if any(following.start < one.end for one, following in pairwise(made)):
        raise _misplaced(place)
    after = "".join(exact.edited_pieces(text, made))
    told = {"path": place.shown, "edits": len(made), **exact.change(text, after)}
    return Change(place, before, exact.encoded_text(after, encoding), told)


def _misplaced(place: Place) -> ToolFault:
    message = f"the edit names places in {place.shown} that overlap or aren't there"
    return ToolFault(ToolCode.CONFLICT, f"{message}: nothing was changed")


def apply(context: ToolContext, changes: list[Change]) -> None:
    """Make all changes, or none where one fails."""
    done: list[Change] = []
    try:
        for one in changes:
            one.make(context)
            done.append(one)
    except BaseException:
        for one in reversed(done):
            with suppress(ToolFault):  # somebody else has changed it since: that stays
                one.make(context, undo=True)
        raise
    for one in changes:
        hashes = (hashlib.sha256(content).hexdigest() for content in (one.before, one.after))
        context.effects.file_written(one.place.path, *hashes)
