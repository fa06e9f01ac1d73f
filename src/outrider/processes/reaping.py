"""Nothing below a process outlives it: what the guardian and the keeper have in common.

Both are small processes that stand above others. They adopt what loses its parent below them,
hold a lifeline to the process above, and kill everything below when that lifeline breaks. If they
are killed themselves, the kernel kills what they forked. Without Linux's means, process groups and
lifelines are all there is.

This module imports little: a guardian stays in memory as long as its child, and a keeper has to
start fast.
"""

import os
import resource
import select
import signal
import sys
import time
from collections.abc import Callable, Set
from contextlib import suppress
from functools import cache

TYPE_CHECKING = False  # typing's own would cost a keeper milliseconds
if TYPE_CHECKING:
    import ctypes
    import socket

MAX_SWEEP_SECONDS = 5.0
MAX_POLL_MS = 3_600_000.0
"""How long one poll may wait: the kernel counts milliseconds in 31 bits."""
MAX_COMMAND_LINE = 200
MAX_ANCESTORS = 1_000
HAS_PROC = os.path.isdir("/proc/self")
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)
_HAS_SIGNALFD = sys.platform == "linux"
_NUMBERS = slice(0 if sys.byteorder == "little" else 3, None, 128) if _HAS_SIGNALFD else slice(None)
"""Where the numbers of signals are in what is read: the kernel tells 128 bytes of each."""
_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_NAME = 15
_PR_SET_CHILD_SUBREAPER = 36
_PF_EXITING = 0x4
_STAT_BYTES = 4096
_RLIMIT_LOCKS = 10
"""A resource limit that Linux hands down and lets no user raise, but otherwise ignores."""

OnEnd = Callable[[int, int], None]
"""Told of each child that ended: its process id and its wait status."""


class Watch:
    """Waits for signals and for events on descriptors, whichever comes first."""

    def __init__(self) -> None:
        # What starts us may ignore signals, or block them in the thread that does.
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        # No pipe: that can be opened through `/proc`, and signals be faked with it.
        self._signals = _signal_descriptor() if _HAS_SIGNALFD else self._woken()
        self.renew()

    def _woken(self) -> int:
        """Return the end of a socket to which Python writes the numbers of signals."""
        import socket

        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        ours, self._wakeup = socket.socketpair()
        ours.setblocking(False)
        self._wakeup.setblocking(False)
        signal.set_wakeup_fd(self._wakeup.fileno(), warn_on_full_buffer=False)
        # Handlers that do nothing: because they exist, Python writes to the socket. Signals that
        # are ignored instead would stay so in programs that are started.
        for number in _SIGNALS:
            signal.signal(number, lambda _number, _frame: None)
        return ours.detach()

    def renew(self) -> None:
        """Watch nothing but signals; in a fork, those of the fork."""
        self._poll = select.poll()
        self.hold(self._signals, select.POLLIN)

    def hold(self, descriptor: int, events: int = 0) -> None:
        """Watch a descriptor for these events, and always for its end."""
        self._poll.register(descriptor, events)

    def let_go(self, descriptor: int) -> None:
        """Watch a descriptor no longer, if it is watched."""
        with suppress(KeyError):
            self._poll.unregister(descriptor)

    def wait(self, seconds: float | None = None) -> tuple[bytes, set[int]]:
        """Return the numbers of the signals that arrived, and the descriptors that are ready."""
        limit_ms = None if seconds is None else min(max(0.0, seconds) * 1000, MAX_POLL_MS)
        ready = {descriptor for descriptor, _ in self._poll.poll(limit_ms)}
        signals = b""
        if self._signals in ready:
            ready.remove(self._signals)
            signals = os.read(self._signals, 4096)[_NUMBERS]
        return signals, ready

    def undo(self) -> None:
        """Take signals as any process does, in a fork of the one that watches."""
        os.close(self._signals)
        if _HAS_SIGNALFD:
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
            return
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)
        self._wakeup.close()


