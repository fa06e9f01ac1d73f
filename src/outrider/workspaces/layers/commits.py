"""A commit of exactly what a landing changes: what HEAD has, with the child's changes.

It is made in an index of its own, from contents that were kept, through the filters that the
user has set up. What the user has changed and not committed doesn't come along: the change is
merged into what HEAD has.
"""

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from outrider.protocol.changes import LandingConflict, PathReason
from outrider.protocol.data import frozen
from outrider.protocol.errors import ErrorCode, Refusal
from outrider.workspaces.layers.user_git import UserGit
from outrider.workspaces.layers.versions import Contents, PathChange, Version, is_folder
from outrider.workspaces.names import shown_name

_STAGED = "you have staged changes in it: commit or unstage them first"
_OPEN = "it has changes of yours that aren't committed, in the same lines"
_NOTHING = "0 " + "0" * 40
_ADD = ("update-index", "-z", "--add", "--remove", "--replace")
_INDEX = (*_ADD, "--index-info")


@frozen
class PreparedCommit:
    """A commit that nothing points to yet."""

    git: UserGit
    id: str
    head: str  # what it follows; empty in a repository without commits
    entries: bytes  # its paths as an index has them

    def put_on_head(self) -> None:
        """Make it the newest commit, known to the index; the working tree stays as it is."""
        try:
            self.git.output("update-ref", "-m", "outrider land", "HEAD", self.id, self.head)
            self.git.output(*_INDEX, stdin=self.entries)
        except Refusal as refusal:
            message = f"Everything has landed, but isn't committed: {refusal.message}"
            raise Refusal(refusal.code, message) from None

    def put_on_branch(self, name: str) -> str:
        """Put it on a new branch; raises `Refusal` where there is one of this name."""
        self.git.output("check-ref-format", "--branch", name)
        self.git.output("update-ref", "-m", "outrider land", f"refs/heads/{name}", self.id, "")
        return self.id


def prepared_commit(
    git: UserGit, contents: Contents, changes: Sequence[PathChange], message: str, *, on_head: bool
) -> PreparedCommit:
    """Return a commit of these changes; raises `LandingConflict` and `Refusal`."""
    if git.root is None:
        raise Refusal(ErrorCode.INVALID_INPUT, f"{git.folder} isn't in a git repository.")
    files = {_in_repository(git, one.path): one for one in changes if not one.is_of_folder}
    head = os.fsdecode(git.run("rev-parse", "-q", "--verify", "HEAD^{commit}").stdout).strip()
    conflicts = _staged(git, head, files) if on_head else []
    with tempfile.TemporaryDirectory(prefix="outrider-commit-") as scratch:
        for change in files.values():  # what is too large to merge was not kept so far
            contents.keep(git.folder, change.path)
        base, theirs = (_Index(git, Path(scratch, name), head) for name in ("base", "theirs"))
        were = base.entries()
        bases = base.add(contents, {name: one.before for name, one in files.items()})
        new = theirs.add(contents, {name: one.after for name, one in files.items()})
        for name, change in files.items():
            if change.after is None or is_folder(change.after):
                new[name] = _NOTHING
            elif were.get(name) != bases.get(name):  # HEAD hasn't what the child began with
                new[name] = theirs.merged(*(one.get(name, "") for one in (were, bases, new)))
                conflicts += [] if new[name] else [change.conflict(_OPEN)]
        if conflicts:
            raise LandingConflict(tuple(conflicts))
        entries = os.fsencode("".join(f"{new[name]}\t{name}\0" for name in files))
        theirs.output(*_INDEX, stdin=entries)
        tree = theirs.output("write-tree")
    parent = ("-p", head) if head else ()
    made = git.output("commit-tree", tree, *parent, "-F", "-", stdin=message.encode())
    return PreparedCommit(git, made, head, entries)


def _in_repository(git: UserGit, path: str) -> str:
    if git.repository_of(path) != str(git.root):
        message = f"{shown_name(path)} is in a repository of its own: commit it there"
        raise Refusal(ErrorCode.INVALID_INPUT, f"{message}, and land without --commit.")
    return os.path.relpath(git.folder / path, str(git.root))


def _staged(git: UserGit, head: str, files: dict[str, PathChange]) -> list[PathReason]:
    how = ("diff-index", "--cached", "--name-only", "-z", head) if head else ("ls-files", "-z")
    names = set(git.output(*how, cwd=str(git.root)).split("\0"))
    return [files[name].conflict(_STAGED) for name in files if name in names]


class _Index:
    """An index of our own, which begins as HEAD's tree, and a folder with files for it."""

    def __init__(self, git: UserGit, folder: Path, head: str) -> None:
        self._git, self._folder = git, folder
        folder.mkdir()
        self._env = {
            "GIT_DIR": git.output("rev-parse", "--absolute-git-dir"),
            "GIT_WORK_TREE": str(folder),
            "GIT_INDEX_FILE": f"{folder}.index",
        }
        self.output("read-tree", *([head] if head else ["--empty"]))

    def output(self, *arguments: str, stdin: bytes = b"") -> str:
        """Return what git says about this index and this folder."""
        return self._git.output(*arguments, cwd=str(self._folder), stdin=stdin, **self._env)

    def entries(self) -> dict[str, str]:
        """Return mode and object of each path."""
        listed = self.output("ls-files", "-s", "-z").split("\0")
        found = (line.partition("\t") for line in listed if line)
        return {name: about[:-2] for about, _, name in found}  # without the stage, which is 0

    def add(self, contents: Contents, versions: dict[str, Version | None]) -> dict[str, str]:
        """Add versions, through the filters that the user has set up; return all entries."""
        for name, version in versions.items():
            if version and contents.has(version):
                path = self._folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                contents.put(version, None, str(path))
        # A folder's files are there under their own names.
        files = (name for name in versions if not (self._folder / name).is_dir())
        names = os.fsencode("\0".join(files))
        self.output("-c", "core.safecrlf=false", *_ADD, "--stdin", stdin=names)
        return self.entries()

    def merged(self, *entries: str) -> str:
        """Return what HEAD's, the old and the new entry become; nothing where they conflict."""
        if not all(one.startswith("100") for one in entries):
            return ""
        files = [Path(f"{self._folder}.{number}") for number in range(3)]
        for file, entry in zip(files, entries, strict=True):
            file.write_bytes(self._git.run("cat-file", "blob", entry[7:]).stdout)
        merged = self._git.merged(*files)
        if isinstance(merged, str):
            return ""
        return f"{entries[2][:7]}{self.output('hash-object', '-w', '--stdin', stdin=merged)}"
