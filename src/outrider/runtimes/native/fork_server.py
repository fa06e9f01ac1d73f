"""The client of the fork server: a child in milliseconds, or, in any doubt, none from here.

A host has a fork server of its own, which lives as long as it does. One-shot commands share one
of the user's, found by a socket that is named after the exact code and interpreter.
"""

import asyncio
import atexit
import errno
import fcntl
import hashlib
import json
import os
import signal
import socket
import stat
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from outrider.processes.surroundings import Surroundings, surroundings
from outrider.protocol.brief import Brief, Start
from outrider.protocol.errors import OutriderError
from outrider.protocol.fork_server import (
    MAX_PACKET_BYTES,
    READY,
    STATUS,
    STOP,
    StartRequest,
    lock_name,
)
from outrider.runtimes.native.links import PYTHON, Links, StartFailed, with_links
from outrider.settings.places import state_home

MAX_SEND_SECONDS = 10.0
MAX_ANSWER_SECONDS = 5.0
LOOK_EVERY_SECONDS = 1.0
"""How often a host checks that its fork server still has the code that a cold child would."""
MIN_LIFE_SECONDS = 60.0
"""How long a host's fork server lives at least, where threads differ in their surroundings."""
MAX_FAILED_STARTS = 3
"""How many fork servers in a row may give up before they are ready; more would do the same."""
PLAIN_VARIABLES = (
    "HOME", "LANG", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH", "PATH", "SSL_CERT_DIR",
    "SSL_CERT_FILE", "TMPDIR", "USER",
)  # fmt: skip
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FULL = (errno.EAGAIN, errno.ETOOMANYREFS, errno.ENOBUFS)


class NoForkServer(OutriderError):
    """There is no fork server to start a child from; the caller starts it cold."""


class HostedForkServer:
    """The fork server of this host: started when first needed, replaced when it dies.

    It is replaced too when its code or its surroundings are no longer what a cold child would
    get. Settings don't matter for that: they come with each brief.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: socket.socket | None = None
        self._ready = False
        self._failed_starts = 0
        self._identity = ""
        self._surroundings = ""
        self._begun_at = 0.0
        self._looked_at = 0.0

    async def start_child(self, brief: Brief, env: Mapping[str, str]) -> Links:
        """Start a child; raises `NoForkServer` while there is nothing to fork from."""
        here = _here().digest
        return await _start(self._connected(brief.provider, here), brief, env, here)

    def _connected(self, provider: str, here: str) -> socket.socket:
        outdated = self._is_outdated(here)  # not under the lock: it looks at many files
        with self._lock:
            if self._process is not None and (code := self._process.poll()) is not None:
                gave_up = code > 0 and not self._ready
                self._failed_starts = self._failed_starts + 1 if gave_up else 0
                self._end()
            if outdated:
                self._end()
            if self._connection is None:
                self._connection = self._begin(provider, here)
            if self._surroundings != here or not self._is_ready(self._connection):
                raise NoForkServer
            return self._connection

    def _is_outdated(self, here: str) -> bool:
        now = time.monotonic()
        if self._surroundings != here:
            return now > self._begun_at + MIN_LIFE_SECONDS
        if self._connection is None or now < self._looked_at + LOOK_EVERY_SECONDS:
            return False
        self._looked_at = now
        return self._identity != code_identity()

    def _begin(self, provider: str, here: str) -> socket.socket:
        if self._failed_starts >= MAX_FAILED_STARTS:
            raise NoForkServer
        self._identity, self._surroundings = code_identity(), here
        self._begun_at = self._looked_at = time.monotonic()
        try:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        except OSError:
            raise NoForkServer from None
        try:
            self._process = _spawn("host", (theirs.fileno(),), provider)
        except OSError:
            ours.close()
            raise NoForkServer from None
        finally:
            theirs.close()
        self._ready = False
        return ours

    def _is_ready(self, connection: socket.socket) -> bool:
        if not self._ready:
            with suppress(BlockingIOError, OSError):
                self._ready = connection.recv(16, socket.MSG_DONTWAIT) == READY
        return self._ready

    async def ready(self, provider: str) -> bool:
        """Return whether it got ready; waits until that is known."""
        while True:
            with suppress(NoForkServer):
                self._connected(provider, _here().digest)
                return True
            if self._process is None or self._process.poll() is not None:
                return False
            await asyncio.sleep(0.01)

    @property
    def pid(self) -> int | None:
        """The fork server's process id."""
        return self._process.pid if self._process else None

    def kill(self) -> None:
        """End the fork server; its children run on, and the next need starts another."""
        with self._lock:
            self._end()

    def _end(self) -> None:
        if self._connection is not None:
            self._connection.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._connection, self._process = None, None

    def forget(self) -> None:
        """Let go of the fork server in a fork of its host, to which it doesn't belong."""
        if self._connection is not None:
            self._connection.close()
        if self._process is not None:
            self._process.returncode = 0  # the host waits for it, not we
        self._connection, self._process, self._lock = None, None, threading.Lock()