def _signal_descriptor() -> int:
    """Block signals, and return where they can be read, in a fork its own; raises `OSError`.

    A handler would have to be set in the fork and removed again in the fork's fork.
    """
    import ctypes

    signal.pthread_sigmask(signal.SIG_SETMASK, _SIGNALS)
    wanted = (ctypes.c_ulong * 16)(sum(1 << number - 1 for number in _SIGNALS))
    found = libc().signalfd(-1, wanted, os.O_CLOEXEC | os.O_NONBLOCK)
    if found < 0:
        raise OSError("the kernel offers no descriptor for signals")
    return found


def is_broken(lifeline: int) -> bool:
    """Return whether the process at the other end has let go of a lifeline."""
    poller = select.poll()
    poller.register(lifeline, 0)  # asks for no event, so only the end is reported
    return bool(poller.poll(0))


def fork(run: Callable[[], None], watch: Watch) -> int:
    """Run a function in a fork that dies with this process; return the fork's id."""
    parent = os.getpid()
    pid = os.fork()
    if pid != 0:
        return pid
    try:
        watch.undo()
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == parent:  # else it died before the line above took effect
            run()
    except Exception:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(1)


def fork_bare() -> int:
    """Fork as the C library does, and return what `os.fork` returns; raises `OSError`.

    What Python does in a fork for threads, locks and random numbers touches 200 pages, each of
    which is copied. A process of one thread that only guards another needs none of it.
    """
    import ctypes

    if (pid := ctypes.pythonapi.fork()) < 0:
        raise OSError("there is no room for another process")
    return pid


def reap(on_end: OnEnd) -> bool:
    """Collect the children that ended; return whether any child is left."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return False
        if pid == 0:
            return True
        on_end(pid, status)


def sweep(on_end: OnEnd, spared: Set[int] = frozenset()) -> None:
    """Kill everything below this process, except the spared and what is below those.

    Repeats until nothing is left that could fork again, for as long as `MAX_SWEEP_SECONDS`.
    """
    give_up = time.monotonic() + MAX_SWEEP_SECONDS
    while reap(on_end) and time.monotonic() < give_up:
        pids = descendants(spared)
        if spared and not pids:
            return
        _kill_all(pids)


def sweep_marked(variable: str, value: str) -> None:
    """Kill every process that has this in its environment, for `MAX_SWEEP_SECONDS`."""
    give_up = time.monotonic() + MAX_SWEEP_SECONDS
    while pids := [pid for pid, its in marked_processes(variable) if its == value]:
        if time.monotonic() > give_up:
            return
        _kill_all(pids)


def marked_processes(variable: str) -> list[tuple[int, str]]:
    """Return the processes that have a variable in their environment, each with its value.

    One that has it twice is there twice: no second value hides the first.
    """
    found: list[tuple[int, str]] = []
    start = f"{variable}=".encode()
    for name in filter(str.isdigit, os.listdir("/proc") if HAS_PROC else ()):
        with suppress(OSError), open(f"/proc/{name}/environ", "rb") as environment:
            for entry in environment.read().split(b"\0"):
                if entry.startswith(start):
                    found.append((int(name), entry.removeprefix(start).decode(errors="replace")))
    return found


def _kill_all(pids: list[int]) -> None:
    # Stopped first, so that none can fork while the others are being killed.
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in pids:
            with suppress(OSError):  # it has ended, or belongs to another user
                os.kill(pid, number)
    time.sleep(0.002)


def descendants(spared: Set[int] = frozenset()) -> list[int]:
    """Return the processes below this one, without the spared and what is below those."""
    children: dict[int, list[int]] = {}
    for pid, parent in _parents().items():
        children.setdefault(parent, []).append(pid)
    found: list[int] = []
    waiting = [os.getpid()]
    while waiting:
        below = [pid for pid in children.get(waiting.pop(), ()) if pid not in spared]
        found += below
        waiting += below
    return found


def _parents() -> dict[int, int]:
    """Return the parent of every process, zombies too: their other threads may still run."""
    if not HAS_PROC:
        return {pid: int(parent) for pid, parent in _ps("ppid", "-A").items()}
    found: dict[int, int] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError, IndexError), open(f"/proc/{name}/stat", "rb") as stat:
            found[int(name)] = int(stat.read().rpartition(b")")[2].split()[1])
    return found


def is_ending(pid: int) -> bool:
    """Return whether all threads of a process are in their exit, from which none returns."""
    with suppress(OSError, IndexError, ValueError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/stat", "rb", buffering=0) as stat:
                flags = stat.read(_STAT_BYTES).rpartition(b")")[2].split()[6]  # type: ignore[union-attr]
            if not int(flags) & _PF_EXITING:
                return False
        return True
    return False


def started_by(pid: int) -> "list[int] | None":
    """Return the children of a process; None where the kernel doesn't tell them."""
    found: list[int] = []
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", "rb", buffering=0) as children:
                found += map(int, children.read().split())
        return found
    return None


