"""Guarantees that a file tool reaches nothing outside the working tree and the allowed roots.

This module decides, from the text of a path and from where its links lead. It refuses what is
outside, credential files, and for writers the folders that hold code or configuration. `opening`
then opens what was decided on, in a way that a link put there later can't lead astray.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass

from outrider.tools.context import ToolContext
from outrider.tools.files.credentials import is_credential
from outrider.tools.files.faults import FileFault, bad, denied
from outrider.tools.files.names import folded, shown_name, undisguised, unescaped

MAX_PATH_BYTES = 4_096
MAX_NAME_BYTES = 255
KERNEL_FOLDERS = ("/proc", "/sys")
_NEVER_WRITTEN = {".git": "git's own folder", ".outrider": "this runtime's configuration"}


@dataclass(frozen=True, slots=True)
class Realm:
    """Where file tools may go: real paths of folders, the working tree first."""

    roots: tuple[str, ...]
    credentials_allowed: bool = False

    @property
    def cwd(self) -> str:
        """The folder that relative paths start from."""
        return self.roots[0]


@dataclass(frozen=True, slots=True)
class Place:
    """A path that was decided on: a root, and the names below it, free of links."""

    root: str
    parts: tuple[str, ...]
    shown: str
    """As the caller may see it: relative where it can be, on one line."""

    @property
    def path(self) -> str:
        """The absolute path, for records; never to open the file by."""
        return os.path.join(self.root, *self.parts)

    def below(self, path: str) -> "Place":
        """Return the place that a relative path, as a search or a listing gave it, leads to."""
        return Place(self.root, (*self.parts, *path.split("/")), self.shown)


def realm_of(context: ToolContext) -> Realm:
    """Return where the tools of this child may go."""
    roots = (context.cwd, *context.allowed_roots)
    return Realm(tuple(map(os.path.realpath, roots)), context.allow_credential_files)


def absolute(cwd: str, text: str) -> str:
    """Return `text` as an absolute path with its dots and links unresolved; faults if malformed."""
    if not text.strip():
        raise bad('the path is empty: name a file or folder, "." for the working tree')
    if "\0" in text:
        raise bad("the path holds a NUL character: no file has one in its name")
    path = os.path.join(cwd, os.path.expanduser(text))
    try:
        encoded = os.fsencode(path)
    except UnicodeEncodeError:
        raise bad("the path holds half a surrogate pair: no file has one in its name") from None
    if len(encoded) > MAX_PATH_BYTES or max(map(len, encoded.split(b"/"))) > MAX_NAME_BYTES:
        raise bad(f"the path of {len(encoded)} bytes is too long: {shown_name(text[:80])}…")
    return path


def containing(roots: Sequence[str], path: str) -> str | None:
    """Return the innermost root that holds `path`, both absolute and real, or None."""
    holding = (root for root in roots if root == path or path.startswith(root.rstrip("/") + "/"))
    return max(holding, key=len, default=None)


def decide(realm: Realm, asked: str, real: str, *, writing: bool, folder: bool) -> Place:
    """Return the place that the absolute path `asked`, really `real`, stands for; or fault."""
    root = containing(realm.roots, real)
    if root is None or any(_is_below(kernel, asked, real) for kernel in KERNEL_FOLDERS):
        raise outside(realm, asked)
    parts = _parts(real[len(root.rstrip("/")) :])
    place = Place(root, parts, shown_path(realm, real))
    if not folder and not realm.credentials_allowed and _is_secret(asked, real):
        raise denied(
            f"{place.shown} is a credential file: tools don't open these unless the user sets "
            "files.allowCredentialFiles"
        )
    if writing:
        _refuse_guarded(realm, place, asked)
    return place


def outside(realm: Realm, asked: str) -> FileFault:
    """Return the fault of a path that leads out of the realm."""
    return denied(
        f"{shown_name(asked)} is outside the working tree {shown_name(realm.cwd)}: only paths in "
        "it, and in the roots the user allows, can be used"
    )


def is_disguised(realm: Realm, text: str) -> bool:
    """Whether characters that only look like dots and slashes would lead out of the realm."""
    plain = undisguised(text)
    if text.isascii() or plain == text:
        return False
    roots = (*realm.roots, *map(undisguised, realm.roots))
    return containing(roots, os.path.normpath(os.path.join(realm.cwd, plain))) is None


def shown_path(realm: Realm, path: str) -> str:
    """Return `path` relative to the working tree where it is inside, on one line."""
    if containing((realm.cwd,), path) is None:
        return shown_name(path)
    return shown_name(path[len(realm.cwd) :].lstrip("/") or ".")


def _is_below(folder: str, *paths: str) -> bool:
    return any(path == folder or path.startswith(folder + "/") for path in paths)


def _is_secret(asked: str, real: str) -> bool:
    return is_credential(asked) or is_credential(real)


def _refuse_guarded(realm: Realm, place: Place, asked: str) -> None:
    below = asked[len(realm.cwd) :] if asked.startswith(realm.cwd + "/") else ""
    for part in (*place.parts, *_parts(below)):
        what = _NEVER_WRITTEN.get(folded(part).rstrip(". "))
        if what is not None:
            raise denied(f"{place.shown} is in {what}: tools never write there")


def _parts(path: str) -> tuple[str, ...]:
    return tuple(part for part in path.split("/") if part)


def locate(realm: Realm, text: str, *, writing: bool = False, folder: bool = False) -> Place:
    """Return the place of a path that a caller wrote, its links resolved; or fault."""
    if is_disguised(realm, text):
        raise outside(realm, text)
    asked = absolute(realm.cwd, text)
    if "\\" in text and not os.path.lexists(asked):
        typed_back = absolute(realm.cwd, unescaped(text))
        asked = typed_back if os.path.lexists(typed_back) else asked
    try:
        real = os.path.realpath(asked)
    except (OSError, RecursionError):
        raise denied(f"{shown_name(text)} is a link in a chain too long to follow") from None
    return decide(realm, asked, real, writing=writing, folder=folder)
