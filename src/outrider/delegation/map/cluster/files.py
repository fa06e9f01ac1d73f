"""Files on their way between machines, and the folder of a map, which travels to each node once.

No link is followed, neither where files are read nor where they are written, and no path leads
out. Credential files never travel, and ignored files only where they are asked for.
"""

import errno
import fcntl
import hashlib
import os
import stat
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import BinaryIO

from outrider.delegation.request import invalid
from outrider.protocol.data import frozen
from outrider.records.runs import remove_folder
from outrider.workspaces.credentials import is_credential
from outrider.workspaces.layers.copying import walk
from outrider.workspaces.layers.user_git import UserGit
from outrider.workspaces.layers.versions import parent_of
from outrider.workspaces.opening import READ

MAX_FOLDER_BYTES, MAX_FOLDER_FILES = 512 << 20, 200_000
KEPT_SECONDS = 7 * 86_400
"""How long a node keeps a folder that no map uses."""
File = tuple[str, int, bytes]
"""A path, its mode with the kind, and the content; of a link, where it leads."""


def read_file(root: str | Path, path: str, most: float = float("inf")) -> File | None:
    """Return what is at a path below a folder, None for what doesn't travel, as a device.

    Raises `OSError`, also for a file that has more bytes than `most`.
    """
    with parent_of(f"{root}/.", _inner(path)) as (parent, name):
        status = os.stat(name, dir_fd=parent, follow_symlinks=False)
        if stat.S_ISLNK(status.st_mode):
            return path, status.st_mode, os.fsencode(os.readlink(name, dir_fd=parent))
        if stat.S_ISDIR(status.st_mode):
            return path, status.st_mode, b""
        if not stat.S_ISREG(status.st_mode):
            return None
        with open(os.open(name, READ, dir_fd=parent), "rb") as file:
            if os.fstat(file.fileno()).st_size > most:  # holes count: they would be filled
                raise OSError(errno.EFBIG, "too large")
            return path, status.st_mode, file.read()


def write_files(root: Path, files: Iterable[File]) -> None:
    """Write files into a new folder; links at last, so that nothing is written through one."""
    links: list[File] = []
    modes: list[tuple[Path, int]] = []
    root.mkdir(mode=0o700)
    for path, mode, content in files:
        _inner(path)
        if stat.S_ISLNK(mode):
            links.append((path, mode, content))
        elif stat.S_ISDIR(mode):
            (root / path).mkdir(parents=True, exist_ok=True)
            modes.append((root / path, mode & 0o777))
        else:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            with open(root / path, "xb") as file:
                file.write(content)
                os.fchmod(file.fileno(), mode & 0o777)
    for path, _, target in links:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        os.symlink(os.fsdecode(target), root / path)
    for folder, mode in reversed(modes):
        folder.chmod(mode | 0o700)


def _inner(path: str) -> str:
    """Return a path as it is, if it leads to something below a folder; raises `OSError`."""
    if not {"", ".", ".."}.isdisjoint(path.split("/")):
        raise OSError(errno.EINVAL, f"{path!r} isn't a path below a folder")
    return path


@frozen
class Parcel:
    """A folder as it travels: its files, and its history where git has one."""

    name: str
    digest: str = ""
    files: Sequence[File] = ()
    commit: str = ""
    bundle: bytes = b""
    branch: str = ""
    shallow: bytes = b""
    """The commits behind which the history is cut off."""
    sparse: bytes = b""
    """The paths that git leaves out of the working tree."""


def packed(root: Path, include: Iterable[str], git: UserGit) -> Parcel:
    """Return a folder for its way to the nodes; raises `Refusal` where it can't travel."""
    named = (one for pattern in include for one in _matching(root, pattern))
    found, left = dict[str, File](), MAX_FOLDER_BYTES
    for path in chain(_travelling(root, git), named):
        if path in found or is_credential(f"/{path}") or ".git" in path.split("/"):
            continue
        try:
            file = read_file(root, path, left)
        except OSError as error:
            if error.errno == errno.EFBIG:
                raise _too_large(root, path) from None
            continue  # it went meanwhile, or can't be read, here as there
        if file:
            found[path] = file
            left -= len(file[2])
        if len(found) > MAX_FOLDER_FILES:
            raise _too_large(root, path)
    parcel = replace(_history(root, git), files=[found[path] for path in sorted(found)])
    if len(parcel.bundle) > left:
        raise _too_large(root, "its git history, which a shallow clone has less of")
    digest = hashlib.sha256(repr((root.name, parcel.commit, parcel.branch)).encode())
    for path, mode, content in parcel.files:
        digest.update(repr((path, mode, len(content))).encode() + content)
    return replace(parcel, digest=digest.hexdigest()[:24])


