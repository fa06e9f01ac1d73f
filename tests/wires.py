"""One script of raw HTTP responses, replayed through both wires, and what each made of it."""

import asyncio
import json
import os
import re
import tempfile
import time
import warnings
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, fields, replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

from outrider.child.main import run_task
from outrider.models.building import build_model
from outrider.models.failures import ModelUnavailable
from outrider.protocol.brief import Brief, BudgetLimits, MainTurn
from outrider.protocol.budget import Budget
from outrider.protocol.events import (
    Event,
    MessageEndEvent,
    MessageUpdateEvent,
    RetryEvent,
    TaskFinishEvent,
)
from outrider.protocol.usage import Usage
from wire_differences import has_tripped, reason_for

WIRES = ("sdk", "auto")
MODEL = "gpt-4o"
KEY = "sk-of-a-test"
COMPARED_HEADERS = (
    "authorization", "openai-organization", "openai-project", "content-type", "accept", "host",
)  # fmt: skip
CRASHED = "The child failed"
MAX_TURNS = 4
FILES = 9
"""So many that a listing of them is worth dropping from a full window."""
_MAX_SECONDS = 60
_pause = asyncio.sleep


@dataclass(frozen=True)
class Raw:
    """One HTTP response as bytes; `HERE` and `OTHER` in a header stand for the two servers."""

    body: bytes = b""
    status: int = 200
    kind: str | None = "text/event-stream"
    headers: tuple[tuple[str, str], ...] = ()
    framing: str = "chunked"
    """How the body's end is known: `chunked`, `length`, or `close` of the connection."""
    at: tuple[int, ...] = ()
    """The places in the body at which what came before is sent by itself."""
    cut: int | None = None
    """How many bytes of head and body are sent before the connection is closed; None for all."""
    promised: int = 0
    """How many bytes more than there are the length promises."""
    reset: bool = False
    first: bytes = b""
    """What is sent before the head, such as another head."""
    version: str = "1.1"

    def pieces(self, names: Mapping[str, str] = {}) -> list[bytes]:
        """Return what is written to the socket, one piece after the other."""
        bounds = (0, *self.at, len(self.body))
        parts = [self.body[a:b] for a, b in pairwise(bounds) if a < b]
        if self.framing == "chunked":
            parts = [b"%x\r\n%b\r\n" % (len(one), one) for one in parts] + [b"0\r\n\r\n"]
        pieces = [self.first + self._head(names), *parts]
        if not self.at:
            pieces = [b"".join(pieces)]
        if self.cut is None:
            return pieces
        return [b"".join(pieces)[: self.cut]]

    @property
    def hangs_up(self) -> bool:
        """Whether the connection is closed after this."""
        return self.cut is not None or self.framing == "close" or self.promised > 0

    @property
    def head_size(self) -> int:
        """How many bytes come before the body."""
        return len(self._head({}))

    def _head(self, names: Mapping[str, str]) -> bytes:
        lines = [f"HTTP/{self.version} {self.status} Scripted"]
        lines += [f"Content-Type: {self.kind}"] if self.kind else []
        lines += [f"{name}: {value}" for name, value in self.headers]
        match self.framing:
            case "chunked":
                lines.append("Transfer-Encoding: chunked")
            case "length":
                lines.append(f"Content-Length: {len(self.body) + self.promised}")
            case _:
                lines.append("Connection: close")
        return named("\r\n".join(lines) + "\r\n\r\n", names).encode("latin-1")


def named(text: str, names: Mapping[str, str]) -> str:
    """Return a text with the names of the two servers replaced by their addresses."""
    for name, address in names.items():
        text = text.replace(name, address)
    return text


def event(data: object) -> bytes:
    """Return one event of a stream; what isn't bytes is written as JSON."""
    return b"data: " + (data if isinstance(data, bytes) else _dumped(data)) + b"\n\n"


def _dumped(data: object) -> bytes:
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode()


