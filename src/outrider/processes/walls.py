"""What a process and all below it can change, the kernel decides: nothing but its own folders.

`enter` puts this process into a user and a mount namespace of its own. In there every file system
is read-only, without setuid programs and devices, except the folders that stay writable. Folders
that others share (`/tmp`, `/run`, `/dev/shm`, the other runs) are replaced by empty ones that
vanish with the process, and credentials aren't there. None of it can be taken back from inside:
the mounts are locked, because they belong to a namespace above or nobody has rights in this one.
"""

import os
import struct
import sys
from _socket import AF_UNIX, SCM_RIGHTS, SOCK_SEQPACKET, SOL_SOCKET, socketpair
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from functools import cache, partial

from outrider.processes import kernel, landlock
from outrider.processes.kernel import opened
from outrider.processes.listening import socket_paths
from outrider.processes.reaping import call_oneself, fork_bare

TYPE_CHECKING = False  # typing's own would cost a keeper milliseconds
if TYPE_CHECKING:
    from _socket import socket

SHARED = ("/tmp", "/var/tmp", "/run", "/dev/shm")  # noqa: S108
MAX_SINGLE_SOCKETS = 64
"""How many sockets are hidden one by one, in folders that have to stay."""
_RESOLVER = "/etc/resolv.conf"
"""What may lie in a shared folder, and is needed for every name that is looked up."""
CODE = (
    *(sys.prefix, sys.base_prefix, os.path.dirname(sys.executable)),
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))),
)
"""What a child runs, and shuts its cells with: it stays as it is in a layer too."""
_NAMESPACE = "/proc/self/ns/mnt"


class Walls:
    """What is left of the files for a process; all paths are absolute, and but for those of
    `seen` free of links."""

    def __init__(
        self,
        writable: Sequence[str] = (),
        seen: Sequence[str] = (),
        private: Sequence[str] = (),
        hidden: Sequence[str] = (),
        home: str | None = None,
        layered: "LayeredFolder | None" = None,
    ) -> None:
        """Of `private` folders it sees only what is writable or `seen`, which stays where it is
        although the folder around it is replaced; what is `hidden`, it doesn't see. To `home` it
        may write, in a layer that is lost with it; to the `layered` folder in one that is kept.
        """
        self.writable, self.seen = writable, seen
        self.private, self.hidden, self.home = private, hidden, home
        self.layered = layered


class LayeredFolder:
    """A folder that a process changes in a layer over it."""

    def __init__(
        self,
        folder: str,
        layer: str,
        copy: Callable[[], str] | None = None,
        names: Sequence[str] = ("upper", "work"),
    ) -> None:
        """`layer` is where the two folders of an overlay are, of these `names`. Where there can't
        be one, or they aren't there, `copy` makes a copy in the layer and returns its path.
        """
        self.folder, self.layer, self._copy = folder, layer, copy
        self._upper, self._work = (f"{layer}/{name}" for name in names)
        self.kind = ""
        """What was put over the folder: `overlay` or `copy`."""
        self.lower = -1
        """A descriptor of the folder itself, through which it can't be written to."""
        self.kept = -1
        """A descriptor of `layer`, from which no path leads out of it."""

    def put(self, mounted: Iterable[str]) -> None:
        """Put the layer over the folder, and hide what it is made of; raises `OSError`."""
        self.lower = os.open(self.folder, os.O_PATH | os.O_CLOEXEC)
        try:
            if nested := next((one for one in mounted if one.startswith(f"{self.folder}/")), None):
                raise OSError(f"{nested} is a file system of its own")
            _mount_overlay(self.folder, self.lower, self._upper, self._work)
            self.kind = "overlay"
        except OSError as error:
            if self._copy is None:
                raise OSError(f"no overlay is possible: {error.strerror or error}") from None
            kernel.mount(self._copy(), self.folder, flags=kernel.BIND)
            kernel.set_attributes(self.folder, 0, kernel.RDONLY)
            self.kind = "copy"
        # Of its own mount: from one of the namespace outside, `..` leads to all that is there.
        self.kept = os.open(self.layer, os.O_PATH | os.O_CLOEXEC)
        with suppress(OSError):
            while True:  # it was seen, and then writable
                kernel.unmount(self.layer)


