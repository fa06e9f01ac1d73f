"""What a writer changed: as a result tells it, and why a part of it can't land."""

from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

from outrider.protocol.data import frozen
from outrider.protocol.errors import OutriderError

MINUS = "\N{MINUS SIGN}"
WHOLE = "."  # the path of a reason that is about all of the changes

STATES = ("none", "pending", "landed", "undone", "discarded")


def change_totals(files: int, added: int, removed: int) -> str:
    """`3 files, +40 -7`, with a real minus."""
    return f"{files:,} file{'' if files == 1 else 's'}, +{added:,} {MINUS}{removed:,}"


@frozen
class Hunk:
    """Lines that differ: the first one and how many there are, before and after."""

    before: tuple[int, int]
    after: tuple[int, int]


@frozen
class ChangedFile:
    """One path that differs; the hashes are sha256, None where there is nothing to hash."""

    path: str
    kind: str  # `added`, `modified`, `deleted`, `mode`, or `type` where a folder became a file, say
    before: str | None = None
    after: str | None = None
    hunks: tuple[Hunk, ...] = ()
    calls: tuple[str, ...] = ()  # the ids of the tool calls that changed it


@frozen
class PathReason:
    """A path that doesn't land, and why."""

    path: str
    reason: str


@frozen
class Changes:
    """All that a writer changed; `state` says what has become of it."""

    state: str = "none"
    added: int = 0
    removed: int = 0
    files: tuple[ChangedFile, ...] = ()
    withheld: tuple[PathReason, ...] = ()
    conflicts: tuple[PathReason, ...] = ()

    def masked(self, mask: Callable[[str], str]) -> "Changes":
        """Return them as results show them: a name that a child gave may be a secret."""
        files = (replace(one, path=mask(one.path)) for one in self.files)
        reasons = (
            tuple(PathReason(mask(one.path), mask(one.reason)) for one in some)
            for some in (self.withheld, self.conflicts)
        )
        withheld, conflicts = reasons
        return replace(self, files=tuple(files), withheld=withheld, conflicts=conflicts)

    def words(self, run_id: str) -> str:
        """`3 files, +40 -7, not landed: outrider diff 3f9a1c20`."""
        about = [change_totals(len(self.files), self.added, self.removed)] if self.files else []
        for word, some in (("withheld", self.withheld), ("in conflict", self.conflicts)):
            number = sum(one.path != WHOLE for one in some)
            about += [f"{number:,} {word}"] if number else []
        # What is said of the whole: why it didn't land by itself, or why it can't be read.
        whole = [one.reason for one in (*self.withheld, *self.conflicts) if one.path == WHOLE]
        then = {
            "none": "no files changed",
            "pending": f"{'; '.join(whole) or 'not landed'}: outrider diff {run_id}",
            "landed": f"landed: outrider undo {run_id} takes it back",
        }
        return ", ".join((*about, then.get(self.state, self.state)))

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form, in which a hash that there isn't is null."""
        return asdict(self)


class LandingConflict(OutriderError):
    """A landing or an undo that would overwrite somebody's work; nothing was changed."""

    def __init__(self, conflicts: tuple[PathReason, ...]) -> None:
        super().__init__("; ".join(f"{one.path}: {one.reason}" for one in conflicts))
        self.conflicts = conflicts
