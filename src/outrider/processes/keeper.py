"""Nothing a shell started outlives the process that wanted the shell.

Runs as a small process of its own between the two. It adopts whatever loses its parent below
it, and when its lifeline to the process above breaks, however that came about, it kills all of
it. It is started by path and imports next to nothing, so that it starts fast.

From above, a line each: `start` a shell, `run N` (tell the shell to), `stop` what runs, `list`.
To above, in records of four fields that end in NUL: `gone`, `processes` (the shell itself
writes `ready` and `done` to the same pipe).
"""

import ctypes
import fcntl
import os
import select
import signal
import sys
import time
from contextlib import suppress

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
KILL_SECONDS = 5.0
MAX_LISTED = 50


class Keeper:
    """Starts a shell, again if need be, and ends everything below this process."""

    def __init__(self, report: int, output: int, command: list[str]) -> None:
        self._report = report
        self._output = output
        self._command = command
        self._shell = 0
        self._trigger = -1
        self._older: set[int] = set()

    def obey(self, line: str) -> None:
        """Do what the process above asks."""
        verb, _, rest = line.partition(" ")
        if verb == "start":
            self._start()
        elif verb == "run":
            self._older = set(descendants(os.getpid())) - {self._shell}
            _write(self._trigger, f"{rest}\n".encode())
        elif verb == "stop":
            # What was there before this command has done nothing wrong.
            kill_all(self._older)
            self.reap()
        elif verb == "list":
            self._tell("processes", *self._listing())

    def reap(self) -> None:
        """Take leave of processes that have ended, and tell if the shell is among them."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self._shell:
                self._shell = 0
                code = os.waitstatus_to_exitcode(status)
                self._tell("gone", "", str(code if code >= 0 else 128 - code))

    def _start(self) -> None:
        # A new pipe each time: what an ended shell didn't read must never reach the next one.
        if self._trigger >= 0:
            os.close(self._trigger)
        listen, self._trigger = os.pipe()
        self._shell = os.fork()
        if self._shell == 0:
            try:
                _become(self._command, (listen, self._report, self._output))
            finally:
                os._exit(127)
        os.close(listen)

    def _listing(self) -> tuple[str, str]:
        lines: list[str] = []
        others = [pid for pid in descendants(os.getpid()) if pid != self._shell]
        for pid in others:
            if command := command_line(pid):
                lines.append(f"{pid} {command}")
        return str(len(lines)), "\n".join(lines[:MAX_LISTED])

    def _tell(self, kind: str, first: str = "", second: str = "", third: str = "") -> None:
        record = "".join(f"{part}\0" for part in (kind, first, second, third))
        _write(self._report, record.encode(errors="replace"))


def descendants(root: int, spared: set[int] | frozenset[int] = frozenset()) -> list[int]:
    """Return the living processes below one, without the spared and what is below those."""
    children: dict[int, list[int]] = {}
    for pid, parent in living().items():
        children.setdefault(parent, []).append(pid)
    found: list[int] = []
    waiting = [root]
    while waiting:
        below = [pid for pid in children.get(waiting.pop(), ()) if pid not in spared]
        found += below
        waiting += below
    return found


def living() -> dict[int, int]:
    """Return the parent of every process that hasn't ended."""
    if not os.path.isdir("/proc/self"):
        rows = [line.split() for line in _ps("-A", "-o", "pid=,ppid=,stat=").splitlines()]
        return {int(pid): int(parent) for pid, parent, state in rows if state[0] != "Z"}
    found: dict[int, int] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            state, parent = _state(name)
            if state not in ("", "Z", "X"):
                found[int(name)] = parent
    return found


def _state(pid: str) -> tuple[str, int]:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            state, parent = file.read().rpartition(b")")[2].split()[:2]
    except (OSError, ValueError):
        return "", 0  # it has just ended
    return state.decode(), int(parent)


def command_line(pid: int) -> str:
    """Return how a process was called, on one line; nothing if it has ended."""
    if not os.path.isdir("/proc/self"):
        return _ps("-o", "command=", "-p", str(pid)).strip()[:200]
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            raw = file.read(400)
    except OSError:
        return ""
    return " ".join(raw.replace(b"\0", b" ").decode(errors="replace").split())[:200]


def _ps(*options: str) -> str:
    import subprocess

    return subprocess.run(["ps", *options], stdout=subprocess.PIPE, text=True, check=False).stdout


def kill_all(spared: set[int] | frozenset[int] = frozenset()) -> None:
    """Kill what is below this process, until nothing is left that could start anew."""
    give_up = time.monotonic() + KILL_SECONDS
    while (pids := descendants(os.getpid(), spared)) and time.monotonic() < give_up:
        # Stopped first: a process must not fork away while its siblings are being killed.
        for deadly in (signal.SIGSTOP, signal.SIGKILL):
            for pid in pids:
                with suppress(OSError):  # it has ended, or belongs to another user
                    os.kill(pid, deadly)
        time.sleep(0.002)


def _become(command: list[str], descriptors: tuple[int, int, int]) -> None:
    """Turn this process into the shell, which finds the descriptors as 3, 4 and 5."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    # Copied out of the way first, so that none is overwritten before it is used.
    high = [fcntl.fcntl(one, fcntl.F_DUPFD, 10) for one in descriptors]
    for number, one in enumerate(high, start=3):
        os.dup2(one, number, inheritable=True)
    os.execv(command[0], command)  # noqa: S606  # the command is a shell


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _write(descriptor: int, data: bytes) -> None:
    with suppress(OSError):  # nobody listens any more, and the lifeline will say so
        while data:
            data = data[os.write(descriptor, data) :]


def main(lifeline: int, report: int, output: int, folder: str, command: list[str]) -> None:
    """Serve until the lifeline breaks; then leave neither a process nor a file behind."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    for descriptor in (lifeline, report, output):
        os.set_inheritable(descriptor, False)
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    # Handled and not ignored: what is ignored stays so in the shell.
    for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _noted)
    keeper = Keeper(report, output, command)
    asked = b""
    while True:
        ready, _, _ = select.select([lifeline, woken], [], [])
        if woken in ready:
            os.read(woken, 4096)
        keeper.reap()
        if lifeline in ready:
            received = _receive(lifeline)
            if not received:
                break
            *lines, asked = (asked + received).split(b"\n")
            for line in lines:
                keeper.obey(line.decode())
    kill_all()
    _remove(folder)


def _noted(number: int, frame: object) -> None:
    """Let the wakeup pipe say that a signal came."""


def _receive(lifeline: int) -> bytes:
    try:
        return os.read(lifeline, 65536)
    except OSError:
        return b""


def _remove(folder: str) -> None:
    with suppress(OSError):
        for name in os.listdir(folder):
            os.unlink(os.path.join(folder, name))
        os.rmdir(folder)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], sys.argv[5:])
