"""A host that copies the events of delegations into files, eight at once, and does nothing else.

It is the yardstick for the CPU time that a delegation costs the parent's own process: this much
goes to creating the same descriptors, waiting for them and moving the same bytes. For each line on
stdin it copies for a while and answers with the CPU seconds of its own process for one copy.

python -m benchmarks.copying             the host
python -m benchmarks.copying feed FD     its helper, which plays the children: it records the
                                         events of one real delegation and sends them on request
"""

import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

AT_ONCE = 8
CHUNK = 1 << 18
REPEATS = 3
"""How often eight copies are made for one answer: about as long as eight delegations take."""
PAUSE_SECONDS = 0.005
"""Between two events of one child: each is to arrive on its own, as a real child's do."""


class Copy:
    """One child's events on their way into a file."""

    def __init__(self, helper: socket.socket, file: Path) -> None:
        self._helper = helper
        self._file = file
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._open: set[int] = set()

    async def run(self) -> int:
        """Hand the child its ends, copy what it sends until it ends, and return the bytes."""
        # A lifeline, events, stderr and status, as a delegation has them.
        links = [_socket_pair(), _socket_pair(), os.pipe(), _socket_pair()]
        lifeline, *ours = (mine for mine, _ in links)
        socket.send_fds(self._helper, [b"start"], [theirs for _, theirs in links])
        for _, theirs in links:
            os.close(theirs)
        with self._file.open("wb", buffering=0) as file:
            for descriptor in ours:
                os.set_blocking(descriptor, False)
                self._open.add(descriptor)
                sink = file.write if descriptor == ours[0] else len
                self._loop.add_reader(descriptor, self._move, descriptor, sink)
            await self._ended
            size = file.tell()
        os.close(lifeline)
        return size

    def _move(self, descriptor: int, sink: Callable[[bytes], object]) -> None:
        if data := os.read(descriptor, CHUNK):
            sink(data)
            return
        self._loop.remove_reader(descriptor)
        os.close(descriptor)
        self._open.remove(descriptor)
        if not self._open:
            self._ended.set_result(None)


def _socket_pair() -> tuple[int, int]:
    ours, theirs = socket.socketpair()
    return ours.detach(), theirs.detach()


async def copied(helper: socket.socket, folder: Path, expected: int) -> float:
    """Return the CPU seconds of this process for one copy."""
    start = time.process_time()
    for _ in range(REPEATS):
        copies = (Copy(helper, folder / f"{number}.jsonl") for number in range(AT_ONCE))
        sizes = await asyncio.gather(*(copy.run() for copy in copies))
        assert sizes == [expected] * AT_ONCE, sizes
    return (time.process_time() - start) / AT_ONCE / REPEATS


async def serve(helper: socket.socket, folder: Path) -> None:
    """Copy whenever a line on stdin asks for it."""
    told = json.loads(helper.recv(1_000))
    print(json.dumps(told), flush=True)
    while await asyncio.to_thread(sys.stdin.readline):
        seconds = await copied(helper, folder, told["bytes"])
        print(json.dumps({"cpu_s": seconds}), flush=True)


def host() -> None:
    """Start the helper, and serve as long as stdin is open."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [sys.executable, "-m", "benchmarks.copying", "feed", str(theirs.fileno())]
    helper = subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
    theirs.close()
    with ours, tempfile.TemporaryDirectory() as name:
        asyncio.run(serve(ours, Path(name)))
    helper.wait()


async def recorded_events() -> list[bytes]:
    """Return the lines that the child of one real delegation sent to its parent."""
    from benchmarks.arena import new_task
    from benchmarks.peers.outrider import Library

    seen: list[bytes] = []
    read = os.read

    def noting(descriptor: int, size: int) -> bytes:
        data = read(descriptor, size)
        seen.append(data)
        return data

    os.read = noting
    try:
        await Library("cold").delegate(new_task().text)
    finally:
        os.read = read
    lines = b"".join(data for data in seen if data.startswith(b"{")).splitlines(keepends=True)
    types = [json.loads(line)["type"] for line in lines]
    # All of them, or the comparison would be with something else.
    assert types[:1] == ["session"], types
    assert types[-1:] == ["task_finish"], types
    return lines


async def feed(host: socket.socket) -> None:
    """Send one delegation's events over each set of descriptors that the host hands over."""
    lines = await recorded_events()
    told = {"at_once": AT_ONCE, "events": len(lines), "bytes": sum(map(len, lines))}
    host.send(json.dumps(told).encode())
    host.setblocking(False)
    ended, children = asyncio.Event(), set[asyncio.Task[None]]()

    def accept() -> None:
        message, descriptors, _, _ = socket.recv_fds(host, 16, 4)
        if not message:
            ended.set()
            return
        child = asyncio.ensure_future(send(lines, descriptors))
        children.add(child)
        child.add_done_callback(children.discard)

    asyncio.get_running_loop().add_reader(host, accept)
    await ended.wait()


async def send(lines: Sequence[bytes], descriptors: Sequence[int]) -> None:
    """Play one child: report a start, send each event, and end."""
    _, events, _, status = descriptors
    os.write(status, b"pid 1\n")
    for line in lines:
        await asyncio.sleep(PAUSE_SECONDS)
        os.write(events, line)
    for descriptor in descriptors:
        os.close(descriptor)


def main() -> None:
    """Be the host, or its helper."""
    match sys.argv[1:]:
        case ["feed", descriptor]:
            os.chdir(os.environ["BENCH_PROJECT"])
            asyncio.run(feed(socket.socket(fileno=int(descriptor))))
        case _:
            host()


if __name__ == "__main__":
    main()