def enter(
    walls: Walls, begun: "Begun | None" = None, guardian: "socket | None" = None
) -> tuple[str, ...]:
    """Confine this process, which has one thread; return what the kernel didn't let it do."""
    return (begun or Begun(guardian)).finish(walls)


class Begun:
    """Walls that are begun: this process can change no file any more, and still mount.

    That takes most of the time, and can be done before anybody knows what the process is for. What
    is mounted outside later, it doesn't see.
    """

    def __init__(self, guardian: "socket | None" = None) -> None:
        """Begin with this process, which has one thread.

        At the other end of `guardian` is a process outside, which maps ids and ends when nobody
        waits any more: to take namespaces down takes the kernel a millisecond, and many times that
        where many end at once.
        """
        self._guardian = guardian
        self._namespaces: list[int] = []
        self._stack = ExitStack()
        self._mapper: socket | None = None
        self._refused = () if kernel.IS_LINUX else (kernel.NO_LINUX,)
        if not self._refused:
            self._mounted = kernel.mounts()
            self._missing = [*self._begin()]
            self._hold_namespace()

    def _begin(self) -> Iterator[str]:
        try:
            self._mapper = _enter_namespaces(self._stack, self._guardian)
            kernel.mount(None, "/", flags=kernel.REC | kernel.PRIVATE)
            kernel.set_attributes("/", kernel.RDONLY | kernel.NOSUID | kernel.NODEV, below=True)
        except OSError as error:
            self._refused = (f"namespaces: {error.strerror}",)
            return
        if self._mapper is None:  # whoever has no rights maps ids there for the namespaces below
            yield from _tried("/proc", lambda: kernel.set_attributes("/proc", 0, kernel.RDONLY))
        for device in kernel.DEVICES:
            yield from _tried(device, lambda device=device: _open_device(device))

    def finish(self, walls: Walls) -> tuple[str, ...]:
        """Make every folder what the walls say; return what the kernel didn't let it do."""
        with self._stack:
            if self._refused:
                return self._refused
            missing = [*self._missing, *_rearranged(walls, self._mounted)]
            missing += _hidden_sockets(walls, socket_paths())
            missing += _tried("rights", self._give_up_rights)
        missing += _tried("landlock", landlock.restrict_scope)
        with suppress(OSError):  # a folder that was replaced is another one now
            os.chdir(os.getcwd())
        return tuple(missing)

    def _give_up_rights(self) -> None:
        """Lose the right to mount; root does in a user namespace below, which locks all mounts."""
        if self._mapper is None:
            _drop_rights()
            self._say(b".")
            return
        kernel.unshare(kernel.NEWUSER | kernel.NEWNS)
        self._say(kernel.MAP)
        if self._mapper.recv(len(kernel.MAPPED)) != kernel.MAPPED:
            raise PermissionError(1, "the ids of users can't be mapped")

    def _hold_namespace(self) -> None:
        with suppress(OSError):
            if self._guardian is not None:
                self._namespaces.append(os.open(_NAMESPACE, os.O_RDONLY | os.O_CLOEXEC))

    def _say(self, word: bytes) -> None:
        """Tell the process outside; a guardian is left the namespaces, which go with its end."""
        self._hold_namespace()
        if link := self._mapper or self._guardian:
            held = struct.pack(f"{len(self._namespaces)}i", *self._namespaces)
            link.sendmsg([word], [(SOL_SOCKET, SCM_RIGHTS, held)] if held else [])
        while self._namespaces:
            os.close(self._namespaces.pop())


@cache
def code_paths() -> tuple[str, ...]:
    """Return where this interpreter finds its code, without links."""
    return tuple({real for path in (*CODE, *sys.path) if (real := _real_path(path))})


