"""What tools and their workspace hand each other.

A tool opens nothing by a path: it asks for a `Place`, which a workspace only gives for a path that
may be used, and hands that back.
"""

import os
from collections.abc import Callable

from outrider.protocol.data import frozen

MAX_CONTENT_BYTES = 16 * 1024 * 1024
"""The largest file whose content `Workspace.replace` hands over."""
TEMPORARY_PREFIX = ".outrider-temporary-"
"""What the names of files that are being written start with; searches and listings skip them."""


@frozen
class Place:
    """A path that was decided on: a root, and the names below it, free of links."""

    root: str
    parts: tuple[str, ...]
    shown: str  # as the caller may see it: relative where it can be, on one line
    is_folder: bool = False

    @property
    def path(self) -> str:
        """The absolute path, for records; never to open the file by."""
        return os.path.join(self.root, *self.parts)


@frozen
class FolderEntry:
    """One entry of a folder: its kind, a plain file's size, a link's target."""

    name: str
    kind: str
    size: int | None = None
    target: str | None = None
    note: str | None = None  # why nothing more is known of it


@frozen
class FileVersion:
    """A file as it was: its SHA-256, and its content unless that is too large."""

    hash: str
    size: int
    content: bytes | None


Rewrite = Callable[[FileVersion | None], bytes]
"""Makes a file's new content from what it holds; it gets None where there is no file."""
