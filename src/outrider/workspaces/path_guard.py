"""Guarantees that a file tool reaches nothing outside the working tree and the allowed roots.

`resolve` decides from the text of a path and from where its links lead. It refuses what is outside,
credential files, and for writers the folders that hold code or configuration. What was decided on
is opened by `opening`, which a link put there later can't lead astray, and written by
`atomic_replace`.
"""

import os
from collections.abc import Iterable, Sequence

from outrider.protocol.data import frozen
from outrider.protocol.envelope import ToolCode, ToolFault
from outrider.workspaces import atomic_replace, credentials, opening
from outrider.workspaces.names import folded, shown_name, undisguised, unescaped
from outrider.workspaces.place import Place

MAX_PATH_BYTES = 4_096
MAX_NAME_BYTES = 255
_KERNEL_FOLDERS = ("/proc", "/sys")
_NEVER_WRITTEN = {".git": "git's own folder", ".outrider": "this runtime's configuration"}


@frozen
class Workspace:
    """The folder itself, and the roots beside it that the user allows."""

    roots: tuple[str, ...]  # the working tree first; links in these paths are resolved once, here
    allow_credential_files: bool = False

    # These need nothing but the place that was decided on.
    open_file = staticmethod(opening.open_file)
    open_folder = staticmethod(opening.open_folder)
    list_folder = staticmethod(opening.list_folder)
    replace = staticmethod(atomic_replace.replace)

    def __post_init__(self) -> None:
        object.__setattr__(self, "roots", tuple(map(os.path.realpath, self.roots)))

    def is_credential(self, path: str) -> bool:
        """Whether the file at an absolute path is a credential file that isn't allowed."""
        return not self.allow_credential_files and credentials.is_credential(path)

    def resolve(self, path: str, *, writing: bool = False) -> Place:
        """Return the place of a path that the caller wrote, its links resolved."""
        if self._is_disguised(path):
            raise self._outside(path)
        asked = _absolute(self.roots[0], path)
        if "\\" in path and not os.path.lexists(asked):
            typed_back = _absolute(self.roots[0], unescaped(path))
            asked = typed_back if os.path.lexists(typed_back) else asked
        try:
            real = os.path.realpath(asked)
        except (OSError, RecursionError):
            message = f"{shown_name(path)} is a link in a chain too long to follow"
            raise ToolFault(ToolCode.DENIED, message) from None
        return self._decide(asked, real, writing=writing)

    def _decide(self, asked: str, real: str, *, writing: bool) -> Place:
        """Return the place that the absolute path `asked`, really `real`, stands for."""
        root = containing(self.roots, real)
        if root is None or any(containing(_KERNEL_FOLDERS, path) for path in (asked, real)):
            raise self._outside(asked)
        parts = _parts(real[len(root.rstrip("/")) :])
        place = Place(root, parts, self._shown(real), os.path.isdir(real))
        if not place.is_folder and (self.is_credential(asked) or self.is_credential(real)):
            unless = "tools don't open these unless the user sets files.allowCredentialFiles"
            raise ToolFault(ToolCode.DENIED, f"{place.shown} is a credential file: {unless}")
        if writing:
            self._refuse_guarded(place, asked)
        return place

    def below(self, folder: Place, path: str) -> Place:
        """Return the place of a path that a search or a listing found in `folder`."""
        shown = self._shown(os.path.join(folder.path, path))
        return Place(folder.root, (*folder.parts, *path.split("/")), shown)

    def _is_disguised(self, path: str) -> bool:
        """Whether characters that only look like dots and slashes would lead out."""
        plain = undisguised(path)
        if path.isascii() or plain == path:
            return False
        roots = (*self.roots, *map(undisguised, self.roots))
        return containing(roots, os.path.normpath(os.path.join(self.roots[0], plain))) is None

    def _outside(self, asked: str) -> ToolFault:
        where = f"{shown_name(asked)} is outside the working tree {shown_name(self.roots[0])}"
        only = "only paths in it, and in the roots the user allows, can be used"
        return ToolFault(ToolCode.DENIED, f"{where}: {only}")

    def _shown(self, path: str) -> str:
        """Return `path` relative to the working tree where it is inside, on one line."""
        cwd = self.roots[0]
        if containing((cwd,), path) is None:
            return shown_name(path)
        return shown_name(path[len(cwd) :].lstrip("/") or ".")

    def _refuse_guarded(self, place: Place, asked: str) -> None:
        cwd = self.roots[0]
        below = asked[len(cwd) :] if asked.startswith(cwd + "/") else ""
        if what := guarded_part((*place.parts, *_parts(below))):
            message = f"{place.shown} is in {what}: tools never write there"
            raise ToolFault(ToolCode.DENIED, message)


def guarded_part(parts: Iterable[str]) -> str | None:
    """Return what of a path's parts nobody but the user may write, in words, or None."""
    found = (_NEVER_WRITTEN.get(folded(part).rstrip(". ")) for part in parts)
    return next(filter(None, found), None)


def containing(roots: Sequence[str], path: str) -> str | None:
    """Return the innermost root that holds `path`, both absolute and real, or None."""
    holding = (root for root in roots if root == path or path.startswith(root.rstrip("/") + "/"))
    return max(holding, key=len, default=None)


def _absolute(cwd: str, text: str) -> str:
    """Return `text` as an absolute path with its dots and links unresolved."""
    # `expanduser` itself fails on a null byte.
    path = os.path.join(cwd, os.path.expanduser(text.replace("\0", "")))
    try:
        encoded = os.fsencode(path)
        is_long = max(map(len, encoded.split(b"/"))) > MAX_NAME_BYTES
        is_usable = text.strip() and "\0" not in text and not is_long
    except UnicodeEncodeError:  # half a surrogate pair, which no file has in its name
        encoded, is_usable = b"", False
    if not is_usable or len(encoded) > MAX_PATH_BYTES:
        message = f"the path '{shown_name(text[:80])}' is empty, too long, or not a file's name"
        advice = 'name a file or folder, "." for the working tree'
        raise ToolFault(ToolCode.BAD_PARAMETER, f"{message}: {advice}")
    return path


def _parts(path: str) -> tuple[str, ...]:
    return tuple(part for part in path.split("/") if part)