def _history(root: Path, git: UserGit) -> Parcel:
    """Return what leads to the commit that is checked out, where the folder is a repository."""
    parcel = Parcel(root.name or "root")
    if git.root != root or git.run("rev-parse", "-q", "--verify", "HEAD").returncode:
        return parcel
    cut = Path(git.folder, git.output("rev-parse", "--git-path", "shallow"))
    listed = git.run("ls-files", "-t", "-z").stdout.split(b"\0")
    return replace(
        parcel,
        commit=git.output("rev-parse", "HEAD"),
        bundle=git.run("bundle", "create", "-q", "-", "HEAD").stdout,
        branch=os.fsdecode(git.run("symbolic-ref", "-q", "--short", "HEAD").stdout).strip(),
        shallow=cut.read_bytes() if cut.exists() else b"",
        sparse=b"\0".join(path[2:] for path in listed if path.startswith(b"S ")),
    )


def _too_large(root: Path, last: str) -> Exception:
    limit = f"{MAX_FOLDER_BYTES >> 20} MiB or {MAX_FOLDER_FILES:,} files"
    advice = "Have git ignore what the agents don't need, or use --cwd with a smaller folder."
    return invalid(f"{root} is too large to travel: more than {limit}, as of {last}. {advice}")


def _matching(root: Path, pattern: str) -> Iterator[str]:
    """Yield the paths that are asked for beside those that travel anyhow; `Refusal` for none."""
    found: list[str] = []
    with suppress(ValueError, NotImplementedError, IndexError):  # of what is no pattern in a folder
        found = [str(one.relative_to(root)) for one in root.glob(pattern)]
    found = [one for one in found if one != "." and ".." not in one.split("/")]
    if not found:
        raise invalid(f"No file in {root} matches --include {pattern!r}.")
    for one in found:
        yield one
        if os.path.isdir(root / one) and not os.path.islink(root / one):
            yield from (path for path, _ in walk(root, one))


def _travelling(root: Path, git: UserGit, below: str = "") -> Iterator[str]:
    """Yield the paths of all files in a folder, in a repository without the ignored ones."""
    if git.root is None or git.run("rev-parse", "--git-dir").returncode:
        yield from (path for path, _ in walk(root))
        return
    listed = git.output(
        "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=f"{root}/{below}"
    )
    for name in filter(None, listed.split("\0")):
        path = f"{below}{name}".rstrip("/")
        if not os.path.islink(root / path) and os.path.isdir(root / path):
            if os.path.lexists(root / path / ".git"):  # another repository in this one
                yield from _travelling(root, git, f"{path}/")
        else:
            yield path


def unpack(parcel: Parcel, folders: Path) -> Path:
    """Return where a folder is on this node; it is unpacked once for all maps."""
    new, place = folders / f"{parcel.digest}.new", folders / parcel.digest
    with open(folders / f"{parcel.digest}.unpacking", "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.exists():
            remove_folder(new)
            new.mkdir(mode=0o700)
            write_files(new / parcel.name, parcel.files)
            if parcel.bundle:
                _restore_history(new / parcel.name, parcel)
            new.rename(place)
    return place / parcel.name


def _restore_history(tree: Path, parcel: Parcel) -> None:
    UserGit(tree, os.environ).output("init", "-q", f"--initial-branch={parcel.branch or 'main'}")
    git = UserGit(tree, os.environ)
    if parcel.shallow:
        (tree / ".git/shallow").write_bytes(parcel.shallow)
    bundle = tree / ".git/history.bundle"
    bundle.write_bytes(parcel.bundle)
    git.output("bundle", "unbundle", str(bundle))
    bundle.unlink()
    git.output("update-ref", *([] if parcel.branch else ["--no-deref"]), "HEAD", parcel.commit)
    git.output("read-tree", "HEAD")
    git.output("update-index", "-z", "--skip-worktree", "--stdin", stdin=parcel.sparse)


def held_folder(digest: str, folders: Path) -> BinaryIO:
    """Hold a folder while a map uses it, and remove those that none has used for long."""
    folders.mkdir(mode=0o700, parents=True, exist_ok=True)
    held = open(folders / f"{digest}.used", "ab")  # noqa: SIM115 - as long as the actor lives
    fcntl.flock(held, fcntl.LOCK_SH)
    os.utime(held.fileno())
    for mark in folders.glob("*.used"):
        with suppress(OSError), open(mark, "rb") as other:
            if time.time() - os.fstat(other.fileno()).st_mtime > KEPT_SECONDS:
                fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove_folder(mark.with_suffix(""))
                mark.unlink()
    return held