def _rearranged(walls: Walls, mounted: list[tuple[str, bool]]) -> Iterator[str]:
    """Make every folder what the walls say, and yield what couldn't be done."""
    needed = dict.fromkeys((*walls.seen, *walls.writable, _RESOLVER))
    seen = {*code_paths(), *(real for path in needed if (real := _real_path(path)))}
    work = dict[str, Callable[[str], None]]()
    work |= dict.fromkeys((*map(os.path.realpath, SHARED), *walls.private), _put_empty)
    work |= {walls.home: _put_layer} if walls.home else {}
    ours = set[str]()
    # A folder comes before those in it: each is as it should be when the next is mounted there.
    for folder in sorted({*work, *walls.writable}, key=len):
        if not os.path.isdir(folder):  # it never was, or is gone with the folder around it
            continue
        if folder in work:
            put = partial(_replace, folder, work[folder], seen, ours)
            yield from _tried(folder, put)
        if folder in walls.writable:
            yield from _tried(folder, partial(_open_folder, folder, mounted, ours))
    if layered := walls.layered:
        paths = [path for path, _ in mounted]
        own = {one for path in CODE if (one := _real_path(path)) != layered.folder}
        put = partial(_replace, layered.folder, lambda _: layered.put(paths), own, ours)
        yield from _tried("layer", put)
    for path in walls.hidden:
        yield from _tried(path, lambda path=path: _hide(path))


def _hidden_sockets(walls: Walls, sockets: Iterable[str]) -> Iterator[str]:
    """Hide what can be connected to, with its folder where nothing else in there is needed."""
    needed = (*walls.seen, *walls.writable, sys.prefix, sys.base_prefix, walls.home or "/")
    still = {path for path in sockets if os.path.lexists(path)}
    folders = {os.path.dirname(path) for path in still}
    kept = {
        folder
        for folder in folders
        if folder.count("/") == 1 or any(f"{one}/".startswith(f"{folder}/") for one in needed)
    }
    single = sorted(path for path in still if os.path.dirname(path) in kept)
    for path in (*(folders - kept), *single[:MAX_SINGLE_SOCKETS]):
        yield from _tried(path, lambda path=path: _hide(path))
    if more := len(single[MAX_SINGLE_SOCKETS:]):
        yield f"sockets: {more} more can be reached, such as {single[-1]}"


def _real_path(path: str) -> str:
    """Return what a path leads to, or nothing; in a fraction of what `realpath` takes."""
    with ExitStack() as stack, suppress(OSError):
        return os.readlink(f"/proc/self/fd/{opened(path, stack)}")
    return ""


def _tried(what: str, work: Callable[[], None]) -> Iterator[str]:
    try:
        work()
    except OSError as error:
        yield f"{what}: {error.strerror or error}"


def _replace(folder: str, replace: Callable[[str], None], seen: set[str], ours: set[str]) -> None:
    """Mount something else over a folder, and put back in what stays seen.

    `ours` are the mounts of this process: what is put over a folder hides those in it.
    """
    with ExitStack() as stack:
        inside = sorted(path for path in seen if f"{path}/".startswith(f"{folder}/"))
        kept = [(path, opened(path, stack)) for path in inside]
        replace(folder)
        ours.difference_update([one for one in ours if one.startswith(f"{folder}/")])
        ours.add(folder)
        for path, descriptor in kept:
            if not os.path.exists(path):
                _make_mount_point(path, is_folder=os.path.isdir(f"/proc/self/fd/{descriptor}"))
            # Where something is mounted can't be renamed, and nothing else be put in its place. An
            # overlay doesn't let go of the folders below it anyway.
            for above in () if replace is _put_layer else _between(folder, path):
                if above not in ours:
                    kernel.mount(above, above, flags=kernel.BIND | kernel.REC)
                    ours.add(above)
            kernel.mount(f"/proc/self/fd/{descriptor}", path, flags=kernel.BIND | kernel.REC)
            ours.add(path)


def _between(folder: str, path: str) -> list[str]:
    """Return the folders that a path is in, from the outermost below `folder`."""
    names = path[len(folder) :].split("/")[1:-1]
    return [f"{folder}/{'/'.join(names[:count])}" for count in range(1, len(names) + 1)]