DONE = event(b"[DONE]")
HEAD = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": MODEL}
USAGE = {"prompt_tokens": 20, "completion_tokens": 7, "total_tokens": 27}


def chunk(delta: object, finish: object = None, **more: object) -> dict[str, Any]:
    """Return a chunk with one choice."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {**HEAD, "choices": [choice], **more}


def said(text: str, finish: object = None) -> dict[str, Any]:
    """Return a chunk of text."""
    return chunk({"content": text}, finish)


def called(*calls: object, finish: object = None) -> dict[str, Any]:
    """Return a chunk of tool calls."""
    return chunk({"tool_calls": list(calls)}, finish)


def counted(usage: object = USAGE) -> dict[str, Any]:
    """Return a chunk that has nothing but usage."""
    return {**HEAD, "choices": [], "usage": usage}


def sse(*chunks: object, done: bool = True, **how: Any) -> Raw:
    """Return a stream of chunks, each an event of its own."""
    return Raw(b"".join(map(event, chunks)) + (DONE if done else b""), **how)


def http(status: int, body: object = b"", kind: str | None = "application/json", **how: Any) -> Raw:
    """Return a response of known length that is no stream."""
    raw = body if isinstance(body, bytes) else _dumped(body)
    given = {name.replace("_", "-"): str(value) for name, value in how.items()}
    return Raw(raw, status, kind, tuple(given.items()), framing="length")


FINE = sse(chunk({"role": "assistant", "content": ""}), said("Done."), chunk({}, "stop"), counted())
"""What answers each request that a script has no response for."""


@dataclass(frozen=True)
class Case:
    """A script, and how the lean wire's run of it ends: what it says, or what fails it first."""

    replies: tuple[Raw, ...] = ()
    says: str | None = None
    fails: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    schema: Any = None
    task: str = "Do it."
    model: str = f"openai-chat:{MODEL}"
    history: tuple[Any, ...] = ()
    """The earlier turns of a session."""
    attempts: int = 2
    coarse_ms: int = 1
    """To how many milliseconds a delay is rounded; more than 1 where it depends on the clock."""


def ok(*replies: Raw, says: str = "Done.", **more: Any) -> Case:
    """Return a case whose run completes."""
    return Case(replies, says=says, **more)


def bad(*replies: Raw, fails: str, **more: Any) -> Case:
    """Return a case whose first request fails."""
    return Case(replies, fails=fails, **more)


@dataclass(frozen=True)
class Told:
    """All that a run shows to its parent and to the model's server."""

    texts: tuple[str, ...] = ()
    messages: tuple[Any, ...] = ()
    usage: tuple[Usage, ...] = ()
    retries: tuple[Any, ...] = ()
    finish: tuple[Any, ...] = ()
    requests: tuple[Any, ...] = ()

    @property
    def first_failure(self) -> str:
        """What the parent is told first of a failure."""
        return self.retries[0][2] if self.retries else str(self.finish[1])

    def has_ended_as(self, case: Case) -> bool:
        """Whether the run ended as its case says."""
        if case.says is not None:
            return self.finish[0] == "completed" and self.finish[2] == case.says
        is_failed = self.retries or self.finish[0] == "failed"
        return case.fails is None or (bool(is_failed) and case.fails in self.first_failure)


def plain(told: Told) -> Told:
    """Return what is left where each wire may have words of its own.

    The words of a JSON parser and of the network; who answered, where nothing was; spaces in
    arguments that are sent back, and `{"error": …}` around a failed call's text.
    """
    messages = tuple(
        (text, calls, stop, None if stop == "error" and not text else model)
        for text, calls, stop, model in told.messages
    )
    retries = tuple((*one[:2], _worded(one[2]), one[3]) for one in told.retries)
    finish = (told.finish[0], _worded(told.finish[1]), *told.finish[2:])
    requests = tuple((*one[:3], _bare(one[3])) for one in told.requests)
    return replace(told, messages=messages, retries=retries, finish=finish, requests=requests)


