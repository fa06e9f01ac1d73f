"""What of a layer can land: every path with its three versions, and why some never do."""

import bisect
import itertools
import os
import stat
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from outrider.protocol.changes import PathReason
from outrider.protocol.data import frozen
from outrider.workspaces.layers.audit import Ledger
from outrider.workspaces.layers.copying import walk
from outrider.workspaces.layers.user_git import UserGit
from outrider.workspaces.layers.versions import PathChange, Version, ancestors, version_at
from outrider.workspaces.names import shown_name, unescaped
from outrider.workspaces.path_guard import guarded_part

IGNORED = "ignored by git here: lands with --ignored"
MAX_LINKS = 40
_NEVER = {
    "setuid": "a setuid or setgid file", "device": "a device", "pipe": "a named pipe",
    "socket": "a socket", "unreadable": "it can't be read",
    "large": "more than the layer may hold (runs.keepBytes)",
}  # fmt: skip


@frozen
class Pending:
    """What a layer changes: what can land, and the reason for each path that can't."""

    changes: tuple[PathChange, ...]
    ignored: tuple[PathChange, ...]
    withheld: tuple[PathReason, ...]


def pending_in(ledger: Ledger, top: Path, git: UserGit) -> Pending:
    """Return what the child left in its layer, judged by the user's rules."""
    found: list[PathChange] = []
    withheld: dict[str, str] = {}
    files = _plain_files(top, ledger.entries)
    outside, large = _linked_outside(top, files), {*_too_large(files, ledger.most)}
    for path, entry in sorted(ledger.entries.items()):
        after = Version("large") if path in large else None
        if after is None and not guarded_part(path.split("/")):
            after = version_at(top, path)
        change = replace(entry, after=after)
        if reason := _never(change, top, ledger.folder, outside):
            withheld[path] = reason
        elif change.before != change.after:
            found.append(change)
    ignored = _ignored(found, git)
    landing = [one for one in found if one.path not in ignored]
    # A folder goes where what is in it goes.
    lands = ancestors(one.path for one in landing if not one.is_of_folder)
    kept = ancestors([*ignored, *withheld]) - lands
    withheld |= {ignored[path]: IGNORED for path in ignored}
    return Pending(
        tuple(one for one in landing if one.path not in kept),
        tuple(one for one in found if one.path in ignored or one.path in kept),
        tuple(PathReason(shown_name(path), why) for path, why in sorted(withheld.items())),
    )


def _ignored(changes: list[PathChange], git: UserGit) -> dict[str, str]:
    """Return the changes that the user's rules ignore, each with the folder that is ignored."""
    folders = ancestors(one.path for one in changes)
    folders |= {one.path for one in changes if one.is_of_folder}
    # Whether a folder that isn't there is ignored, git tells by what would be in it.
    asked = {one.path: one.path for one in changes} | {f"{one}/any": one for one in folders}
    ignored = {asked[name] for name in git.ignored(asked)}
    paths = (one.path for one in changes if one.path in ignored)
    ways = {path: (*sorted(ancestors([path]), key=len), path) for path in paths}
    return {path: next(one for one in way if one in ignored) for path, way in ways.items()}


def _never(change: PathChange, top: Path, folder: str, outside: set[str]) -> str | None:
    path, theirs = change.path, change.after
    if what := guarded_part(path.split("/")):
        return f"in {what}"
    if theirs is None:
        return None
    if path in outside:
        return "a hard link to a file outside of the folder"
    links = partial(_link_at, (str(top), folder))
    if theirs.kind == "link" and leads_out(path, unescaped(theirs.target), folder, links):
        return f"a link that leads out of the folder, to {theirs.target}"
    return _NEVER.get(theirs.kind)


def _link_at(roots: Iterable[str], path: str) -> str | None:
    """Return where a link leads, in the first root that has the path; None where it is no link."""
    for root in roots:
        with suppress(FileNotFoundError, NotADirectoryError):
            os.lstat(f"{root}/{path}")
            with suppress(OSError):
                return os.readlink(f"{root}/{path}")
            return None
    return None


def leads_out(path: str, target: str, folder: str, link_at: Callable[[str], str | None]) -> bool:
    """Whether a link at `path` in a folder leads to anything outside of it, by whatever way."""
    way, left = path.split("/")[:-1], list[str]()
    for _ in range(MAX_LINKS):
        if target.startswith("/"):
            if not f"{target}/".startswith(f"{folder}/"):
                return True
            target, way = target[len(folder) :], []
        left += reversed(target.split("/"))
        following = None
        while left and following is None:
            part = left.pop()
            if part == "..":
                if not way:
                    return True
                way.pop()
            elif part not in ("", "."):
                following = link_at("/".join([*way, part]))
                way += [part] if following is None else []
        if following is None:
            return False
        target = following
    return True


def _plain_files(top: Path, paths: Iterable[str]) -> dict[str, os.stat_result]:
    found = dict[str, os.stat_result]()
    for path in paths:
        with suppress(OSError):
            found[path] = os.lstat(top / path)
    return {path: status for path, status in found.items() if stat.S_ISREG(status.st_mode)}


def _too_large(files: dict[str, os.stat_result], most: int) -> list[str]:
    """Return the largest files, which the layer has no room for.

    Nobody reads them: a file of a few blocks can claim to have more bytes than are read in a day.
    """
    smallest = sorted(files, key=lambda path: files[path].st_size)
    sums = itertools.accumulate(files[path].st_size for path in smallest)
    return smallest[bisect.bisect_right([*sums], most) :]


def _linked_outside(top: Path, files: dict[str, os.stat_result]) -> set[str]:
    """Return the files that have another name somewhere outside of the layer."""
    linked = {path: status for path, status in files.items() if status.st_nlink > 1}
    inside = Counter(status.st_ino for _, status in (walk(top) if linked else ()))
    return {path for path, one in linked.items() if inside[one.st_ino] < one.st_nlink}
