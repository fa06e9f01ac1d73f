"""Which programs may be run around a tree that may be hostile.

Nothing that lies in the tree is run, be it on PATH, in `node_modules` or in a virtual environment,
unless the user trusts the repository.
"""

import os
import shutil
import site
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from outrider.protocol.data import frozen
from outrider.settings.places import project_root
from outrider.workspaces.path_guard import containing

_OWN_FOLDERS = ("node_modules/.bin", ".venv/bin")
_LEADING = ("VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONPATH", "NODE_PATH", "NODE_OPTIONS")
# No module of the tree, no download of a toolchain, no change of a lock file.
_QUIET = {"PYTHONSAFEPATH": "1", "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly"}


@frozen
class TrustedPrograms:
    """Where programs are looked for; nothing of an untrusted tree counts."""

    environment: Mapping[str, str]
    roots: Sequence[str]
    trusted: bool = False  # whether what lies in the tree may be run

    @classmethod
    def around(
        cls, folder: Path, env: Mapping[str, str], roots: Sequence[str] = (), *, trusted: bool
    ) -> "TrustedPrograms":
        """Return the programs outside of a folder, of its roots and of its whole repository."""
        repository = project_root(folder, env) or folder
        return cls(env, (*roots, str(folder), str(repository)), trusted)

    def find(self, name: str, *, ours_last: bool = False) -> str | None:
        """Return the program of this name; an absolute one is the user's own choice."""
        if os.path.isabs(name):
            return shutil.which(name)
        own = [f"{root}/{folder}" for root in self.roots for folder in _OWN_FOLDERS]
        # What was installed with us is as trustworthy, even if that is in the tree.
        ours = [os.path.dirname(sys.executable), f"{site.getuserbase()}/bin"]
        others = [*self._path(), *ours] if ours_last else [*ours, *self._path()]
        for folder in (*(own if self.trusted else ()), *others):
            found = shutil.which(name, path=folder) if name and "/" not in name else None
            if found and (folder in ours or self._is_far(found)):
                return found
        return None

    def for_started(self) -> dict[str, str]:
        """Return the environment of what is started: nothing in it leads into the tree."""
        env = self.environment
        kept = {name: env[name] for name in env if name not in _LEADING or self._is_far(env[name])}
        return {**kept, **_QUIET, "PATH": os.pathsep.join(filter(self._is_far, self._path()))}

    def _path(self) -> Iterator[str]:
        return filter(os.path.isabs, self.environment.get("PATH", os.defpath).split(os.pathsep))

    def _is_far(self, path: str) -> bool:
        led = (path, os.path.realpath(path))
        is_one = os.path.isabs(path) and os.pathsep not in path
        return self.trusted or (is_one and not any(containing(self.roots, one) for one in led))
