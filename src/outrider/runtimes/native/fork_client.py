"""The client of the fork server: a child in milliseconds, or, in any doubt, none from here.

A host has fork servers of its own, which live as long as it does. One-shot commands share the
user's, found by a socket that is named after the exact code and interpreter. Each has loaded what
one kind of model needs: its children hold no page of another provider's SDK.
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
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from outrider.processes.surroundings import may_be_confined, surroundings
from outrider.protocol.brief import Brief, Start
from outrider.protocol.fork_messages import MAX_PACKET_BYTES, READY, STATUS, STOP, StartRequest
from outrider.runtimes.native.links import PYTHON, Links, StartFailed, start_line, with_links
from outrider.settings.places import state_home

MAX_SEND_SECONDS = 10.0
MAX_ANSWER_SECONDS = 5.0
LOOK_EVERY_SECONDS = 1.0
"""How often a host checks that its fork server still has the code that a cold child would."""
ONE_GO_SECONDS = 0.01
"""How long what a thread hands down counts as seen: less than one child takes after another."""
MIN_LIFE_SECONDS = 60.0
"""How long a host's fork server lives at least, where threads differ in their surroundings."""
MAX_FAILED_STARTS = 3
"""How many fork servers in a row may give up before they are ready; more would do the same."""
PLAIN_VARIABLES = (
    "HOME", "LANG", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH", "PATH", "PYTHONPATH",
    "SSL_CERT_DIR", "SSL_CERT_FILE", "TMPDIR", "USER",
)  # fmt: skip
MAX_MODEL = 200  # how much of a model's name a fork server is told: a packet has little room
_FULL = (errno.EAGAIN, errno.ETOOMANYREFS, errno.ENOBUFS)


class HostedForkServer:
    """One fork server of this host: started when first needed, replaced when it dies.

    It is replaced too when its code or its surroundings are no longer what a cold child would
    get. Settings don't matter for that: they come with each brief.
    """

    def __init__(self, loads: str) -> None:
        self._loads = loads
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: socket.socket | None = None
        self._ready = False
        self._failed_starts = 0
        self._identity = ""
        self._surroundings = ""
        self._around = 0, 0.0, ""
        self._begun_at = 0.0
        self._looked_at = 0.0

    async def start_child(self, brief: Brief, env: Mapping[str, str]) -> Links:
        """Start a child; raises `StartFailed` or `OSError` while there is nothing to fork from."""
        here = self._looked_around()
        return await _start(self._connected(here), brief, env, here)

    def _looked_around(self) -> str:
        """Return this thread's surroundings; for children started in one go we look once."""
        thread, now = threading.get_ident(), time.monotonic()
        around = self._around  # read once: another thread may put its own there
        if around[0] != thread or now > around[1] + ONE_GO_SECONDS:
            self._around = around = thread, now, surroundings()
        return around[2]

    def _connected(self, here: str) -> socket.socket:
        outdated = self._is_outdated(here)  # not under the lock: it looks at many files
        with self._lock:
            if self._process is not None and (code := self._process.poll()) is not None:
                gave_up = code > 0 and not self._ready
                self._failed_starts = self._failed_starts + 1 if gave_up else 0
                self._end()
            if outdated:
                self._end()
            if self._connection is None:
                self._connection = self._begin(here)
            if not self._ready:
                with suppress(BlockingIOError):
                    self._ready = self._connection.recv(16, socket.MSG_DONTWAIT) == READY
            if self._surroundings != here or not self._ready:
                raise StartFailed("The fork server isn't ready.")
            return self._connection

    def _is_outdated(self, here: str) -> bool:
        now = time.monotonic()
        if self._surroundings != here:
            return now > self._begun_at + MIN_LIFE_SECONDS
        if self._connection is None or now < self._looked_at + LOOK_EVERY_SECONDS:
            return False
        self._looked_at = now
        return self._identity != code_identity()

    def _begin(self, here: str) -> socket.socket:
        if self._failed_starts >= MAX_FAILED_STARTS:
            raise StartFailed("No fork server gets ready here.")
        self._identity, self._surroundings = code_identity(), here
        self._begun_at = self._looked_at = time.monotonic()
        self._ready = False
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            try:
                self._process = _spawn("host", theirs.fileno(), self._loads)
            except OSError:
                ours.close()
                raise
        return ours

    async def ready(self) -> bool:
        """Return whether it got ready; waits until that is known."""
        while True:
            with suppress(StartFailed, OSError):
                self._connected(surroundings())
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


