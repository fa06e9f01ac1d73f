"""Processes that speak JSON lines, and what the kernel knows about processes."""

import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

MEGABYTE = 1_000_000


class Broken(Exception):
    """A process ended, did not answer in time, or gave a wrong answer."""


class Lines:
    """A process that answers each line with a line, and ends with the `with` block."""

    def __init__(
        self, command: Sequence[str], *, env: Mapping[str, str], cwd: Path, log: Path
    ) -> None:
        self._log = log
        self._rest = b""
        with log.open("wb") as errors:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=env,
                cwd=cwd,
                bufsize=0,
                start_new_session=True,
            )

    def __enter__(self) -> "Lines":
        return self

    def __exit__(self, *_: object) -> None:
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe:
                pipe.close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """End the process and what it started in its session."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def ask(self, order: object, timeout: float) -> dict[str, Any]:
        """Send an order and return its answer; raises `Broken` if there is none in time."""
        self.tell(order)
        return self.answer(timeout)

    def tell(self, order: object) -> None:
        """Send an order without waiting for its answer."""
        assert self.process.stdin
        data = memoryview(json.dumps(order).encode() + b"\n")
        try:
            while data:
                data = data[self.process.stdin.write(data) :]
        except BrokenPipeError:
            raise Broken(self._complaint("ended")) from None

    def has_answered(self, wait_seconds: float) -> bool:
        """Return whether an answer has begun to arrive, or does so within this time."""
        return bool(self._rest or select.select([self.process.stdout], [], [], wait_seconds)[0])

    def answer(self, timeout: float) -> dict[str, Any]:
        """Return the next line, decoded; raises `Broken` if there is none in time."""
        assert self.process.stdout
        deadline = time.monotonic() + timeout
        pieces = [self._rest]
        while b"\n" not in pieces[-1]:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
                self.kill()
                raise Broken(self._complaint(f"gave no answer within {timeout:.0f} s"))
            piece = self.process.stdout.read(1 << 20)
            if not piece:
                raise Broken(self._complaint("ended"))
            pieces.append(piece)
        line, _, self._rest = b"".join(pieces).partition(b"\n")
        return json.loads(line)

    def _complaint(self, what: str) -> str:
        lines = self._log.read_text(errors="replace").strip().splitlines()
        return f"{what}: {lines[-1][:300]}" if lines else what


def unique_bytes(pid: int) -> int:
    """Return a process's unique set size: what would be freed if it ended. 0 if it is gone."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    fields = dict(line.split(":", 1) for line in lines[1:])
    return sum(int(fields[name].split()[0]) * 1024 for name in ("Private_Clean", "Private_Dirty"))


def resident_bytes(pid: int) -> int:
    """Return how much memory of a process is in RAM, shared or not."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def processes_at_home(home: Path) -> set[int]:
    """Return the processes that were started with this HOME; every peer has its own."""
    wanted = f"HOME={home}".encode()
    found: set[int] = set()
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with suppress(OSError):
                if wanted in Path(entry.path, "environ").read_bytes().split(b"\0"):
                    found.add(int(entry.name))
    return found


def descendants(pid: int) -> set[int]:
    """Return a process and all below it, whatever environment they have."""
    below: dict[int, list[int]] = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with suppress(OSError):
                above = Path(entry.path, "stat").read_text().rpartition(")")[2].split()[1]
                below.setdefault(int(above), []).append(int(entry.name))
    found, left = set[int](), [pid]
    while left:
        found.add(one := left.pop())
        left += below.get(one, [])
    return found


def children_named(parent: int, name: str) -> set[int]:
    """Return the direct children of a process that have this name."""
    found: set[int] = set()
    for pid in Path(f"/proc/{parent}/task/{parent}/children").read_text().split():
        with suppress(OSError):
            if Path(f"/proc/{pid}/comm").read_text().strip() == name:
                found.add(int(pid))
    return found


def open_descriptors(pid: int) -> int:
    """Return how many descriptors a process holds."""
    return len(os.listdir(f"/proc/{pid}/fd"))


def available_bytes() -> int:
    """Return how much memory the machine has available."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))


def end(pids: set[int], *, wait_seconds: float = 5) -> None:
    """End processes with SIGTERM, and then those that are left with SIGKILL."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, sign)
        until = time.monotonic() + wait_seconds
        while any(_runs(pid) for pid in pids) and time.monotonic() < until:
            time.sleep(0.02)


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
