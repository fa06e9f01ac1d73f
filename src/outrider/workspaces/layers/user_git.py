"""git on the user's own repository: it runs no hook and no program that lies in the tree."""

import os
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

from outrider.protocol.errors import ErrorCode, Refusal
from outrider.settings.places import git_root
from outrider.workspaces.names import shown_name
from outrider.workspaces.trusted_programs import TrustedPrograms

_SETTINGS = (
    "core.fsmonitor=false", "core.hooksPath=/dev/null", "protocol.allow=never",
    "submodule.recurse=false", "gc.auto=0", "maintenance.auto=false", "core.quotePath=false",
)  # fmt: skip


class UserGit:
    """The git that the user has, if there is one, and the repository that a folder is in."""

    def __init__(self, folder: Path, env: Mapping[str, str]) -> None:
        self.folder = folder
        self._programs = TrustedPrograms.around(folder, env, trusted=False)
        self._program = self._programs.find("git")
        self.root = git_root(folder)  # the working tree that the folder is in

    def run(
        self, *arguments: str, cwd: str = "", stdin: bytes = b"", **env: str
    ) -> subprocess.CompletedProcess[bytes]:
        """Run git in a folder, this one if none is named; raises `Refusal` where there is none."""
        if self._program is None:
            message = "git isn't installed, and this folder is a repository: install it"
            raise Refusal(ErrorCode.INVALID_INPUT, f"{message}.")
        given = self._programs.for_started()
        kept = {key: given[key] for key in given if not key.startswith("GIT_")}
        kept |= {key: given[key] for key in given if key.startswith(("GIT_AUTHOR", "GIT_COMMIT"))}
        env = {**kept, "LC_ALL": "C.UTF-8", "GIT_TERMINAL_PROMPT": "0", **env}
        settings = [word for one in _SETTINGS for word in ("-c", one)]
        command, here = [self._program, *settings, "--no-pager", *arguments], cwd or self.folder
        return subprocess.run(command, cwd=here, env=env, input=stdin, capture_output=True)

    def output(self, *arguments: str, cwd: str = "", stdin: bytes = b"", **env: str) -> str:
        """Return what git writes, without its last line's end; raises `Refusal` where it fails."""
        done = self.run(*arguments, cwd=cwd, stdin=stdin, **env)
        if done.returncode:
            said = shown_name(b" ".join(done.stderr.split()))
            raise Refusal(ErrorCode.INVALID_INPUT, f"git {arguments[0]} failed: {said}.")
        return os.fsdecode(done.stdout).removesuffix("\n")

    def repository_of(self, path: str) -> str | None:
        """Return the innermost working tree that a path below the folder is in."""
        while path := path.rpartition("/")[0]:
            if os.path.lexists(f"{self.folder}/{path}/.git"):
                return f"{self.folder}/{path}"
        return str(self.root) if self.root else None

    def ignored(self, paths: Iterable[str]) -> set[str]:
        """Return which of these paths the user's own rules ignore; none without a repository."""
        groups: dict[str, list[str]] = {}
        for path in paths:
            if repository := self.repository_of(path):
                groups.setdefault(repository, []).append(path)
        return {one for root, names in groups.items() for one in self._ignored(root, names)}

    def _ignored(self, root: str, paths: list[str]) -> set[str]:
        # Behind `./` no name is taken for one of git's patterns.
        names = {f"./{os.path.relpath(self.folder / path, root)}": path for path in paths}
        asked = b"\0".join(map(os.fsencode, names))
        done = self.run("check-ignore", "--stdin", "-z", cwd=root, stdin=asked)
        if b"not a git repository" in done.stderr:
            return set()
        if done.returncode > 1:  # a path that git can't judge, unless it can judge none
            self.output("rev-parse", "--git-dir", cwd=root)
            halves = (paths[: len(paths) // 2], paths[len(paths) // 2 :])
            return set[str]().union(*(self._ignored(root, h) for h in halves if len(paths) > 1))
        return {names[os.fsdecode(name)] for name in done.stdout.split(b"\0") if name}

    def merged(self, ours: Path, base: Path, theirs: Path) -> bytes | str:
        """Return three texts merged into one, or why they can't be."""
        if self._program is None:
            return "both of you changed it, and git, which merges texts, isn't installed"
        files = map(str, (ours, base, theirs))
        done = self.run("merge-file", "-p", "-q", *files, cwd="/", GIT_CEILING_DIRECTORIES="/")
        if done.returncode == 0:
            return done.stdout
        if done.returncode > 127:
            return "both of you changed it, and it isn't text"
        return "both of you changed the same lines"
