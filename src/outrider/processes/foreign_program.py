"""A foreign program: its output is taken in pieces, and it ends with the call that started it."""

import asyncio
import os
import selectors
import signal
import subprocess
import threading
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from outrider.processes.threads import raise_if_stopped
from outrider.protocol.envelope import ToolCode, ToolFault

MAX_STDERR_BYTES = 64 * 1024
_CHUNK_BYTES = 64 * 1024
_PIPE_BYTES = 1024 * 1024
_LOOK_AROUND_SECONDS = 0.1
MAX_IDLE_LOOKS = 100
"""How often in a row a thread of it may be seen to wait, without having run in between."""
IDLE = "the program waits for what never comes: is there a pipe or a device in place of a file?"


@dataclass(slots=True)
class ForeignProgram:
    """One running program: its output, and what it complained about."""

    process: subprocess.Popen[bytes]
    stop: threading.Event
    complaints: bytes = b""

    def chunks(self) -> Iterator[bytes]:
        """Yield the output as it comes, up to its end; raises when the call is given up."""
        with selectors.DefaultSelector() as selector:
            for stream in (self.process.stdout, self.process.stderr):
                assert stream is not None, "both were asked for as pipes"
                selector.register(stream, selectors.EVENT_READ)
            looks, waiting = 0, set[str]()
            while selector.get_map():
                raise_if_stopped(self.stop)
                ready = selector.select(_LOOK_AROUND_SECONDS)
                now = set[str]() if ready else self._waiting()
                looks, waiting = (looks + 1, waiting & now) if waiting & now else (0, now)
                if looks >= MAX_IDLE_LOOKS:
                    raise ToolFault(ToolCode.UPSTREAM_FAILED, IDLE)
                for key, _ in ready:
                    chunk = os.read(key.fd, _CHUNK_BYTES)
                    if not chunk:
                        selector.unregister(key.fileobj)
                    elif key.fileobj is self.process.stderr:
                        self.complaints = (self.complaints + chunk)[:MAX_STDERR_BYTES]
                    else:
                        yield chunk

    def _waiting(self) -> set[str]:
        """Return its threads that wait for others, and how long each has run so far.

        A thread that waits for a disk is in another state (`D`), however slow that is.
        """
        found = set[str]()
        with suppress(OSError):
            for task in Path(f"/proc/{self.process.pid}/task").iterdir():
                sleeps = ") S " in (task / "stat").read_text()
                if sleeps and not (task / "wchan").read_text().startswith(
                    ("0", "futex", "do_wait")
                ):
                    found.add(f"{task} {(task / 'schedstat').read_text()}")
        return found


@contextmanager
def run_program(
    command: Sequence[str],
    stop: threading.Event,
    *,
    env: Mapping[str, str],
    cwd: str | None = None,
    stdin: int | BinaryIO = subprocess.DEVNULL,
) -> Generator[ForeignProgram, None, None]:
    """Run a program, which is killed on leaving; raises `OSError`, and `ValueError` for a NUL."""
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, 0, stdin=stdin, stdout=pipe, stderr=pipe, cwd=cwd, env=env, pipesize=_PIPE_BYTES
    ) as process:
        try:
            yield ForeignProgram(process, stop)
        finally:
            process.kill()


async def end_process(process: asyncio.subprocess.Process) -> None:
    """Kill a process, if it still runs, and wait for its end."""
    # Not by `process.kill`, which may take the exit status away from asyncio.
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
    await process.wait()
