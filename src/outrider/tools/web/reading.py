"""Pages and feeds are parsed in a process of their own, which holds nothing and can be killed.

A page can be made so that parsing it takes hours (an element with a million attributes) or all
memory. The process has limits for both; it lives from page to page, as its start is slow.
"""

import asyncio
import contextlib
import resource
import sys
from typing import Any

from outrider.protocol.envelope import ToolCode, ToolFault
from outrider.protocol.jsonl import decode, encode

READ_SECONDS = 10.0
"""How long one page may take; then its text is taken without judging which of it matters."""
MAX_MEMORY_BYTES = 1 << 30
MAX_CPU_SECONDS = 600
MAX_ANSWER_BYTES = 64 << 20
_MAIN = (
    "import sys; sys.path[:] = sys.argv[1:]; from outrider.tools.web.reading import main; main()"
)


class PageReader:
    """Reads one page after the other, in a process that is started when it is first needed."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None
        self._turn = asyncio.Lock()

    async def read(self, kind: str, source: str, url: str) -> dict[str, str]:
        """Return the text, title and note of a page or feed; raises `ToolFault`."""
        job = {"kind": kind, "source": source, "url": url}
        async with self._turn:
            for whole in (False, True):
                with contextlib.suppress(TimeoutError, OSError, ValueError, EOFError):
                    return await self._answer(encode({**job, "whole": whole}))
        message = "The page can't be read within the limits of time and memory"
        raise ToolFault(ToolCode.TOO_LARGE, message)

    async def _answer(self, job: bytes) -> dict[str, str]:
        process = await self._running()
        assert process.stdin is not None, "asked for as a pipe"
        assert process.stdout is not None, "asked for as a pipe"
        try:
            async with asyncio.timeout(READ_SECONDS):
                process.stdin.write(job + b"\n")
                await process.stdin.drain()
                line = await process.stdout.readline()
            if not line.endswith(b"\n"):
                raise EOFError
            return decode(line)
        except BaseException:  # nobody knows what it would answer next
            await self.aclose()
            raise

    async def _running(self) -> asyncio.subprocess.Process:
        if self._process is None:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                *("-I", "-c", _MAIN, *filter(None, sys.path)),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                cwd="/",
                env={},
                limit=MAX_ANSWER_BYTES,
            )
        return self._process

    async def aclose(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()


def main() -> None:
    """Answer one job a line, until there are no more."""
    from outrider.processes.reaping import call_oneself

    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (MAX_CPU_SECONDS, MAX_CPU_SECONDS))
    sys.setrecursionlimit(5_000)
    call_oneself("pages")
    for line in sys.stdin.buffer:
        sys.stdout.buffer.write(encode(_done(decode(line))) + b"\n")
        sys.stdout.buffer.flush()


def _done(job: dict[str, Any]) -> dict[str, str]:
    if job["kind"] == "feed":
        from outrider.tools.web.feeds import feed_text

        return feed_text(job["source"], job["url"])
    from outrider.tools.web.main_text import main_text

    return main_text(job["source"], job["url"], whole=job["whole"])
