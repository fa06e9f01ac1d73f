"""The client of the warm process: a child in milliseconds, or, in any doubt, no child from here.

A host has a warm process of its own, which lives as long as it does. One-shot commands share one
of the user's, found by a socket that is named after the exact version, code and interpreter.
"""

import asyncio
import atexit
import errno
import fcntl
import hashlib
import json
import os
import resource
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import outrider
from outrider.delegation.launch import PYTHON, Child, LaunchFailed, with_pipes
from outrider.protocol.brief import Brief, Start

READY = b"ready"
SEND_LIMIT_S = 10.0
PLAIN_VARIABLES = (
    "HOME",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "PATH",
    "PYTHONPATH",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "TMPDIR",
    "USER",
)
LIMITS = ("RLIMIT_AS", "RLIMIT_CORE", "RLIMIT_CPU", "RLIMIT_DATA", "RLIMIT_FSIZE", "RLIMIT_NOFILE")
_FULL = (errno.EAGAIN, errno.ETOOMANYREFS, errno.ENOBUFS)


class NotWarm(Exception):
    """There is no warm process to start a child from; the caller starts it cold."""


def start_of(brief: Brief, env: Mapping[str, str]) -> Start:
    """Return the brief with this process's surroundings, which a fork has to take on."""
    umask = os.umask(0o077)
    os.umask(umask)
    numbers = [getattr(resource, name) for name in LIMITS if hasattr(resource, name)]
    limits = tuple((number, *resource.getrlimit(number)) for number in numbers)
    return Start(brief, dict(env), umask, limits)


async def start_child(connection: socket.socket, brief: Brief, env: Mapping[str, str]) -> Child:
    """Hand the child's ends of its pipes to a warm process; raises `NotWarm` or `LaunchFailed`."""
    give_up = asyncio.get_running_loop().time() + SEND_LIMIT_S
    while True:
        try:
            return with_pipes(start_of(brief, env), lambda theirs: _send(connection, brief, theirs))
        except LaunchFailed as failure:
            error = failure.__cause__
            full = isinstance(error, OSError) and error.errno in _FULL
            if not full or asyncio.get_running_loop().time() > give_up:
                raise NotWarm from failure
            await asyncio.sleep(0.005)


def _send(connection: socket.socket, brief: Brief, theirs: tuple[int, ...]) -> None:
    message = f"start {brief.timeout_ms}".encode()
    socket.send_fds(connection, [message], list(theirs), socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)


class HostedWarmth:
    """The warm process of this host: started at the first need, replaced when it dies."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: socket.socket | None = None
        self._ready = False
        self._owner = os.getpid()

    async def launch(self, brief: Brief, env: Mapping[str, str]) -> Child:
        """Start a child warm; raises `NotWarm` while there is nothing to fork from."""
        connection = self._connected(provider=brief.model.partition(":")[0])
        try:
            return await start_child(connection, brief, env)
        except NotWarm:
            self.close()
            raise

    def _connected(self, provider: str) -> socket.socket:
        with self._lock:
            if self._owner != os.getpid():  # after a fork, the parent's is not ours to use
                self._forget()
            if self._connection is None or self._process is None:
                self._begin(provider)
            elif self._process.poll() is not None:
                self._end()
                self._begin(provider)
            if self._connection is None or not self._is_ready(self._connection):
                raise NotWarm
            return self._connection

    def _begin(self, provider: str) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        arguments = ("host", str(theirs.fileno()), provider)
        try:
            self._process = _spawn(arguments, pass_fds=(theirs.fileno(),))
        except OSError:
            ours.close()
            raise NotWarm from None
        finally:
            theirs.close()
        self._connection, self._ready = ours, False

    def _is_ready(self, connection: socket.socket) -> bool:
        if not self._ready:
            with suppress(BlockingIOError, OSError):
                self._ready = connection.recv(16, socket.MSG_DONTWAIT) == READY
        return self._ready

    async def ready(self, provider: str) -> bool:
        """Return whether it got warm; waits until that is known."""
        while True:
            with suppress(NotWarm):
                self._connected(provider)
                return True
            if self._process is None or self._process.poll() is not None:
                return False
            await asyncio.sleep(0.01)

    @property
    def pid(self) -> int | None:
        """The warm process's id."""
        return self._process.pid if self._process else None

    def close(self) -> None:
        """Let the warm process go; its children don't mind."""
        with self._lock:
            self._end()

    def _end(self) -> None:
        if self._connection is not None:
            self._connection.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._connection, self._process = None, None

    def _forget(self) -> None:
        if self._connection is not None:
            self._connection.close()
        if self._process is not None:
            self._process.returncode = 0  # the parent waits for it, not we
        self._connection, self._process, self._owner = None, None, os.getpid()