def _worded(message: str | None) -> str | None:
    return message and re.sub(r"(an unreadable response|failed or was lost).*", r"\1", message)


def _bare(value: Any) -> Any:
    match value:
        case {"arguments": str() as given, **rest}:
            return {"arguments": _read(given), **rest}
        case {"role": "tool", "content": str() as text, **rest}:
            told = _read(text)
            return {**rest, "content": told["error"] if text.startswith('{"error":') else text}
        case dict():
            return {key: _bare(one) for key, one in value.items()}
        case tuple():
            return tuple(map(_bare, value))
        case _:
            return value


def _read(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def differences(one: Told, other: Told) -> dict[str, tuple[Any, Any]]:
    """Return what differs, by the name of the field."""
    pairs = {
        each.name: (getattr(one, each.name), getattr(other, each.name)) for each in fields(one)
    }
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


class Replay:
    """A server with a script, and runs against it; both in the loop of the test."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._script: list[Raw] = []
        self._asked: list[Any] = []
        self._open: set[asyncio.StreamWriter] = set()

    async def start(self) -> list[asyncio.Server]:
        """Listen at two addresses: the second is another host to a redirect."""
        servers = [await asyncio.start_server(self._serve, "127.0.0.1", 0) for _ in range(2)]
        ports = [server.sockets[0].getsockname()[1] for server in servers]
        here, other = (f"127.0.0.1:{port}" for port in ports)
        self._names = {"HERE": here, "OTHER": other}
        return servers

    async def both(self, case: Case) -> tuple[Told, Told]:
        """Return what the SDK and the lean wire made of a case."""
        sdk = await self.run(case, "sdk")
        return sdk, await self.run(case, "auto")

    async def run(self, case: Case, wire: str) -> Told:
        """Return what one wire made of a case."""
        self._script, self._asked = list(case.replies), []
        variables = {"OPENAI_BASE_URL": f"http://{self._names['HERE']}/v1", "OPENAI_API_KEY": KEY}
        variables |= {name: named(value, self._names) for name, value in case.env.items()}
        with patch.dict(os.environ, variables):
            async with asyncio.timeout(_MAX_SECONDS):
                events, finish = await self._task(case, wire)
        await self._hang_up()
        return _told(case, events, finish, self._asked)

    async def _task(self, case: Case, wire: str) -> tuple[list[Event], Any]:
        brief = Brief(
            "0" * 8, "a", "You are a test.", case.task, case.model, self._folder,
            history=case.history,
            main_turn=MainTurn() if case.history else None,
            tools=("ls",), output_schema=case.schema, request_attempts=case.attempts,
            budget=BudgetLimits(max_turns=MAX_TURNS),
        )  # fmt: skip
        events: list[Event] = []
        try:
            model = build_model(brief.model, wire=wire)
        except ModelUnavailable as error:
            return events, TaskFinishEvent(error=str(error))
        try:
            begun = time.monotonic()
            finish = await run_task(brief, model, events.append, Budget(brief.budget), begun)
        except Exception as error:  # as a child tells it
            finish = TaskFinishEvent(error=f"{CRASHED}: {type(error).__name__}: {error}")
        finally:
            await _close(model)
        return events, finish

    async def _hang_up(self) -> None:
        for writer in list(self._open):
            writer.close()
        while self._open:
            await _pause(0)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            with suppress(asyncio.IncompleteReadError, ConnectionError):
                while await self._answer(reader, writer):
                    pass
        finally:
            writer.close()
            self._open.discard(writer)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; return whether another may follow on the same connection."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        pairs = (line.partition(":") for line in head[1:] if line)
        headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        self._asked.append(_asked(head[0], headers, body, self._names))
        raw = self._script.pop(0) if self._script else FINE
        for piece in raw.pieces(self._names):
            writer.write(piece)
            for _ in range(2):  # the client reads each piece before the next is there
                await _pause(0)
        if raw.reset:
            writer.transport.abort()
        return not (raw.hangs_up or raw.reset)


async def _close(model: Any) -> None:
    """Close a model's connections, which in a child end with its process."""
    if hasattr(model, "_connection"):
        model._connection.close()
    else:
        await model._model.client.close()


def _asked(
    line: str, headers: Mapping[str, str], body: bytes, names: Mapping[str, str]
) -> tuple[Any, ...]:
    shown = {name: headers.get(name) for name in COMPARED_HEADERS}
    shown["host"] = next((one for one, host in names.items() if host == shown["host"]), None)
    try:
        content: Any = json.loads(body)
    except ValueError:
        content = body
    method, path, _ = line.split(" ", 2)
    return method, path, shown, content


def _told(case: Case, events: Iterable[Event], finish: Any, asked: Sequence[Any]) -> Told:
    texts, told, usage, retries, text = [], [], [finish.usage], [], ""
    for one in events:
        match one:
            case MessageUpdateEvent():
                text += one.delta
            case RetryEvent():
                delay = round(one.delay_ms / case.coarse_ms) * case.coarse_ms
                retries.append((one.attempt, str(one.kind), one.message, delay))
                texts, text = [*texts, text], ""
            case MessageEndEvent():
                calls = tuple((call.id, call.name, call.args) for call in one.tool_calls)
                told.append((one.text, calls, str(one.stop_reason), one.model))
                usage.append(one.usage)
                texts, text = [*texts, text], ""
            case _:
                pass
    given = b"".join(raw.body for raw in case.replies).decode(errors="replace")
    made_up = [call[0] for message in told for call in message[1] if call[0] not in given]
    names = {one: f"made up {number}" for number, one in enumerate(dict.fromkeys(made_up))}
    end = (str(finish.outcome), finish.error, finish.task_result, finish.structured_output)
    return Told(
        tuple(texts), _renamed(told, names), tuple(usage), tuple(retries), end,
        _renamed(asked, names),
    )  # fmt: skip


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    """Return a value with the ids that a wire made up replaced by their number."""
    match value:
        case str():
            return names.get(value, value)
        case dict():
            return {key: _renamed(one, names) for key, one in value.items()}
        case list() | tuple():
            return tuple(_renamed(one, names) for one in value)
        case _:
            return value


@asynccontextmanager
async def replaying() -> AsyncIterator[Replay]:
    """Yield a replay in an environment of its own, where no wait takes time and no jitter is."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    with (
        warnings.catch_warnings(),
        tempfile.TemporaryDirectory() as folder,
        patch.dict(os.environ, kept, clear=True),
        patch("random.random", return_value=0.0),
        patch("asyncio.sleep", lambda _seconds, result=None: _pause(0, result)),
    ):
        warnings.simplefilter("ignore")  # the SDK's, of what a server sends
        warnings.simplefilter("error", ResourceWarning)
        for number in range(FILES):
            Path(folder, f"thing-{number}.txt").write_text("the thing\n")
        replay = Replay(folder)
        servers = await replay.start()
        try:
            yield replay
        finally:
            for server in servers:
                server.close()


async def assert_alike(name: str, case: Case) -> None:
    """Replay a case through both wires; they differ only where the table says so."""
    async with replaying() as replay:
        sdk, lean = await replay.both(case)
    found = differences(plain(sdk), plain(lean))
    why = reason_for(name) or has_tripped(sdk.finish[1])
    assert bool(found) == bool(why), shown(f"{name}; wanted: {why}", found)
    assert lean.has_ended_as(case), lean


def shown(name: str, found: Mapping[str, tuple[Any, Any]]) -> str:
    """Return differences for people."""
    lines = (f"{key}:\n  sdk  {one}\n  lean {other}" for key, (one, other) in found.items())
    return "\n".join([name, *lines])
