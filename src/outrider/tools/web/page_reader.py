"""Pages are parsed in processes of their own, which hold nothing and can be killed.

A page can be made so that parsing it takes hours (an element with a million attributes) or all
memory. The processes have limits for both; they live from page to page, as their start is slow.
"""

import asyncio
import contextlib
import resource
import sys
import time
from typing import Any

from outrider.processes.cell_start import Cells
from outrider.processes.foreign_program import end_process
from outrider.protocol.envelope import ToolCode, ToolFault
from outrider.protocol.jsonl import decode, encode

MAX_READERS = 2
MAX_CPU_SECONDS = 5
READ_SECONDS = 40.0  # how long to wait for so much work, on a machine that is busy
MAX_MEMORY_BYTES = 1 << 30
MAX_ANSWER_BYTES = 64 << 20
_MAIN = f"import sys; sys.path[:] = sys.argv[1:]; from {__name__} import main; main()"


class PageReader:
    """Reads pages, in processes that are started when they are first needed."""

    def __init__(self, cells: Cells | None = None) -> None:
        self._cells = (cells or Cells()).reading()
        self._idle: list[asyncio.subprocess.Process] = []
        self._turns = asyncio.Semaphore(MAX_READERS)

    async def read(self, source: str, url: str) -> dict[str, str]:
        """Return the text, title and note of a page; raises `ToolFault`."""
        job = {"source": source, "url": url, "seconds": MAX_CPU_SECONDS}
        with contextlib.suppress(TimeoutError, OSError, ValueError, EOFError):
            return await self._answer(encode(job))
        raise ToolFault(ToolCode.TOO_LARGE, "The page takes too much time or memory to read")

    async def _answer(self, job: bytes) -> dict[str, str]:
        async with self._turns:
            process = self._take_idle() or await self._start()
            assert process.stdin is not None, "asked for as a pipe"
            assert process.stdout is not None, "asked for as a pipe"
            try:
                async with asyncio.timeout(READ_SECONDS):
                    process.stdin.write(job + b"\n")
                    await process.stdin.drain()
                    line = await process.stdout.readline()
                if not line.endswith(b"\n"):
                    raise EOFError
            except BaseException:  # nobody knows what it would answer next
                await end_process(process)
                raise
            self._idle.append(process)
        return decode(line)

    def _take_idle(self) -> asyncio.subprocess.Process | None:
        """Return a process that waits for a page; one that was killed meanwhile doesn't."""
        while self._idle:
            process = self._idle.pop()
            if process.stdout is not None and not process.stdout.at_eof():
                return process
        return None

    async def _start(self) -> asyncio.subprocess.Process:
        command = (sys.executable, "-I", "-c", _MAIN, *filter(None, sys.path))
        pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout"), asyncio.subprocess.PIPE)
        pipes["stderr"] = asyncio.subprocess.DEVNULL
        return await self._cells.start(*command, **pipes, cwd="/", env={}, limit=MAX_ANSWER_BYTES)

    async def aclose(self) -> None:
        while self._idle:
            await end_process(self._idle.pop())


def main() -> None:
    """Answer one job a line, until there are no more."""
    from outrider.processes.reaping import call_oneself
    from outrider.tools.web.main_text import main_text

    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    sys.setrecursionlimit(5_000)
    call_oneself("pages")
    for line in sys.stdin.buffer:
        job: dict[str, Any] = decode(line)
        # The kernel ends a process that is over its limit, whatever it is doing.
        seconds = int(time.process_time()) + 1 + job["seconds"]
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, resource.RLIM_INFINITY))
        sys.stdout.buffer.write(encode(main_text(job["source"], job["url"])) + b"\n")
        sys.stdout.buffer.flush()