_hosted: dict[str, HostedForkServer] = {}


def hosted_fork_server(loads: str) -> HostedForkServer:
    """Return this process's fork server for models that need this loaded; it ends with us."""
    return _hosted.setdefault(loads, HostedForkServer(loads))


@atexit.register
def end_fork_servers() -> None:
    """End the fork servers of this process; their children run on."""
    for server in list(_hosted.values()):
        server.kill()


os.register_at_fork(after_in_child=lambda: [server.forget() for server in _hosted.values()])


class UserForkServer:
    """The user's fork servers, which commands leave behind for the next one.

    There is one for each surroundings, which a fork can't take on, and each kind of model.
    """

    def __init__(self, env: Mapping[str, str], minutes: int) -> None:
        self.pid: int | None = None  # the process id of the fork server that was last met
        self._env = env
        self._here = surroundings()
        self._code = f"warm-{code_identity()}-"
        self._ours = f"{self._code}{self._here[:8]}-"
        self._minutes = minutes

    async def start_child(self, brief: Brief, env: Mapping[str, str]) -> Links:
        """Start a child; raises `StartFailed` or `OSError`, and has one for next time."""
        if may_be_confined():  # and the command that left the fork server behind was not
            raise StartFailed("This process may be confined.")
        try:
            connection = self._connect(f"{self._ours}{brief.loads}.sock")
        except OSError:
            self._begin(brief.loads)
            raise
        with connection:
            return await _start(connection, brief, env, self._here)

    def status(self) -> list[dict[str, Any]]:
        """Return what each fork server in these surroundings says of itself."""
        return [json.loads(answer) for answer in self._ask(STATUS, self._ours)]

    def stop(self) -> bool:
        """End the user's fork servers in all surroundings; return whether there was one."""
        return bool(self._ask(STOP, self._code))

    def kill(self) -> None:
        """End the fork server that was last met, and doesn't answer."""
        if self.pid:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def _ask(self, question: bytes, prefix: str) -> list[bytes]:
        """Return the answers of the fork servers whose names begin with this."""
        names: list[str] = []
        with suppress(OSError), _folder(self._env) as folder:
            names = [name for name in sorted(os.listdir(folder)) if name.startswith(prefix)]
        answers: list[bytes] = []
        for name in names:  # a lock's refuses, as no socket is there
            with suppress(OSError), self._connect(name) as connection:
                connection.settimeout(MAX_ANSWER_SECONDS)
                connection.send(question)
                answers.append(connection.recv(MAX_PACKET_BYTES))
        return [answer for answer in answers if answer]

    def _connect(self, name: str) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            connection.setblocking(False)  # one that is stopped accepts nobody
            with _folder(self._env) as folder:
                # The kernel takes no socket's path of more than 107 bytes, and this one is short.
                connection.connect(f"/proc/self/fd/{folder}/{name}")
            credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
            self.pid, uid, _ = struct.unpack("3i", credentials)
            if uid != os.getuid():
                raise PermissionError("the fork server is another user's")
        except OSError:
            connection.close()
            raise
        return connection

    def _begin(self, loads: str) -> None:
        """Start a fork server, unless there is one: it holds the lock for as long as it lives."""
        name = f"{self._ours}{loads}.sock"
        with suppress(OSError), _folder(self._env, make=True) as folder:
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
            lock = os.open(f"{name}.lock", flags, 0o600, dir_fd=folder)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                arguments = (name, str(self._minutes), loads)
                _spawn("user", lock, *arguments, cwd=f"/proc/self/fd/{folder}")
            finally:
                os.close(lock)


