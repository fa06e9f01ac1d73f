"""What a writer changed, for its result and its reviewer: the files, their lines, the diff.

The diff is drawn here, from bytes: no attribute of a repository, the child's own least of all, can
hide a file from it. Characters that can't be seen, or that move others, are spelled out.
"""

import difflib
import hashlib
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress

from outrider.protocol.changes import ChangedFile, Changes, Hunk
from outrider.protocol.data import frozen
from outrider.protocol.text import is_visible
from outrider.workspaces.layers.landing import WriterRun
from outrider.workspaces.layers.versions import PathChange, Version, ancestors, is_folder
from outrider.workspaces.names import shown_name
from outrider.workspaces.opening import READ

MAX_DRAWN_BYTES = 4 << 20
MAX_EQUAL_PAIRS = 3_000_000
"""How many pairs of equal lines two files may have: comparing them takes longer with each."""
_CONTEXT = 3
_ODD_SHARE = 0.3
_NO_END = "\\ No newline at end of file"
_CONTROLS = bytes({*range(32), 127} - {*b"\t\n\r\f\x1b"})


@frozen
class FileDiff:
    """One changed path: what the result says of it, and its diff, line by line, safe to show."""

    file: ChangedFile
    added: int
    removed: int
    lines: tuple[str, ...]


def reviewed(run: WriterRun, changes: Sequence[PathChange]) -> list[FileDiff]:
    """Return the diff of each change; a folder is named only where nothing in it is."""
    implied = ancestors(one.path for one in changes)
    named = (one for one in changes if one.path not in implied or not one.is_of_folder)
    return [_reviewed(run, one) for one in named]


def review(run: WriterRun) -> tuple[Changes, list[FileDiff]]:
    """Return a run's changes as its result tells them, what would conflict now, and the diffs."""
    pending = run.pending()
    every = sorted((*run.landed.values(), *pending.changes), key=lambda one: one.path)
    drawn = reviewed(run, every)
    added, removed = sum(one.added for one in drawn), sum(one.removed for one in drawn)
    files, conflicts = tuple(one.file for one in drawn), run.conflicts(pending.changes)
    return Changes(run.state, added, removed, files, pending.withheld, conflicts), drawn


def _reviewed(run: WriterRun, change: PathChange) -> FileDiff:
    sides, shown, hunks = (change.before, change.after), shown_name(change.path), list[Hunk]()
    contents = [_content(run, change.path, one) for one in sides]
    old, new = (shown if one else "/dev/null" for one in sides)
    lines, body = [f"--- {old}", f"+++ {new}", *_notes(*sides, contents)], list[str]()
    if contents[0] is not None and contents[1] is not None and not any(map(_is_binary, contents)):
        body += _drawn(contents[0], contents[1], hunks)
    added, removed = (sum(line.startswith(sign) for line in body) for sign in "+-")
    before, after = ((one.hash or None) if one else None for one in sides)
    file = ChangedFile(shown, _kind(*sides), before, after, tuple(hunks), change.calls)
    return FileDiff(file, added, removed, (*lines, *body))


def _kind(before: Version | None, after: Version | None) -> str:
    if before is None or after is None:
        return "added" if after else "deleted"
    if before.kind != after.kind:
        return "type"
    return "modified" if before.hash != after.hash else "mode"


def _content(run: WriterRun, path: str, version: Version | None) -> bytes | None:
    """Return what a version held, None where that isn't to be had or too much to draw."""
    if version is None or is_folder(version):
        return b""
    if version.kind == "link":
        return f"link to {version.target}\n".encode()
    if version.size > MAX_DRAWN_BYTES:
        return None
    for file in (run.contents.path(version), run.top / path, run.project / path):
        with suppress(OSError), open(os.open(file, READ), "rb") as opened:
            content = opened.read(MAX_DRAWN_BYTES)
            if hashlib.sha256(content).hexdigest() == version.hash:
                return content
    return None


def _notes(
    before: Version | None, after: Version | None, contents: Sequence[bytes | None]
) -> Iterator[str]:
    """Yield what a diff of lines doesn't tell."""
    for word, one in (("deleted", before), ("new", after)):
        if is_folder(one):
            yield f"{word} folder" if None in (before, after) else f"{word} side: a folder"
    if before and after and before.kind == after.kind and before.mode != after.mode:
        yield f"mode {before.mode:o} → {after.mode:o}"
    elif after and not before and after.kind == "file" and after.mode & 0o111:
        yield f"mode {after.mode:o}"
    if None in contents or any(map(_is_binary, contents)):
        sizes = " → ".join(f"{one.size:,} bytes" if one else "nothing" for one in (before, after))
        yield f"{'too large to show' if None in contents else 'binary'}: {sizes}"


def _is_binary(content: bytes | None) -> bool:
    """Whether too much of a content isn't text; a few odd bytes are shown as such."""
    if not content:
        return False
    odd = len(content) - len(content.translate(None, _CONTROLS))
    odd += sum("\udc80" <= char <= "\udcff" for char in _decoded(content))
    return odd > len(content) * _ODD_SHARE


def _decoded(content: bytes) -> str:
    return content.decode(errors="surrogateescape")


def _drawn(before: bytes, after: bytes, hunks: list[Hunk]) -> Iterator[str]:
    """Yield the lines of a diff; `hunks` gets where they are."""
    old, new = _lines(before), _lines(after)
    is_dos = all(line.endswith("\r") for line in (*old, *new))
    for group in _groups(old, new):
        (_, a, _, b, _), (_, _, c, _, d) = group[0], group[-1]
        hunks.append(Hunk((a + 1, c - a), (b + 1, d - b)))
        yield f"@@ -{a + 1},{c - a} +{b + 1},{d - b} @@{' (CRLF)' if is_dos else ''}"
        for what, i, j, k, m in group:
            if what == "equal":
                yield from _signed(" ", old[i:j], is_dos)
            else:
                yield from _signed("-", old[i:j], is_dos)
                yield from _signed("+", new[k:m], is_dos)


def _lines(content: bytes) -> list[str]:
    """Return the lines; the last one says where it doesn't end."""
    *lines, rest = _decoded(content).split("\n")
    return [*lines, f"{rest}\n{_NO_END}"] if rest else lines


def _groups(old: list[str], new: list[str]) -> Iterator[list[tuple[str, int, int, int, int]]]:
    """Yield the parts that differ, with the lines around them."""
    if old == new:
        return
    counts = Counter(new)
    if sum(counts[line] for line in old) > MAX_EQUAL_PAIRS:
        yield [("replace", 0, len(old), 0, len(new))]
    else:
        matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
        yield from matcher.get_grouped_opcodes(_CONTEXT)


def _signed(sign: str, lines: Sequence[str], is_dos: bool) -> Iterator[str]:
    for line in lines:
        text, _, note = line.partition("\n")
        yield sign + visible(text.removesuffix("\r") if is_dos else text)
        if note:
            yield note


def visible(line: str) -> str:
    """Return a line with all that can't be seen, or moves other text, spelled out."""
    if line.isascii() and line.isprintable():
        return line
    return "".join(one if one == "\t" or is_visible(one) else _spelled(one) for one in line)


def _spelled(char: str) -> str:
    if char < " ":
        return chr(0x2400 + ord(char))
    is_byte = "\udc80" <= char <= "\udcff"
    return shown_name(char) if is_byte else f"<U+{ord(char):04X}>"
