"""Decides, for every path, what three versions of it become: before, the child's, the user's."""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from outrider.protocol.changes import LandingConflict, PathReason
from outrider.protocol.data import frozen
from outrider.workspaces.layers.user_git import UserGit
from outrider.workspaces.layers.versions import Contents, PathChange, Version, is_folder, version_at
from outrider.workspaces.place import MAX_CONTENT_BYTES

UNCERTAIN = "you changed it while the run was under way, and it isn't known which one it saw"


@frozen
class Merger:
    """Merges changes with what is in the user's folder now."""

    folder: Path
    top: Path
    contents: Contents
    git: UserGit

    def steps(self, changes: Iterable[PathChange]) -> tuple[PathChange, ...]:
        """Return what the user's folder has and will have; raises `LandingConflict` with all."""
        steps, conflicts = dict[str, PathChange](), list[PathReason]()
        for change in changes:
            ours = version_at(self.folder, change.path)
            new = self.merged(change, ours)
            if isinstance(new, str):
                conflicts.append(change.conflict(new))
            elif new != ours:
                steps[change.path] = replace(change, before=ours, after=new, uncertain=False)
        conflicts += self._in_use(steps)
        if conflicts:
            raise LandingConflict(tuple(conflicts))
        return tuple(steps.values())

    def _in_use(self, steps: dict[str, PathChange]) -> Iterator[PathReason]:
        """Leave out folders that would go and have more in them; yield those that have to go."""
        gone = {path for path, one in steps.items() if one.after is None}
        for step in [steps[path] for path in sorted(steps, reverse=True)]:
            if not is_folder(step.before) or is_folder(step.after):
                continue
            inside = list[str]()
            with suppress(OSError):
                inside = os.listdir(self.folder / step.path)
            if any(f"{step.path}/{name}" not in gone for name in inside):
                del steps[step.path]
                gone.discard(step.path)
                if step.after:
                    reason = "it is no folder any more, and you have something in it"
                    yield step.conflict(reason)

    def merged(self, change: PathChange, ours: Version | None) -> Version | str | None:
        """Return what a path becomes, or why that can't be told."""
        base, theirs = change.before, change.after
        if ours == theirs or theirs == base:
            return ours
        if change.uncertain:
            return UNCERTAIN
        if ours == base:
            return theirs
        if is_folder(ours) and is_folder(theirs):
            return ours
        if base and ours and theirs and base.kind == ours.kind == theirs.kind == "file":
            return self._merged_files(change.path, base, theirs, ours)
        yours = "deleted" if ours is None else "added" if base is None else "changed"
        its = "deletes" if theirs is None else "adds" if base is None else "changes"
        return f"you {yours} it, and the run {its} it"

    def _merged_files(
        self, path: str, base: Version, theirs: Version, ours: Version
    ) -> Version | str:
        modes = {theirs.mode, ours.mode} - {base.mode} or {base.mode}
        if len(modes) > 1:
            return "both of you changed its mode"
        (mode,) = modes
        hashes = {theirs.hash, ours.hash} - {base.hash} or {base.hash}
        if len(hashes) == 1:
            content = theirs if theirs.hash in hashes else ours
            return Version("file", mode, content.hash, content.size)
        if max(base.size, theirs.size, ours.size) > MAX_CONTENT_BYTES:
            return "both of you changed it, and it is too large to be merged"
        for root in (self.folder, self.top):
            self.contents.keep(root, path)
        files = [self.contents.path(one) for one in (ours, base, theirs)]
        if not all(map(os.path.exists, files)):
            return "both of you changed it, and what it was before isn't kept"
        merged = self.git.merged(*files)
        return merged if isinstance(merged, str) else self.contents.add(merged, mode)