def command_line(pid: int) -> str:
    """Return how a process was called, on one line; nothing if it has ended."""
    if not HAS_PROC:
        return _ps("command", "-p", str(pid)).get(pid, "")[:MAX_COMMAND_LINE]
    raw = b""
    with suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
        raw = file.read(2 * MAX_COMMAND_LINE)
    return " ".join(raw.replace(b"\0", b" ").decode(errors="replace").split())[:MAX_COMMAND_LINE]


def directory_of_process(pid: int, told: bytes) -> bytes:
    """Return where a process is: as it says itself, if the kernel agrees."""
    place = b"/proc/%d/cwd" % pid
    with suppress(OSError):
        if not os.path.samefile(place, told):
            return os.readlink(place)
    return told


def receive(link: "socket.socket") -> tuple[bytes, int | None]:
    """Return what one process wrote to a link, and its id where the kernel tells it."""
    import socket

    chunk, ancillary, _, _ = link.recvmsg(65_536, socket.CMSG_SPACE(12))
    for _, _, credentials in ancillary:
        return chunk, int.from_bytes(credentials[:4], sys.byteorder)
    return chunk, None


def _ps(column: str, *options: str) -> dict[int, str]:
    """Return what `ps` says of processes, by their ids; it leaves itself out."""
    import subprocess

    command = ["ps", "-ww", *options, "-o", "pid=", "-o", f"{column}="]
    with suppress(OSError), subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as ps:
        rows = [line.split(None, 1) for line in ps.communicate()[0].splitlines()]
        return {int(row[0]): row[-1] for row in rows if int(row[0]) != ps.pid}
    return {}


def call_oneself(name: str) -> None:
    """Show in lists of processes what this one is for; called by its first thread."""
    if sys.platform == "linux":
        libc().prctl(_PR_SET_NAME, f"outrider-{name}".encode(), 0, 0, 0)


def limit_nesting(depth: int, most: int) -> None:
    """Let what this process starts delegate down to a depth only, whatever becomes of it."""
    left = max(most - depth, 0)
    if sys.platform == "linux":  # elsewhere the number means another limit
        with suppress(ValueError, OSError):  # a lower one is set, or a sandbox forbids it
            resource.setrlimit(_RLIMIT_LOCKS, (left, left))


def levels_left() -> int | None:
    """Return how many levels of delegation the kernel says are left; None without such a limit."""
    if sys.platform != "linux":
        return None
    left = resource.getrlimit(_RLIMIT_LOCKS)[1]
    return None if left == resource.RLIM_INFINITY else left


def ancestor_names() -> list[str]:
    """Return how this process and those above it call themselves; only the kernel is believed.

    A command that a child runs stays below that child: its keeper adopts what loses its parent.
    """
    names: list[str] = []
    pid = os.getpid()
    with suppress(OSError, ValueError, IndexError):
        while HAS_PROC and pid > 0 and len(names) < MAX_ANCESTORS:
            with open(f"/proc/{pid}/stat", errors="replace") as stat:
                head, _, rest = stat.read().rpartition(")")
            names.append(head.partition("(")[2])
            pid = int(rest.split()[1])
    return names


def become_subreaper() -> None:
    """Adopt every process below this one that loses its parent."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def seal() -> None:
    """Let no process of this user look into this one or take its descriptors; root's still can."""
    _prctl(_PR_SET_DUMPABLE, 0)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        libc().prctl(option, value, 0, 0, 0)


@cache
def libc() -> "ctypes.CDLL":
    """Return the C library; the fork server loads it once, so that each fork has it already."""
    import ctypes

    return ctypes.CDLL(None, use_errno=True)
