"""The tool `git`: what changed, in which commits, and whose a line is. It only reads.

The repository is taken to be hostile, with its configuration and attributes. So git is asked only
for names, commits and objects, by commands that run no hook, filter, textconv, external diff,
pager, monitor, signature check or transfer, and enter no submodule. What files hold is compared
here: they are read through the workspace, credential files are left out, and lines are masked as
`read` masks them. A repository that leads out of the tree is refused.
"""

import os
import stat
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from difflib import SequenceMatcher, unified_diff
from itertools import chain, islice
from typing import Annotated, Literal

from outrider.processes.foreign_program import run_program
from outrider.protocol.data import frozen
from outrider.settings.places import git_root
from outrider.tools import ToolCode, ToolContext, ToolFault, tool
from outrider.workspaces.names import shown_name
from outrider.workspaces.trusted_programs import TrustedPrograms

DEFAULT_COMMITS = 20
DEFAULT_LINES = 2_000
MAX_LIMIT = 20_000
MAX_LINE_CHARACTERS = 2_000
MAX_FILE_BYTES = 1 << 20
MAX_OUTPUT_BYTES = 8 << 20
MAX_EQUAL_PAIRS = 3_000_000  # of equal lines in two files: comparing takes longer with each
_COMMIT = "--format=commit %H%nAuthor: %an <%ae>%nDate: %aI%n%n%B"
_NEVER_READ = ("hooks", "lfs", "annex", "modules", "worktrees")
_READ_KINDS = (stat.S_IFREG, stat.S_IFDIR, stat.S_IFSOCK)  # git can't wait at a socket
# These win over the repository's own settings, as do empty ones for each filter. The user's own
# stay, `safe.directory` among them.
_SETTINGS = (
    "core.fsmonitor=false", "core.hooksPath=/dev/null", "core.attributesFile=/dev/null",
    "mailmap.file=", "mailmap.blob=", "protocol.allow=never", "submodule.recurse=false",
    "i18n.logOutputEncoding=UTF-8", "color.ui=false",
)  # fmt: skip
# Unlike protocol.allow, no other setting loosens GIT_ALLOW_PROTOCOL.
_ENVIRONMENT = {
    "LC_ALL": "C.UTF-8", "PATH": os.defpath,
    "GIT_ALLOW_PROTOCOL": "none", "GIT_NO_LAZY_FETCH": "1", "GIT_OPTIONAL_LOCKS": "0",
}  # fmt: skip


@tool("repository:git", name="git", timeout_ms=60_000)
def git(
    context: ToolContext,
    action: Literal["diff", "log", "show", "blame"],
    path: Annotated[str, {"minLength": 1}] = ".",
    ref: Annotated[str | None, {"pattern": r"^[^-:\s][^:\u0000-\u001f]{0,199}$"}] = None,
    limit: Annotated[int | None, {"minimum": 1, "maximum": MAX_LIMIT}] = None,
) -> str:
    """See what changed in the repository. diff: the working tree against HEAD or ref, or two
    commits; log: commits; show: one commit with its changes; blame: who changed each line.

    Args:
        action: What to see.
        path: Only this file or folder; blame needs a file.
        ref: A commit, branch or tag; for diff also A..B or A...B.
        limit: How many lines (log: commits) to show.
    """
    repository = _open_repository(context)
    name = os.path.relpath(context.workspace.resolve(path).path, repository.root)
    most = limit or (DEFAULT_COMMITS if action == "log" else DEFAULT_LINES)
    match action:
        case "diff":
            lines = _diff(repository, name, ref)
        case "log":
            how = (f"--max-count={most + 1}", "--date=short", "--format=%h %ad %an: %s")
            lines = repository.log(*how, repository.commit(ref), "--", name)
        case "show":
            lines = _show(repository, name, repository.commit(ref))
        case "blame":
            lines = _blame(repository, name, ref)
    shown = [line[:MAX_LINE_CHARACTERS] for line in islice(lines, most + 1)]
    cut = f"[cut at {most:,} lines: name a path, or raise the limit]"
    return "\n".join([*shown[:most], cut] if len(shown) > most else shown)


