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
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress

from outrider.processes.reaping import libc
from outrider.protocol.data import frozen

_NEWNS, _NEWUSER = 0x20000, 0x10000000
_BIND, _REC, _PRIVATE, _NOSUID, _NODEV = 0x1000, 0x4000, 0x40000, 2, 4
_ATTR_RDONLY, _ATTR_NOSUID, _ATTR_NODEV = 1, 2, 4
_AT_FDCWD, _AT_RECURSIVE = -100, 0x8000
_MOUNT_SETATTR = 442
_PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS, _CAPABILITY_VERSION = 4, 38, 0x20080522
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_SHARED = ("/tmp", "/var/tmp", "/run", "/dev/shm")  # noqa: S108
_RESOLVER = "/etc/resolv.conf"
"""What may lie in a shared folder, and is needed for every name that is looked up."""
_MAPS = ("uid_map", "gid_map")
_MAPPER = 'read _ && printf %s "$2" >/proc/$1/uid_map && printf %s "$3" >/proc/$1/gid_map && echo'
NO_LINUX = "namespaces: this isn't Linux"


@frozen
class Walls:
    """What is left of the files for a process; all paths are absolute, and but for those of
    `seen` free of links."""

    writable: tuple[str, ...] = ()
    seen: tuple[str, ...] = ()
    """Folders and files that stay where they are, though the folder they are in is replaced."""
    private: tuple[str, ...] = ()
    """Folders of which it sees only what is writable or seen."""
    hidden: tuple[str, ...] = ()
    """Folders and files that it doesn't see."""
    home: str | None = None
    """A folder that it may write to, in a layer that is lost with it."""


def enter(walls: Walls) -> tuple[str, ...]:
    """Confine this process, which has one thread; return what the kernel didn't let it do."""
    if sys.platform != "linux":
        return (NO_LINUX,)
    with ExitStack() as stack:
        try:
            mapper = _enter_namespaces(stack)
            _mount(None, "/", flags=_REC | _PRIVATE)
            _set_attributes("/", _ATTR_RDONLY | _ATTR_NOSUID | _ATTR_NODEV, flags=_AT_RECURSIVE)
        except OSError as error:
            return (f"namespaces: {error.strerror}",)
        missing = [*_rearranged(walls)]
        try:
            mapper.map_ids() if mapper else _drop_capabilities()
        except OSError as error:
            missing.append(f"rights: {error.strerror}")
    with suppress(OSError):  # a folder that was replaced is another one now
        os.chdir(os.getcwd())
    return tuple(missing)


def _rearranged(walls: Walls) -> Iterator[str]:
    """Make every folder what the walls say, and yield what couldn't be done."""
    if os.geteuid():  # whoever has no rights maps ids there for the namespaces below
        yield from _tried("/proc", lambda: _set_attributes("/proc", cleared=_ATTR_RDONLY))
    for device in _DEVICES:
        yield from _tried(f"/dev/{device}", lambda path=f"/dev/{device}": _open_device(path))
    needed = (*walls.seen, *walls.writable, _RESOLVER, sys.prefix, sys.base_prefix, *sys.path)
    seen = {real for path in needed if (real := _real_path(path))}
    replaced = {*map(os.path.realpath, _SHARED), *walls.private}
    if walls.home:
        replaced.add(walls.home)
    for folder in sorted(filter(os.path.isdir, replaced), key=len):
        replace = _put_layer if folder == walls.home else _put_empty
        yield from _tried(folder, lambda: _replace(folder, replace, seen))  # noqa: B023
    for path in walls.writable:
        yield from _tried(path, lambda path=path: _open_folder(path))
    for path in walls.hidden:
        yield from _tried(path, lambda path=path: _hide(path))


def _real_path(path: str) -> str:
    """Return what a path leads to, or nothing; in a fraction of what `realpath` takes."""
    with ExitStack() as stack, suppress(OSError):
        return os.readlink(f"/proc/self/fd/{_opened(path, stack)}")
    return ""


def _tried(what: str, work: Callable[[], None]) -> Iterator[str]:
    try:
        work()
    except OSError as error:
        yield f"{what}: {error.strerror}"


def _replace(folder: str, replace: Callable[[str], None], seen: set[str]) -> None:
    """Mount something else over a folder, and put back in what stays seen."""
    with ExitStack() as stack:
        inside = sorted(path for path in seen if f"{path}/".startswith(f"{folder}/"))
        kept = [(path, _opened(path, stack)) for path in inside]
        replace(folder)
        for path, descriptor in kept:
            if not os.path.exists(path):
                _make_mount_point(path, is_folder=os.path.isdir(f"/proc/self/fd/{descriptor}"))
            _mount(f"/proc/self/fd/{descriptor}", path, flags=_BIND | _REC)


def _make_mount_point(path: str, *, is_folder: bool) -> None:
    os.makedirs(path if is_folder else os.path.dirname(path), mode=0o755, exist_ok=True)
    if not is_folder:
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))


