"""JSON-RPC with a language server over its standard streams.

A server is a foreign program. What it sends may be too large, no JSON, or never come: each of these
fails the requests that wait, within their time, and takes no more memory than the limits allow.
"""

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, cast

from outrider.processes.cell_start import Cells
from outrider.protocol.envelope import ToolCode, ToolFault
from outrider.protocol.jsonl import decode, encode
from outrider.protocol.quoting import cleaned

MAX_MESSAGE_BYTES = 16 << 20
MAX_UNSENT_BYTES = 64 << 20  # to a server that doesn't read
MAX_STDERR_BYTES = 4_096  # the last ones are kept
MAX_SHOWN_CHARACTERS = 400
MAX_TRIES = 4
EXIT_SECONDS = 0.5  # to end by itself, and to answer that it will
_CHUNK_BYTES = 1 << 16
_ASK_AGAIN = (-32801, -32802)  # modified meanwhile, or cancelled: it may succeed now
# What comes of messages that are not of the shape that the protocol says.
ANY_SHAPE = (LookupError, TypeError, ValueError, AttributeError)


def plain(text: object, most: int) -> str:
    """Return a server's words without control characters, cut to so many characters."""
    words = cleaned(text) if isinstance(text, str) else ""
    return words if len(words) <= most else f"{words[:most]}… [cut]"