def _make_mount_point(path: str, *, is_folder: bool) -> None:
    os.makedirs(path if is_folder else os.path.dirname(path), mode=0o755, exist_ok=True)
    if not is_folder:
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))


def _put_empty(folder: str) -> None:
    mode = os.stat(folder).st_mode & 0o7777
    kernel.mount("tmpfs", folder, "tmpfs", kernel.NOSUID | kernel.NODEV, f"mode={mode:o}")


def _put_layer(folder: str) -> None:
    """Mount an overlay over a folder; what is written goes into memory, beneath that mount."""
    with ExitStack() as stack:
        lower = opened(folder, stack)
        _put_empty(folder)
        upper, work = f"{folder}/upper", f"{folder}/work"
        for path in (upper, work):
            os.mkdir(path, 0o700)
        os.chmod(upper, os.fstat(lower).st_mode & 0o7777)
        try:
            _mount_overlay(folder, lower, upper, work)
        except OSError:
            kernel.unmount(folder)
            raise


def _mount_overlay(folder: str, lower: int, upper: str, work: str) -> None:
    with ExitStack() as stack:
        # By descriptors: a path with `,` or `:` in it would be taken for several.
        dirs = {"lower": lower, "upper": opened(upper, stack), "work": opened(work, stack)}
        given = (f"{kind}dir=/proc/self/fd/{one}" for kind, one in dirs.items())
        flags = kernel.NOSUID | kernel.NODEV
        kernel.mount("outrider", folder, "overlay", flags, ",".join((*given, "userxattr")))


def _open_device(path: str) -> None:
    if os.path.exists(path):
        kernel.mount(path, path, flags=kernel.BIND)
        kernel.set_attributes(path, 0, kernel.NODEV | kernel.RDONLY)


def _open_folder(folder: str, mounted: list[tuple[str, bool]], ours: set[str]) -> None:
    """Make a folder writable, and what was mounted in it and could be written to."""
    if folder not in ours:
        kernel.mount(folder, folder, flags=kernel.BIND | kernel.REC)
    inside = (path for path, writable in mounted if writable and path.startswith(f"{folder}/"))
    for path in (folder, *inside):
        kernel.set_attributes(path, 0, kernel.RDONLY)


def _hide(path: str) -> None:
    if os.path.isdir(path):
        kernel.mount("tmpfs", path, "tmpfs", kernel.NOSUID | kernel.NODEV, "mode=0,size=4k")
        kernel.set_attributes(path, kernel.RDONLY)
    elif os.path.exists(path):
        kernel.mount("/dev/null", path, flags=kernel.BIND)


def _enter_namespaces(stack: ExitStack, guardian: "socket | None") -> "socket | None":
    """Enter namespaces in which this process may mount; return who maps all of root's ids later."""
    if os.geteuid() == 0:
        mapper = guardian or _mapper(stack)
        with suppress(OSError):
            kernel.unshare(kernel.NEWNS)
            return mapper
    # Without rights, as an ordinary user or as root in a container: these come with a namespace.
    kernel.enter_user_namespace(kernel.NEWNS)
    return None


def _mapper(stack: ExitStack) -> "socket":
    """Return the link to a small process that stays outside, where no guardian does."""
    ours, theirs = socketpair(AF_UNIX, SOCK_SEQPACKET)
    asking = os.getpid()
    if (pid := fork_bare()) == 0:
        try:
            ours.close()
            call_oneself("ids")
            if theirs.recv(len(kernel.MAP)):
                kernel.map_ids(asking)
                theirs.send(kernel.MAPPED)
        finally:
            os._exit(0)
    theirs.close()
    stack.callback(os.waitpid, pid, 0)
    stack.callback(ours.close)
    return ours


def _drop_rights() -> None:
    kernel.gain_nothing()
    kernel.limit_capabilities(0 if os.geteuid() else kernel.SETFCAP)  # for the cells below