def _put_empty(folder: str) -> None:
    mode = os.stat(folder).st_mode & 0o7777
    _mount("tmpfs", folder, "tmpfs", _NOSUID | _NODEV, f"mode={mode:o}")


def _put_layer(folder: str) -> None:
    """Mount an overlay over a folder; what is written goes into memory, beneath that mount."""
    with ExitStack() as stack:
        lower = _opened(folder, stack)
        _put_empty(folder)
        upper, work = f"{folder}/upper", f"{folder}/work"
        for path in (upper, work):
            os.mkdir(path, 0o700)
        os.chmod(upper, os.fstat(lower).st_mode & 0o7777)
        # By descriptors: a path with `,` or `:` in it would be taken for several.
        dirs = {"lower": lower, "upper": _opened(upper, stack), "work": _opened(work, stack)}
        given = (f"{kind}dir=/proc/self/fd/{opened}" for kind, opened in dirs.items())
        options = ",".join((*given, "userxattr"))
        try:
            _mount("outrider", folder, "overlay", _NOSUID | _NODEV, options)
        except OSError:
            libc().umount2(os.fsencode(folder), 2)
            raise


def _open_device(path: str) -> None:
    if os.path.exists(path):
        _mount(path, path, flags=_BIND)
        _set_attributes(path, cleared=_ATTR_NODEV | _ATTR_RDONLY)


def _open_folder(path: str) -> None:
    _mount(path, path, flags=_BIND)
    _set_attributes(path, cleared=_ATTR_RDONLY)


def _hide(path: str) -> None:
    if os.path.isdir(path):
        _mount("tmpfs", path, "tmpfs", _NOSUID | _NODEV, "mode=0,size=4k")
        _set_attributes(path, _ATTR_RDONLY)
    elif os.path.exists(path):
        _mount("/dev/null", path, flags=_BIND)


class _Mapper:
    """A small process that stays outside and maps all of root's ids, which nobody inside can."""

    def __init__(self, stack: ExitStack) -> None:
        ask, self._ask = os.pipe()
        self._told, told = os.pipe()
        stack.callback(os.close, self._told)
        # Of each range of ids, the same ids: what others own has the same owner inside.
        maps = ["\n".join(f"{i} {i} {n}" for i, _, n in _ranges(name)) for name in _MAPS]
        arguments = ("sh", "-c", _MAPPER, "sh", str(os.getpid()), *maps)
        standard = [(os.POSIX_SPAWN_DUP2, ask, 0), (os.POSIX_SPAWN_DUP2, told, 1)]
        try:
            self._pid = os.posix_spawn("/bin/sh", arguments, {}, file_actions=standard)
        except OSError:
            os.close(self._ask)
            raise
        finally:
            os.close(ask)
            os.close(told)
        stack.callback(self._end)

    def _end(self) -> None:
        os.close(self._ask)
        os.waitpid(self._pid, 0)

    def map_ids(self) -> None:
        """Go into a user namespace below, with which all mounts so far are locked."""
        _check(libc().unshare(_NEWUSER | _NEWNS))
        os.write(self._ask, b"\n")
        if not os.read(self._told, 1):
            raise PermissionError(1, "the ids of users can't be mapped")


def _ranges(name: str) -> list[list[str]]:
    with open(f"/proc/self/{name}") as file:
        return [line.split() for line in file]


def _enter_namespaces(stack: ExitStack) -> _Mapper | None:
    """Enter namespaces in which this process may mount; return who maps the ids later."""
    uid, gid = os.geteuid(), os.getegid()
    if uid == 0:
        mapper = _Mapper(stack)
        if libc().unshare(_NEWNS) == 0:
            return mapper
    # Without rights, as an ordinary user or as root in a container: these come with a namespace.
    _check(libc().unshare(_NEWUSER | _NEWNS))
    libc().prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)  # else what it maps its ids with is root's
    maps = ("deny", f"{uid} {uid} 1", f"{gid} {gid} 1")
    for name, content in zip(("setgroups", *_MAPS), maps, strict=True):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(content)
    return None


def _drop_capabilities() -> None:
    _check(libc().prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    _check(libc().capset(struct.pack("Ii", _CAPABILITY_VERSION, 0), bytes(24)))


def _opened(path: str, stack: ExitStack) -> int:
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    stack.callback(os.close, descriptor)
    return descriptor


def _mount(
    source: str | None, target: str, kind: str | None = None, flags: int = 0, data: str = ""
) -> None:
    from ctypes import c_ulong

    named = [None if one is None else os.fsencode(one) for one in (source, target, kind)]
    _check(libc().mount(*named, c_ulong(flags), data.encode() or None))


def _set_attributes(path: str, wanted: int = 0, cleared: int = 0, flags: int = 0) -> None:
    attributes = struct.pack("4Q", wanted, cleared, 0, 0)
    given = (_AT_FDCWD, os.fsencode(path), flags, attributes, len(attributes))
    _check(libc().syscall(_MOUNT_SETATTR, *given))


def _check(result: int) -> None:
    if result < 0:
        from ctypes import get_errno

        raise OSError(get_errno(), os.strerror(get_errno()))