_hosted = HostedForkServer()
atexit.register(_hosted.kill)
os.register_at_fork(after_in_child=_hosted.forget)


def hosted_fork_server() -> HostedForkServer:
    """Return the fork server of this process, which ends with it."""
    return _hosted


class UserForkServer:
    """The user's fork server, which commands leave behind for the next one.

    There is one at a time. A command in other surroundings than the one that left it behind
    starts its child cold.
    """

    def __init__(self, env: Mapping[str, str], minutes: int) -> None:
        self.pid: int | None = None
        """The process id of the fork server that was last met."""
        self._env = env
        self._name = f"warm-{code_identity()}.sock"
        self._minutes = minutes

    async def start_child(self, brief: Brief, env: Mapping[str, str]) -> Links:
        """Start a child; raises `NoForkServer`, and has one ready for the next time."""
        here = _here()
        if here.confined:  # in other rules, perhaps, than the command that left the server behind
            raise NoForkServer
        try:
            connection = self._connect()
        except OSError:
            self._begin(brief.provider)
            raise NoForkServer from None
        with connection:
            return await _start(connection, brief, env, here.digest)

    def status(self) -> dict[str, Any] | None:
        """Return what the fork server says of itself; None where there is none."""
        return json.loads(answer) if (answer := self._ask(STATUS)) else None

    def stop(self) -> bool:
        """End the fork server; return whether there was one."""
        return self._ask(STOP) is not None

    def kill(self) -> None:
        """End the fork server that was last met, and doesn't answer."""
        if self.pid:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def _ask(self, question: bytes) -> bytes | None:
        try:
            with self._connect() as connection:
                connection.settimeout(MAX_ANSWER_SECONDS)
                connection.send(question)
                return connection.recv(MAX_PACKET_BYTES)
        except OSError:
            return None

    def _connect(self) -> socket.socket:
        folder = _open_folder(self._env)
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            connection.setblocking(False)  # one that is stopped accepts nobody
            # The kernel takes no socket's path of more than 107 bytes, and this one is short.
            connection.connect(f"/proc/self/fd/{folder}/{self._name}")
            credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
            self.pid, uid, _ = struct.unpack("3i", credentials)
            if uid != os.getuid():
                raise PermissionError("the fork server is another user's")
        except OSError:
            connection.close()
            raise
        finally:
            os.close(folder)
        return connection

    def _begin(self, provider: str) -> None:
        """Start a fork server, unless there is one: it holds the lock for as long as it lives."""
        with suppress(OSError), ExitStack() as opened:
            folder = _open_folder(self._env, make=True)
            opened.callback(os.close, folder)
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
            lock = os.open(lock_name(self._name), flags, 0o600, dir_fd=folder)
            opened.callback(os.close, lock)
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _spawn("user", (lock, folder), self._name, str(self._minutes), provider)


def _here() -> Surroundings:
    try:
        return surroundings()
    except OSError:
        raise NoForkServer from None


async def _start(
    connection: socket.socket, brief: Brief, env: Mapping[str, str], here: str
) -> Links:
    """Hand the other ends of a child's links to a fork server; raises `NoForkServer`."""
    begun = time.monotonic()
    deadline_ms = round(begun * 1000) + brief.timeout_ms
    request = StartRequest(deadline_ms, here, brief.provider).to_bytes()
    start = Start(brief, dict(env), _umask(), begun)
    flags = socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL

    def hand_over(theirs: tuple[int, ...]) -> None:
        socket.send_fds(connection, [request], list(theirs), flags)

    while True:
        try:
            return with_links(start, hand_over)
        except StartFailed as failure:
            error = failure.__cause__
            full = isinstance(error, OSError) and error.errno in _FULL
            if not full or time.monotonic() > begun + MAX_SEND_SECONDS:
                raise NoForkServer from failure
            await asyncio.sleep(0.005)


