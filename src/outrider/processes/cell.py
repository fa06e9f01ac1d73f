"""A cell: what a child starts reaches no process, network or socket but its own.

`enter_cell` puts this process into namespaces of its own for processes, network and IPC, with a
`/proc` that shows only what is in there. Landlock keeps it from writing anywhere but beneath a few
folders, and a filter from system calls that nobody in there needs. The walls of the child hold
too, for all that is below it.

`main` runs a program in a cell, called with `TELL NETWORK COUNT FOLDER… PROGRAM…`. It writes a line
for each thing that the kernel didn't grant to the descriptor `TELL`, and `!` with the number of the
error where the program can't be run.
"""

import fcntl
import os
import signal
import struct
import sys
from _socket import AF_INET, SOCK_DGRAM, socket
from collections.abc import Callable, Iterator, Sequence

from outrider.processes import kernel, landlock, reaping, seccomp

TYPE_CHECKING = False  # typing's own would cost a keeper milliseconds
if TYPE_CHECKING:
    from typing import NoReturn

NO_NETWORK = "none"
_TERMINALS = ("/dev/ptmx", "/dev/pts")
_EMPTY_BELOW_PROC = {"/proc", "/proc/sys/fs/binfmt_misc"}
"""Where something may be mounted for `/proc` to be mounted anew."""
_KEPT_CAPABILITIES = sum(1 << number for number in (0, 1, 3, 4, 5, 6, 7))
"""What root's programs need to work on files and to become other users; of no use outside."""
_UNREACHED = ("OutNoRoutes", "NoPorts")
"""What the kernel counts of packets that had no way, and of questions to a name server here."""
_SET_FLAGS, _UP_AND_RUNNING = 0x8914, 0x41
_PR_SET_PDEATHSIG = 1


def enter_cell(network: str, writable: Sequence[str]) -> tuple[str, ...]:
    """Go on in a fork that is in a cell, and return what the kernel didn't grant.

    This process waits for the fork and ends as that does.
    """
    if not kernel.IS_LINUX:
        return (kernel.NO_LINUX,)
    missing = [*_leave_namespaces(network)]
    reaping.call_oneself("cell")
    if pid := os.fork():
        os.closerange(0, os.sysconf("SC_OPEN_MAX"))  # nobody waits for this process to let go
        os._exit(_exit_code(pid))
    end_with_parent()
    # Whoever delegates in here, without a word about where it is, still finds a child above.
    reaping.call_oneself("child")
    return (*missing, *_shut(writable))


def end_with_parent(number: int = signal.SIGKILL) -> None:
    """Have the kernel end this process when the thread ends that started it."""
    if kernel.IS_LINUX:
        reaping.libc().prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)


def _end_all_with_parent() -> None:
    """End with the parent, and before that everything below: a cell may lack its namespaces."""

    own = os.getpid()

    def end(*_: object) -> None:
        if os.getpid() == own:  # not in the fork that is the first process of a cell
            reaping.sweep(lambda pid, status: None)
            os._exit(128 + signal.SIGTERM)

    reaping.become_subreaper()
    signal.signal(signal.SIGTERM, end)
    end_with_parent(signal.SIGTERM)


def _leave_namespaces(network: str) -> Iterator[str]:
    wanted = {"mounts": kernel.NEWNS, "IPC": kernel.NEWIPC, "processes": kernel.NEWPID}
    if not {path for path, _ in kernel.mounts() if _is_proc(path)} <= _EMPTY_BELOW_PROC:
        del wanted["processes"]
        yield "namespace of processes: parts of /proc are hidden here"
    try:
        _gain_rights()
    except OSError as error:
        yield f"namespaces: {error.strerror}"
        return
    for name, kind in wanted.items():
        yield from _tried(f"namespace of {name}", lambda kind=kind: kernel.unshare(kind))
    if network == NO_NETWORK:
        yield from _tried("namespace of the network", _leave_network)


def _is_proc(path: str) -> bool:
    return path == "/proc" or path.startswith("/proc/")