@cache
def hosted_warmth() -> HostedWarmth:
    """Return the warmth of this process, which ends with it."""
    warmth = HostedWarmth()
    atexit.register(warmth.close)
    return warmth


class UserWarmth:
    """The user's warm process, which commands leave behind for the next one."""

    def __init__(self, env: Mapping[str, str], minutes: int) -> None:
        self._path = _socket_folder(env) / f"warm-{code_identity()}.sock"
        self._minutes = minutes

    async def launch(self, brief: Brief, env: Mapping[str, str]) -> Child:
        """Start a child warm; raises `NotWarm`, and has one ready for the next time."""
        try:
            connection = self._connect()
        except OSError:
            self._begin(brief.model.partition(":")[0])
            raise NotWarm from None
        with connection:
            return await start_child(connection, brief, env)

    def status(self) -> dict[str, Any] | None:
        """Return what the warm process says of itself; None where there is none."""
        return json.loads(answer) if (answer := self._ask(b"status")) else None

    def stop(self) -> bool:
        """End the warm process; return whether there was one."""
        return self._ask(b"stop") is not None

    def _ask(self, question: bytes) -> bytes | None:
        try:
            with self._connect() as connection:
                connection.send(question)
                return connection.recv(4096)
        except OSError:
            return None

    def _connect(self) -> socket.socket:
        folder = self._path.parent.stat()
        if folder.st_uid != os.getuid() or folder.st_mode & 0o077:
            raise PermissionError(f"{self._path.parent} is not the user's alone")
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            connection.settimeout(5)
            connection.connect(str(self._path))
            credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
            if int.from_bytes(credentials[4:8], sys.byteorder) != os.getuid():
                raise PermissionError("the warm process is somebody else's")
        except OSError:
            connection.close()
            raise
        return connection

    def _begin(self, provider: str) -> None:
        """Start a warm process, unless there is one: it holds the lock for as long as it lives."""
        with suppress(OSError):
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = os.open(self._path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                arguments = ("user", str(self._path), str(lock), str(self._minutes), provider)
                _spawn(arguments, pass_fds=(lock,))
            finally:
                os.close(lock)


def _spawn(arguments: tuple[str, ...], pass_fds: tuple[int, ...] = ()) -> "subprocess.Popen[bytes]":
    """Start a warm process with none of our secrets: all that it forks could read them."""
    return subprocess.Popen(
        [*PYTHON, "outrider.child.warm", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        env={name: os.environ[name] for name in PLAIN_VARIABLES if name in os.environ},
        pass_fds=pass_fds,
        start_new_session=True,
    )


def _socket_folder(env: Mapping[str, str]) -> Path:
    runtime = env.get("XDG_RUNTIME_DIR", "")
    # The kernel takes no socket's path of more than 107 bytes.
    if 0 < len(runtime) < 60 and os.path.isdir(runtime):
        return Path(runtime) / "outrider"
    return Path(tempfile.gettempdir()) / f"outrider-{os.getuid()}"


@cache
def code_identity() -> str:
    """Return a name for this exact version, code and interpreter: only equals may meet."""
    package = Path(outrider.__file__).parent
    stamps = sorted(
        f"{path.relative_to(package)} {(stat := path.stat()).st_mtime_ns} {stat.st_size}"
        for path in package.rglob("*.py")
    )
    parts = (outrider.__version__, sys.version, sys.executable, str(package), *stamps)
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