def _umask() -> int:
    """Return this process's umask, which a fork has to take on."""
    umask = os.umask(0o077)
    os.umask(umask)
    return umask


def _plain_environment() -> dict[str, str]:
    """Return what a fork server is started with of our environment: nothing secret."""
    env = {name: os.environ[name] for name in PLAIN_VARIABLES if name in os.environ}
    if path := os.environ.get("PYTHONPATH"):
        env["PYTHONPATH"] = path
        with suppress(OSError):  # where the working directory is gone
            # It works elsewhere, where a relative path would lead to something else.
            env["PYTHONPATH"] = os.pathsep.join(map(os.path.abspath, path.split(os.pathsep)))
    return env


def _spawn(whose: str, passed: tuple[int, ...], *arguments: str) -> "subprocess.Popen[bytes]":
    """Start a fork server with none of our secrets: all that it forks could read them."""
    with ExitStack() as opened:
        # In a host without standard streams they could be among the three that we replace.
        passed = tuple(fcntl.fcntl(one, fcntl.F_DUPFD_CLOEXEC, 3) for one in passed)
        for one in passed:
            opened.callback(os.close, one)
        return subprocess.Popen(
            [*PYTHON, "outrider.child.fork_server", whose, *map(str, passed), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env=_plain_environment(),
            pass_fds=passed,
            start_new_session=True,
        )


def _open_folder(env: Mapping[str, str], *, make: bool = False) -> int:
    """Return a descriptor of the folder with the user's sockets; raises `OSError`.

    Nothing in it or above it is another user's: a link of theirs would lead our files elsewhere.
    """
    if above := _guarded(env.get("XDG_RUNTIME_DIR", "")):
        name = "outrider"
    elif above := _guarded(str(state_home(env))):
        name = "warm"
    else:
        raise PermissionError("there is no folder of the user's own")
    path = os.path.join(above, name)
    if make:
        with suppress(FileExistsError):
            os.mkdir(path, 0o700)
    folder = os.open(path, _FOLDER)
    found = os.fstat(folder)
    if found.st_uid != os.getuid() or found.st_mode & 0o077:
        os.close(folder)
        raise PermissionError(f"{path} is not the user's alone")
    return folder


def _guarded(folder: str) -> str | None:
    """Return the real path of a folder that no other user can replace, nor any above it."""
    if not os.path.isabs(folder):
        return None
    path = Path(os.path.realpath(folder))
    try:
        found = [os.stat(one) for one in (path, *path.parents)]
    except OSError:
        return None
    ours = all(one.st_uid in (0, os.getuid()) for one in found)
    # In a folder with the sticky bit, as `/tmp` has it, only the owner can rename.
    closed = all(not one.st_mode & stat.S_IWOTH or one.st_mode & stat.S_ISVTX for one in found)
    return str(path) if ours and closed else None


def code_identity() -> str:
    """Return a name for this exact code and interpreter: only equals may meet.

    Where modules and libraries are looked for belongs to it; a fork can't take that on later. So
    does the machine, since many can have one home folder.
    """
    package = str(Path(__file__).parents[2])
    # A package that is installed, upgraded or removed beside ours changes their folder.
    stamps = [_stamp(os.path.dirname(package))]
    for folder, names, files in os.walk(package):
        names[:] = sorted(name for name in names if name != "__pycache__")
        stamps += (_stamp(os.path.join(folder, file)) for file in sorted(files))
    searched = [_plain_environment().get(name, "") for name in ("PYTHONPATH", "LD_LIBRARY_PATH")]
    parts = (os.uname().nodename, sys.version, sys.executable, package, *searched, *stamps)
    return hashlib.sha256("\n".join(parts).encode(errors="surrogateescape")).hexdigest()[:16]


def _stamp(path: str) -> str:
    try:
        found = os.stat(path)
    except OSError:  # it went while we looked
        return path
    return f"{path} {found.st_mtime_ns} {found.st_size}"