def _gain_rights() -> None:
    """Have the right to leave namespaces, which root has unless it is in a container."""
    if os.geteuid() or reaping.libc().unshare(kernel.NEWNS):
        kernel.enter_user_namespace(0)


def _shut(writable: Sequence[str]) -> Iterator[str]:
    """Shut the cell from inside, and yield what couldn't be done."""
    if os.getpid() == 1:
        yield from _tried("/proc", _mount_proc)
        yield from _tried("/dev/pts", _mount_terminals)
    used = (*kernel.DEVICES, *_TERMINALS)
    yield from _tried("landlock", lambda: landlock.restrict_writing(writable, used))
    yield from _tried("rights", _drop_rights)
    yield from _tried("seccomp", seccomp.restrict)


def _tried(what: str, work: Callable[[], None]) -> Iterator[str]:
    try:
        work()
    except OSError as error:
        yield f"{what}: {error.strerror or error}"


def _mount_proc() -> None:
    flags = kernel.NOSUID | kernel.NODEV | kernel.NOEXEC | kernel.RDONLY
    kernel.mount("proc", "/proc", "proc", flags)


def _mount_terminals() -> None:
    flags, options = kernel.NOSUID | kernel.NOEXEC, "newinstance,ptmxmode=0666,mode=0620"
    kernel.mount("devpts", "/dev/pts", "devpts", flags, options)
    kernel.mount("/dev/pts/ptmx", "/dev/ptmx", flags=kernel.BIND)


def _leave_network() -> None:
    """Have a network of this cell's own, with nothing in it but loopback."""
    kernel.unshare(kernel.NEWNET)
    link = socket(AF_INET, SOCK_DGRAM)
    fcntl.ioctl(link.fileno(), _SET_FLAGS, struct.pack("16sH14x", b"lo", _UP_AND_RUNNING))
    link.close()


def _drop_rights() -> None:
    kernel.gain_nothing()
    kernel.limit_capabilities(0 if os.geteuid() else _KEPT_CAPABILITIES)


def network_attempts() -> int:
    """Return how often something in this cell tried to reach the network, as the kernel counts."""
    try:
        with open("/proc/net/snmp") as old, open("/proc/net/snmp6") as new:
            rows, pairs = [line.split() for line in old], [line.split() for line in new]
    except OSError:  # a kernel without IPv6, or without a network
        return 0
    for names, values in zip(rows[::2], rows[1::2], strict=True):
        pairs += map(list, zip(names, values, strict=True))
    return sum(int(value) for name, value in pairs if name.endswith(_UNREACHED))


def _exit_code(pid: int) -> int:
    """Return how a process ended, once it has; others that end meanwhile don't count."""
    ended = status = 0
    while ended != pid:
        ended, status = os.wait()
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def enter_described(arguments: Sequence[str]) -> tuple[tuple[str, ...], list[str]]:
    """Enter the cell that arguments describe, as `Cells.arguments` writes them, or none.

    Returns what the kernel didn't grant, and the arguments behind.
    """
    network, count, *rest = arguments
    writable, behind = rest[: int(count)], rest[int(count) :]
    return enter_cell(network, writable) if network else (), behind


def main() -> "NoReturn":
    """Run a program in a cell, and end as it ends, or when the process above ends."""
    _end_all_with_parent()
    tell = int(sys.argv[1])
    os.set_inheritable(tell, False)
    missing, program = enter_described(sys.argv[2:])
    os.write(tell, "".join(f"{one}\n" for one in missing).encode(errors="replace"))
    run_below(program, lambda error: os.write(tell, b"!%d\n" % (error.errno or 0)))


def run_below(program: list[str], on_error: Callable[[OSError], object] = print) -> "NoReturn":
    """Run a program, and end as it ends.

    Not in this process: the kernel spares the first one of a namespace many signals.
    """
    if pid := os.fork():
        os.closerange(0, os.sysconf("SC_OPEN_MAX"))
        os._exit(_exit_code(pid))
    end_with_parent()
    try:
        os.execv(program[0], program)  # noqa: S606  # it is what was asked for
    except OSError as error:
        on_error(error)
    os._exit(127)