@frozen
class _Repository:
    """The repository around the working tree, and git, which is run on it."""

    context: ToolContext
    root: str
    program: str
    settings: tuple[str, ...] = _SETTINGS

    def commit(self, ref: str | None, file: str = "^{commit}") -> str:
        """Return the id of a commit, or of a file in it."""
        try:
            return self.run("rev-parse", "--verify", f"{ref or 'HEAD'}{file}").decode().strip()
        except ToolFault as fault:
            what = f"commit {ref or 'HEAD'}" if file == "^{commit}" else file[1:]
            message = f"there is no {shown_name(what)} here: {fault.message}"
            raise ToolFault(ToolCode.NOT_FOUND, message) from None

    def log(self, *arguments: str) -> Iterator[str]:
        text = self.run("rev-list", "--no-commit-header", *arguments).decode(errors="replace")
        return iter(text.splitlines())

    def content(self, name: str, mode: str, identity: str = "") -> bytes:
        """Return what a file holds; without an identity, in the working tree."""
        path, workspace = os.path.join(self.root, name), self.context.workspace
        if workspace.is_credential(path):
            raise ToolFault(ToolCode.DENIED, "a credential file, not shown")
        if mode == "160000":
            return f"submodule at {identity}".encode()
        if not mode.strip("0"):
            return b""
        if identity.strip("0"):
            return self.run("cat-file", "blob", identity, most=MAX_FILE_BYTES)
        place = workspace.resolve(path)
        if place.path != path:
            raise ToolFault(ToolCode.DENIED, "a link, or reached by one")
        with workspace.open_file(place) as file:
            self.context.effects.file_read(path)
            return file.read(MAX_FILE_BYTES + 1).replace(b"\r\n", b"\n")

    def lines(self, *contents: bytes) -> list[list[str]]:
        """Return the lines of files that can be compared, masked where secrets are."""
        if any(len(one) > MAX_FILE_BYTES or b"\0" in one for one in contents):
            raise ToolFault(ToolCode.TOO_LARGE, "binary or larger than 1 MiB, not shown")
        texts = [one.decode(errors="replace").removesuffix("\n") for one in contents]
        lines = [text.split("\n") if text else [] for text in texts]
        counts = Counter(lines[-1])
        if sum(counts[line] for line in lines[0]) > MAX_EQUAL_PAIRS:
            raise ToolFault(ToolCode.TOO_LARGE, "too repetitive to be compared")
        return [self.context.mask.lines(one) for one in lines] if self.context.mask else lines

    def run(self, *arguments: str, most: int = MAX_OUTPUT_BYTES) -> bytes:
        """Return what git writes; raises where it fails, or writes more than `most`."""
        given = self.context.environment
        env = {key: given[key] for key in ("HOME", "XDG_CONFIG_HOME") if key in given}
        env |= {"GIT_CEILING_DIRECTORIES": os.path.dirname(self.root), "GIT_WORK_TREE": self.root}
        settings = [word for one in self.settings for word in ("-c", one)]
        output = bytearray()
        command = [self.program, *settings, "--no-pager", "--literal-pathspecs", *arguments]
        env |= _ENVIRONMENT
        with run_program(command, self.context.stop, cwd=self.root, env=env) as running:
            for chunk in running.chunks():
                output += chunk
                if len(output) > most:
                    raise ToolFault(ToolCode.TOO_LARGE, f"larger than {most:,} bytes")
            if running.process.wait():
                # Its words may quote any file that the repository's settings name.
                why = ": see safe.directory" if b"safe.dir" in running.complaints else ""
                raise ToolFault(ToolCode.UPSTREAM_FAILED, f"git can't read it{why}")
        return bytes(output)


def _open_repository(context: ToolContext) -> _Repository:
    """Return the repository of the working tree; raises where there is none that may be read."""
    found = git_root(context.cwd)
    if found is None:
        raise ToolFault(ToolCode.NOT_FOUND, "the working tree isn't in a repository of the user's")
    roots = (str(found), *context.workspace.roots)
    program = TrustedPrograms(context.environment, roots).find("git")
    if program is None:
        raise ToolFault(ToolCode.NOT_AVAILABLE, "git is not installed")
    repository = _Repository(context, str(found), program)
    if leads := _leading_out(repository.root):
        why = "is a link, a pipe or a device, or leads out of the tree: git isn't run on it"
        raise ToolFault(ToolCode.DENIED, f"{shown_name(leads)} {why}")
    names = repository.run("config", "--list", "--name-only", "--null").decode().split("\0")
    filters = {name.rpartition(".")[0] for name in names if name.startswith("filter.")}
    if any("=" in name for name in filters):  # it couldn't be overruled
        raise ToolFault(ToolCode.DENIED, "the repository has a filter with = in its name")
    off = (f"{name}.{end}" for name in filters for end in ("clean=", "process=", "required=false"))
    return replace(repository, settings=(*_SETTINGS, *off))


