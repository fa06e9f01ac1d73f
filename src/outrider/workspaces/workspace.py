"""The interface through which tools reach files. What stands behind it may be any kind of place.

A tool opens nothing by a path: it asks for a `Place`, which a workspace only gives for a path that
may be used, and hands that back.
"""

import os
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import BinaryIO, Protocol

MAX_CONTENT_BYTES = 16 * 1024 * 1024
"""The largest file whose content `Workspace.replace` hands over."""
TEMPORARY_PREFIX = ".outrider-temporary-"
"""What the names of files that are being written start with; searches and listings skip them."""


@dataclass(frozen=True, slots=True)
class Place:
    """A path that was decided on: a root, and the names below it, free of links."""

    root: str
    parts: tuple[str, ...]
    shown: str
    """As the caller may see it: relative where it can be, on one line."""
    is_folder: bool = False

    @property
    def path(self) -> str:
        """The absolute path, for records; never to open the file by."""
        return os.path.join(self.root, *self.parts)


@dataclass(frozen=True, slots=True)
class OpenFolder:
    """A folder that is held open for a program to run in."""

    path: str
    """Leads to this folder, even if another one has taken its name since."""
    is_repository: bool
    """Whether it is the top of a git repository: ignore files above it don't apply."""
    size: Callable[[str], int | None]
    """Returns the size of a plain file below it, by its path; None where there is none."""
    open: Callable[[str], BinaryIO | None]
    """Opens a plain file below it for reading. Like `size`, it is quick for paths in order."""
    excluded: tuple[str, ...] = ()
    """Names in it that no program may enter."""


@dataclass(frozen=True, slots=True)
class FolderEntry:
    """One entry of a folder: its kind, a plain file's size, a link's target."""

    name: str
    kind: str
    size: int | None = None
    target: str | None = None
    note: str | None = None
    """Why nothing more is known of it."""


@dataclass(frozen=True, slots=True)
class FileVersion:
    """A file as it was: its SHA-256, and its content unless that is too large."""

    hash: str
    size: int
    content: bytes | None


Rewrite = Callable[[FileVersion | None], bytes]
"""Makes a file's new content from what it holds; it gets None where there is no file."""


class Workspace(Protocol):
    """The files of one child. Every method raises `ToolFault` where it can't do its work."""

    @property
    def roots(self) -> tuple[str, ...]:
        """The real paths of its folders, the working tree first."""
        ...

    def is_credential(self, path: str) -> bool:
        """Whether the file at an absolute path must not be shown, as it holds credentials."""
        ...

    def resolve(self, path: str, *, writing: bool = False) -> Place:
        """Return the place of a path that the caller wrote."""
        ...

    def below(self, folder: Place, path: str) -> Place:
        """Return the place of a path that a search or a listing found, relative to `folder`."""
        ...

    def open_file(self, place: Place) -> AbstractContextManager[BinaryIO]:
        """Hold a plain file open for reading."""
        ...

    def open_folder(self, place: Place) -> AbstractContextManager[OpenFolder]:
        """Hold a folder open for a program to run in."""
        ...

    def list_folder(self, place: Place, limit: int) -> tuple[list[FolderEntry], int]:
        """Return the first entries of a folder, folders before all else, and how many it has."""
        ...

    def replace(
        self, place: Place, rewrite: Rewrite, stop: threading.Event, *, make_folders: bool = False
    ) -> tuple[FileVersion | None, str]:
        """Replace a file's content by what `rewrite` returns, in one step or not at all.

        Returns what the file held before, None where there was none, and the new SHA-256.
        """
        ...