class LspConnection:
    """One run of a server: its requests and answers, and its end."""

    _process: asyncio.subprocess.Process | None = None
    _in: asyncio.StreamWriter
    _reading: asyncio.Task[None]

    def __init__(self, name: str) -> None:
        self.fault: ToolFault | None = None  # why it takes no more requests
        self._name = name
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._count = self._heard = self._late = 0
        self._complaints = b""

    def answer(self, method: str, params: Any) -> Any:
        """Return the answer to a request of the server's; raises `LookupError` for others."""
        raise LookupError(method)

    def listen(self, method: str, params: Any) -> None:
        """Take in what the server tells unasked."""

    async def launch(
        self, command: Sequence[str], cwd: str, env: Mapping[str, str], cells: Cells | None
    ) -> None:
        """Start the server as the leader of a group, in a cell of these; raises `OSError`."""
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), asyncio.subprocess.PIPE)
        start = cells.start if cells else asyncio.create_subprocess_exec
        process = await start(*command, **pipes, cwd=cwd, env=env, start_new_session=True)
        self._process, self._in = process, cast("asyncio.StreamWriter", process.stdin)
        self._reading = asyncio.create_task(self._read(process))

    async def request(self, method: str, params: Any, seconds: float) -> Any:
        """Return the server's result; raises `ToolFault`. One given up is cancelled there too."""
        error: dict[str, Any] = {}
        for attempt in range(MAX_TRIES):
            await asyncio.sleep(0.1 * attempt)
            message = await self._exchange(method, params, seconds)
            if not isinstance(message.get("error"), dict):
                return message.get("result")
            error = message["error"]
            if error.get("code") not in _ASK_AGAIN:
                break
        words, *_ = plain(error.get("message"), MAX_SHOWN_CHARACTERS).split("\n ")  # and a stack
        raise self.failed(f"refused {method}: {words}")

    async def _exchange(self, method: str, params: Any, seconds: float) -> dict[str, Any]:
        if self.fault is not None:
            raise self.fault
        self._count += 1
        number, heard = self._count, self._heard
        waiting = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(seconds):
                self._send({"id": number, "method": method, "params": params})
                with suppress(OSError):  # it has ended, and the reader finds out why
                    await self._in.drain()
                answer = await waiting
                self._late = 0
                return answer
        except TimeoutError:
            fault = self.failed(f"didn't answer {method} in {seconds:g} s", ToolCode.TIMEOUT)
            self._late += 1
            if self._heard == heard or self._late > 1:  # it hangs, and is replaced
                self.end(fault)
            raise fault from None
        finally:
            if self._waiting.pop(number, None) is not None:
                self.notify("$/cancelRequest", {"id": number})

    def notify(self, method: str, params: Any) -> None:
        """Tell the server something that it doesn't answer."""
        self._send({"method": method, "params": params})

    async def aclose(self) -> None:
        """Let the server end, and end it and all that it started."""
        try:
            if self._process is not None:
                with suppress(ToolFault):
                    await self._exchange("shutdown", None, EXIT_SECONDS)
                    self.notify("exit", None)
                    await asyncio.wait({self._reading}, timeout=EXIT_SECONDS)
        finally:
            self.end(self.failed("was ended"))
        if self._process is not None:
            await asyncio.wait({self._reading})

    def _send(self, message: dict[str, Any]) -> None:
        if self.fault is not None or self._in.is_closing():
            return
        if message.get("params", {}) is None:
            del message["params"]
        body = encode({"jsonrpc": "2.0", **message})
        self._in.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        if self._in.transport.get_write_buffer_size() > MAX_UNSENT_BYTES:
            self.end(self.failed("doesn't read what it is sent"))

    def failed(self, how: str, code: ToolCode = ToolCode.UPSTREAM_FAILED) -> ToolFault:
        return ToolFault(code, f"{self._name} {how}")

    def end(self, fault: ToolFault) -> None:
        """Kill the server and what it started, and fail what waits for an answer."""
        if self.fault is not None:  # its process id may be another's by now
            return
        self.fault = fault
        if self._process is not None:
            # Not by `process.kill`, which may take the exit status away from asyncio.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._in.close()
        self._fail(fault)

    def _fail(self, fault: ToolFault) -> None:
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(fault)

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        """Take in messages until there are no more."""
        out = cast("asyncio.StreamReader", process.stdout)
        complaining = asyncio.create_task(self._keep_complaints(process.stderr))
        with suppress(EOFError, OSError):
            try:
                while True:
                    self._take(await self._message(out))
            except (ValueError, RecursionError):
                self.end(self.failed("answered with something that is not the protocol's JSON"))
        await asyncio.wait({asyncio.create_task(process.wait())}, timeout=2 * EXIT_SECONDS)
        await asyncio.wait({complaining}, timeout=EXIT_SECONDS)
        complaining.cancel()
        words = " ".join(plain(self._complaints.decode(errors="replace"), 1 << 20).split())
        said = f"{process.returncode}; it said: …{words[-MAX_SHOWN_CHARACTERS:]}"
        self.end(self.failed(f"ended with exit code {said}"))

    async def _message(self, out: asyncio.StreamReader) -> Any:
        """Return the next message; a ValueError says that it isn't one."""
        length = -1
        while (line := await out.readline()) != b"\r\n":
            name, _, value = line.partition(b":")
            if not line.endswith(b"\n"):
                raise EOFError
            length = int(value) if name.lower() == b"content-length" or not value else length
        if 0 <= length <= MAX_MESSAGE_BYTES:
            return decode(await out.readexactly(length))
        for left in range(length, 0, -_CHUNK_BYTES):
            await out.readexactly(min(left, _CHUNK_BYTES))
        # Which request it answers can't be told.
        how = f"answered with {length:,} bytes; at most {MAX_MESSAGE_BYTES:,} are taken"
        self._fail(self.failed(f"{how}: ask for less", ToolCode.TOO_LARGE))
        return {} if length > 0 else decode(b"")

    def _take(self, message: Any) -> None:
        if not isinstance(message, dict):
            raise ValueError("a message that is no object")
        told = cast("dict[str, Any]", message)
        self._heard += 1
        method, number = told.get("method"), told.get("id")
        if not isinstance(method, str):
            waiting = self._waiting.pop(number, None) if isinstance(number, int) else None
            if waiting is not None and not waiting.done():
                waiting.set_result(told)
        elif number is None:
            with suppress(*ANY_SHAPE):
                self.listen(method, told.get("params"))
        else:
            try:
                self._send({"id": number, "result": self.answer(method, told.get("params"))})
            except ANY_SHAPE:
                self._send({"id": number, "error": {"code": -32601, "message": "not offered"}})

    async def _keep_complaints(self, stderr: asyncio.StreamReader | None) -> None:
        with suppress(OSError):
            while stderr and (chunk := await stderr.read(_CHUNK_BYTES)):
                self._complaints = (self._complaints + chunk)[-MAX_STDERR_BYTES:]