async def _start(
    connection: socket.socket, brief: Brief, env: Mapping[str, str], here: str
) -> Links:
    """Hand the other ends of a child's links to a fork server; raises `StartFailed`."""
    begun = time.monotonic()
    deadline_ms = round(begun * 1000) + brief.timeout_ms
    only_reads = brief.isolation == "readonly"
    request = StartRequest(deadline_ms, here, brief.model[:MAX_MODEL], only_reads).to_bytes()
    start = start_line(Start(brief, dict(env), begun))
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
                raise
            await asyncio.sleep(0.005)


def _plain_environment() -> dict[str, str]:
    """Return what a fork server is started with of our environment: nothing secret."""
    env = {name: os.environ[name] for name in PLAIN_VARIABLES if name in os.environ}
    if path := env.get("PYTHONPATH"):
        with suppress(OSError):  # where the working directory is gone
            # It works elsewhere, where a relative path would lead to something else.
            env["PYTHONPATH"] = os.pathsep.join(map(os.path.abspath, path.split(os.pathsep)))
    return env


def _spawn(whose: str, passed: int, *arguments: str, cwd: str = "/") -> "subprocess.Popen[bytes]":
    """Start a fork server with none of our secrets: all that it forks could read them."""
    # In a host without standard streams it could be one of the three that we replace.
    passed = fcntl.fcntl(passed, fcntl.F_DUPFD_CLOEXEC, 3)
    try:
        return subprocess.Popen(
            [*PYTHON, "outrider.child.fork_server", whose, str(passed), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=cwd,
            env=_plain_environment(),
            pass_fds=(passed,),
            start_new_session=True,
        )
    finally:
        os.close(passed)


@contextmanager
def _folder(env: Mapping[str, str], *, make: bool = False) -> Generator[int]:
    """Open the folder with the user's sockets; raises `OSError`.

    Nothing in it or above it is another user's: a link of theirs would lead our files elsewhere.
    """
    path = f"{os.path.realpath(state_home(env))}/warm"
    runtime = env.get("XDG_RUNTIME_DIR", "")
    if os.path.isabs(runtime) and os.path.isdir(runtime) and _is_guarded(os.path.realpath(runtime)):
        path = f"{os.path.realpath(runtime)}/outrider"
    if make and _is_guarded(os.path.dirname(path)):
        with suppress(FileExistsError):
            os.mkdir(path, 0o700)
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        found = os.fstat(folder)
        if found.st_uid != os.getuid() or found.st_mode & 0o077 or not _is_guarded(path):
            raise PermissionError(f"{path} is not the user's alone")
        yield folder
    finally:
        os.close(folder)


def _is_guarded(path: str) -> bool:
    """Whether no other user can replace a folder, or one above it."""
    for folder in (Path(path), *Path(path).parents):
        found = os.stat(folder)
        # In a folder with the sticky bit, as `/tmp` has it, only the owner can rename.
        is_open = found.st_mode & stat.S_IWOTH and not found.st_mode & stat.S_ISVTX
        if found.st_uid not in (0, os.getuid()) or is_open:
            return False
    return True


def code_identity() -> str:
    """Return a name for this exact code and interpreter: only equals may meet.

    Where modules and libraries are looked for belongs to it; a fork can't take that on later. So
    does the machine, since many can have one home folder.
    """
    package = str(Path(__file__).parents[2])
    # A package that is installed, upgraded or removed beside ours changes their folder.
    stamps = [_stamp(os.path.dirname(package)), *map(_stamp, _files(package))]
    searched = [_plain_environment().get(name, "") for name in ("PYTHONPATH", "LD_LIBRARY_PATH")]
    parts = (os.uname().nodename, sys.version, sys.executable, package, *searched, *stamps)
    return hashlib.sha256("\n".join(parts).encode(errors="surrogateescape")).hexdigest()[:16]


@cache
def _files(package: str) -> tuple[str, ...]:
    """Return the files of our code; a new one counts when one of these is changed to use it."""
    found: list[str] = []
    for folder, names, files in os.walk(package):
        names[:] = sorted(name for name in names if name != "__pycache__")
        found += (os.path.join(folder, file) for file in sorted(files))
    return tuple(found)


def _stamp(path: str) -> str:
    try:
        found = os.stat(path)
    except OSError:  # it went while we looked
        return path
    return f"{path} {found.st_mtime_ns} {found.st_size}"
