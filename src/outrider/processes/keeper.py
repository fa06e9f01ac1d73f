"""Nothing a shell started outlives the process that wanted the shell.

A keeper is a small process between the two. It starts the shell, and another one when that ends.
It adopts what loses its parent below it, and when its lifeline to the process above breaks, it
kills everything below. Its links are sockets, which commands can't open through `/proc`.

From above come single bytes: `RUN` the command, `STOP` it. The keeper answers each `RUN` once,
when its command has ended and the shell is ready for the next one; it also answers the start. The
shell gets a line for each command, a number that can't be guessed, and sends records that end in
NUL: `  CWD` when it is ready, `NUMBER STATUS CWD` after each command. A record counts only if the
kernel says that the shell itself wrote it, so what a command leaves running can't answer for the
next one. Where the shell is, the kernel says too.
"""

import fcntl
import os
import select
import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress

from outrider.processes import cell, reaping

RUN = b"r"
STOP = b"s"
ANSWER_FIELDS = 6
"""Each ends in NUL: exit code, whether the shell was restarted, whether the network was tried in
vain, cwd, a line for each process that runs on, and one for each thing that its cell lacks."""
MAX_RECORD_BYTES = 1024 * 1024


class Keeper:
    """Runs commands in a shell, and ends everything below this process."""

    def __init__(
        self, lifeline: socket.socket, output: int, command: list[str], lacks: Sequence[str] = ()
    ) -> None:
        self._lifeline = lifeline
        self._output = output
        self._command = command
        self._watch = reaping.Watch()
        self._shell = 0
        self._control = socket.socket()  # a new one for each shell
        self._unread = b""
        self._ready = False
        self._state = "ended"  # of the command: "none", "waiting", "running" or "ended"
        self._number = b""
        self._exit_code = 0
        self._restarted = False
        self._cwd = b""
        self._lacks = "\n".join(lacks).encode(errors="replace")
        self._attempts = cell.network_attempts()
        self._older: set[int] = set()

    def serve(self) -> None:
        """Run commands until the lifeline breaks; then leave no process behind."""
        self._watch.hold(self._lifeline.fileno(), select.POLLIN)
        with suppress(OSError, ValueError):  # ValueError: a command wrote to the shell's link
            holds = True
            while holds:
                if self._shell == 0:
                    self._start()
                _, ready = self._watch.wait()
                if self._control.fileno() in ready:
                    self._hear()
                reaping.reap(self._on_end)
                holds = self._lifeline.fileno() not in ready or self._obey()
                self._advance()
        reaping.sweep(self._on_end)

    def _start(self) -> None:
        # Nothing that is left in the old link may reach the new shell.
        self._watch.let_go(self._control.fileno())
        self._control.close()
        self._unread = self._number = b""
        self._control, theirs = socket.socketpair()
        if sys.platform == "linux":  # the kernel tells who wrote what is received
            self._control.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self._watch.hold(self._control.fileno(), select.POLLIN)
        with theirs:
            self._shell = reaping.fork(lambda: self._become_shell(theirs.fileno()), self._watch)

    def _become_shell(self, control: int) -> None:
        """Turn this process into the shell, which finds its descriptors as 3 and 4."""
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        # Copied out of the way first, so that none is overwritten before it is used.
        high = [fcntl.fcntl(one, fcntl.F_DUPFD_CLOEXEC, 10) for one in (control, self._output)]
        for number, descriptor in enumerate(high, start=3):
            os.dup2(descriptor, number, inheritable=True)
        os.execv(self._command[0], self._command)  # noqa: S606  # the command is a shell

    def _hear(self) -> None:
        """Take in what the shell says."""
        chunk, writer = reaping.receive(self._control)
        if not chunk:  # it has ended, or became another program with `exec`
            self._watch.let_go(self._control.fileno())
        if writer not in (None, self._shell):
            return
        *records, self._unread = (self._unread + chunk).split(b"\0")
        if len(self._unread) > MAX_RECORD_BYTES:
            raise ValueError("a record without an end")
        for record in records:
            number, status, cwd = record.split(b" ", 2)
            if number == self._number:
                self._ready, self._cwd = True, cwd
                if status and self._state == "running":
                    self._state, self._exit_code = "ended", int(status)

    def _on_end(self, pid: int, status: int) -> None:
        if pid == self._shell:
            self._shell, self._ready, self._restarted = 0, False, True
            if self._state == "running":
                code = os.waitstatus_to_exitcode(status)
                self._state, self._exit_code = "ended", code if code >= 0 else 128 - code

    def _obey(self) -> bool:
        """Do what is asked for; return whether the lifeline still holds."""
        orders = self._lifeline.recv(64)
        if RUN in orders:
            self._state = "waiting"
        if STOP in orders and self._state == "waiting":
            self._state = "ended"
        elif STOP in orders and self._state == "running":
            reaping.sweep(self._on_end, self._older)  # what was there before this command stays
        return bool(orders)

    def _advance(self) -> None:
        """Begin a command that waits for the shell, or answer for one that has ended."""
        if not self._ready or self._state not in ("waiting", "ended"):
            return
        others = [pid for pid in reaping.descendants() if pid != self._shell]
        if self._state == "ended":
            self._answer(others)
        else:
            self._state, self._older = "running", set(others)
            self._attempts = cell.network_attempts()
            self._ready, self._number = False, os.urandom(8).hex().encode()
            with suppress(OSError):  # the shell has just ended
                self._control.send(self._number + b"\n")

    def _answer(self, others: list[int]) -> None:
        lines = [f"{pid} {line}" for pid in others if (line := reaping.command_line(pid))]
        listed = "\n".join(lines).encode(errors="replace")
        flags = (self._restarted, cell.network_attempts() > self._attempts)
        cwd = reaping.directory_of_process(self._shell, self._cwd)
        said = (b"yes" if flag else b"" for flag in flags)
        fields = (b"%d" % self._exit_code, *said, cwd, listed, self._lacks)
        self._state, self._restarted = "none", False
        self._lifeline.sendall(b"".join(field + b"\0" for field in fields))


def main() -> None:
    """Keep the shell of `LIFELINE OUTPUT CELL… FOLDER COMMAND…`; remove the folder at the end."""
    lifeline, output = map(int, sys.argv[1:3])
    for descriptor in (lifeline, output):
        os.set_inheritable(descriptor, False)
    lacks, (folder, *command) = cell.enter_described(sys.argv[3:])
    reaping.become_subreaper()
    Keeper(socket.socket(fileno=lifeline), output, command, lacks).serve()
    with suppress(OSError):
        for name in os.listdir(folder):
            os.unlink(os.path.join(folder, name))
        os.rmdir(folder)