def _leading_out(root: str) -> str | None:
    """Return what has git read elsewhere, or wait: a link, a pipe, a file that names a folder."""
    # A linked worktree may: its repository, which the tree can't have written, names it too.
    link = folder = os.path.join(root, ".git")
    if not os.path.isdir(link):
        named = _first_line(link).removeprefix("gitdir:").strip()
        folder = os.path.realpath(os.path.join(root, named))
        if not folder.startswith(f"{root}/"):
            is_linked = os.path.realpath(_first_line(f"{folder}/gitdir")) == link
            return None if is_linked else link
    for above, folders, files in os.walk(folder):
        folders[:] = [one for one in folders if above != folder or one not in _NEVER_READ]
        for path in (above, *(os.path.join(above, name) for name in (*folders, *files))):
            with suppress(FileNotFoundError):
                kind = stat.S_IFMT(os.lstat(path).st_mode)
                if kind not in _READ_KINDS or path.endswith(("/commondir", "/alternates")):
                    return path
    return None


def _first_line(path: str) -> str:
    if not os.path.isfile(path):
        return ""
    with open(path, errors="surrogateescape") as file:
        return file.readline(4_096).strip()


def _diff(repository: _Repository, path: str, ref: str | None) -> Iterator[str]:
    first, dots, last = (ref or "").partition("..")
    if dots:
        commits = [repository.commit(one) for one in (first, last.removeprefix("."))]
        if last.startswith("."):
            commits[0] = repository.run("merge-base", *commits).decode().strip()
        return _changes(repository, path, "diff-tree", *commits)
    # What changed in a submodule, a git would find out that obeys the submodule's settings.
    how = ("--ignore-submodules=all", repository.commit(ref))
    untracked = ("ls-files", "--others", "--exclude-standard", "-z", "--", path)
    names = os.fsdecode(repository.run(*untracked)).split("\0")[:-1]
    new = (f"[untracked: {shown_name(name)}]" for name in names)
    return chain(_changes(repository, path, "diff-index", *how), new)


def _show(repository: _Repository, path: str, commit: str) -> Iterator[str]:
    parents = next(repository.log("--max-count=1", "--format=%P", commit), "").split()[:1]
    how = ("diff-tree", "--root", "--no-commit-id", *parents, commit)
    return chain(repository.log("--max-count=1", _COMMIT, commit), _changes(repository, path, *how))


def _changes(repository: _Repository, path: str, command: str, *commits: str) -> Iterator[str]:
    """Yield the diff of each file that git lists as changed."""
    how = ("-r", "-z", "--raw", "--no-renames")
    listed = os.fsdecode(repository.run(command, *how, *commits, "--", path)).split("\0")
    for about, name in zip(listed[::2], listed[1::2], strict=False):
        old_mode, new_mode, old, new, status = about.lstrip(":").split()
        if status == "U":  # in conflict: what is in the working tree counts
            new_mode, new = "100644", ""
        shown = shown_name(name)
        try:
            before = repository.content(name, old_mode, old)
            after = repository.content(name, new_mode, new)
            if (before, old_mode) == (after, new_mode):
                continue  # only touched
            lines = repository.lines(before, after)
            sides = (f"{shown} ({old_mode})", f"{shown} ({new_mode})")
            diff = unified_diff(lines[0], lines[1], sides[0], sides[1], lineterm="")
            # Something differs all the same: what is masked, or the mode.
            yield from chain([next(diff, f"[{shown}: {old_mode} → {new_mode}]")], diff)
        except ToolFault as fault:
            yield f"[{shown}: {fault.message}]"


def _blame(repository: _Repository, path: str, ref: str | None) -> Iterator[str]:
    """Yield a file's lines behind their commits; without a ref, those of the working tree."""
    commit = repository.commit(ref)
    old = repository.content(path, "100644", repository.commit(commit, f":{path}"))
    before, after = repository.lines(old, old if ref else repository.content(path, "100644"))
    blamed = repository.run("blame", "--no-textconv", "--date=short", commit, "--", path)
    texts = enumerate(blamed.decode(errors="replace").split("\n"), 1)
    origins = [f"{text.partition(f' {at}) ')[0].rstrip()})" for at, text in texts]
    matches = SequenceMatcher(None, before, after).get_matching_blocks()
    whose = {b + at: origins[a + at] for a, b, size in matches for at in range(size)}
    return (f"{whose.get(at, 'not committed')} {at + 1}\t{line}" for at, line in enumerate(after))
