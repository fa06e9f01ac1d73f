"""Guarantees that a search shows nothing of credential files, not even whether they would match.

They are counted by their names, whatever the pattern: a number that depended on the pattern would
give away their content, one question at a time.
"""

import os

from outrider.tools.files.credentials import (
    CREDENTIAL_FOLDERS,
    CREDENTIAL_NAMES,
    CREDENTIAL_PATHS,
    is_credential,
)
from outrider.tools.files.globs import Glob
from outrider.tools.files.paths import Place, Realm
from outrider.tools.files.ripgrep import is_temporary

LIST_CREDENTIALS = (
    "--files",
    "--null",
    *(f"--iglob={name}" for name in CREDENTIAL_NAMES),
    *(f"--iglob=**/{path}" for path in CREDENTIAL_PATHS),
    *(f"--iglob=**/{folder}/**" for folder in CREDENTIAL_FOLDERS),
    # Of several patterns the last one counts.
    "--glob=!.git",
)
_ENDINGS = {os.path.splitext(glob)[1] for glob in (*CREDENTIAL_NAMES, *CREDENTIAL_PATHS)}


def is_counted(realm: Realm, glob: Glob | None) -> bool:
    """Whether a search has to say how many credential files it passed over.

    Not where it only asks for names like *.py, which hardly any of them has.
    """
    if realm.credentials_allowed:
        return False
    endings = {os.path.splitext(name)[1] for name in glob.names()} if glob else set[str]()
    return not endings or "" in endings or not _ENDINGS.isdisjoint(endings)


class Shown:
    """Decides which files of a searched folder belong in the answer."""

    def __init__(self, realm: Realm, place: Place, glob: Glob | None) -> None:
        self._base = place.path.rstrip("/")
        self._glob = glob
        self._secrets_too = realm.credentials_allowed

    def __call__(self, path: str) -> bool:
        """Whether the file at `path`, relative to the folder, may and should be shown."""
        return self._asked_for(path) and not self._is_secret(path) and not is_temporary(path)

    def withheld(self, path: str) -> bool:
        """Whether the file was asked for but must not be shown."""
        return self._asked_for(path) and self._is_secret(path)

    def _asked_for(self, path: str) -> bool:
        return self._glob is None or self._glob.matches(path)

    def _is_secret(self, path: str) -> bool:
        return not self._secrets_too and is_credential(f"{self._base}/{path}")
