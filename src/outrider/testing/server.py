"""A model server on loopback that follows a script, in a thread of the test's own process."""

import asyncio
import json
import secrets
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Self, TypeAlias, cast, get_args

from outrider.testing import wire
from outrider.testing.connection import HttpConnection, HttpRequest
from outrider.testing.steps import HttpResponse, Reply, Step, StreamEnd, fail
from outrider.testing.wire import ModelRequest, is_chat

Script: TypeAlias = Sequence[Step] | Callable[[ModelRequest], Step]

_BACKLOG = 4096


class ScriptedModel:
    """A model server that answers from a script until its `with` block ends.

    `script` is a sequence of steps, one for each request in the order of arrival, or a function
    from a `ModelRequest` to its step, which runs in the server's thread and must return quickly.
    """

    def __init__(
        self, script: Script, *, repeat: bool = False, name: str = "scripted", port: int = 0
    ) -> None:
        if not callable(script):
            script = tuple(map(_as_step, script))
        if repeat and (callable(script) or not script):
            raise ValueError(
                "repeat=True repeats the last step of a sequence; the script has none."
            )
        self._script: Script = script
        self._repeat = repeat
        self._faults: list[str] = []
        self._name = name
        self._port = port
        self._key = f"test-key-{secrets.token_hex(8)}"
        self._requests: list[ModelRequest] = []
        self._answering = 0
        self._changed = threading.Condition()
        self._connections: set[HttpConnection] = set()

    def __enter__(self) -> Self:
        sock = socket.create_server(("127.0.0.1", self._port), backlog=_BACKLOG)
        self._port = sock.getsockname()[1]
        self._loop = asyncio.SelectorEventLoop()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(None, self._run, "scripted-model", (sock,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        """Drop every connection and end the thread."""
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._port}/v1"

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables that make an OpenAI client use this server."""
        return {"OPENAI_BASE_URL": self.base_url, "OPENAI_API_KEY": self._key}

    @property
    def model(self) -> str:
        """The model's name as a user would choose it."""
        return f"openai-chat:{self._name}"

    @property
    def requests(self) -> list[ModelRequest]:
        """All chat requests so far, in the order of arrival."""
        with self._changed:
            return list(self._requests)

    @property
    def faults(self) -> list[str]:
        """What was wrong with the script: requests past its end, exceptions, wrong values."""
        return list(self._faults)

    def wait_for_requests(self, count: int, timeout: float = 30) -> list[ModelRequest]:
        """Wait until there are `count` requests and return them. Raises TimeoutError."""
        with self._changed:
            if not self._changed.wait_for(lambda: len(self._requests) >= count, timeout):
                came = len(self._requests)
                raise TimeoutError(f"{came} of {count} requests came within {timeout} s.")
        return self.requests

    def wait_until_idle(self, timeout: float = 30) -> None:
        """Return when no request is being answered. Raises TimeoutError."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._answering == 0, timeout):
                busy = f"{self._answering} requests are still being answered"
                raise TimeoutError(f"{busy} after {timeout} s.")

    # In the server's thread

    def _run(self, sock: socket.socket) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve(sock))

    async def _serve(self, sock: socket.socket) -> None:
        listener = await self._loop.create_server(
            lambda: HttpConnection(self._handle, self._connections), sock=sock, backlog=_BACKLOG
        )
        await self._stop.wait()
        # Closing the listener while a connection is being accepted would leak that connection's
        # socket. So first stop accepting, then drop every connection that is or becomes open.
        self._loop.remove_reader(sock)
        while self._connections or len(asyncio.all_tasks()) > 1:
            for connection in list(self._connections):
                connection.abort()
            await asyncio.sleep(0)
        listener.close()

    async def _handle(self, connection: HttpConnection, http: HttpRequest) -> None:
        match http.method, http.path:
            case "POST", "/v1/chat/completions":
                await self._chat(connection, http)
            case "GET", "/v1/models":
                connection.respond(200, wire.models_body(self._name))
            case _:
                use = "use POST /v1/chat/completions or GET /v1/models"
                missing = fail(404, message=f"There is no {http.method} {http.path} here; {use}.")
                connection.respond(404, missing.body.encode())

    async def _chat(self, connection: HttpConnection, http: HttpRequest) -> None:
        try:
            body = json.loads(http.body)
        except ValueError:
            body = None
        if not is_chat(body):
            message = "The body is not a JSON object with a list of messages."
            connection.respond(400, fail(400, message=message).body.encode())
            return
        with self._changed:
            number = len(self._requests)
            request = ModelRequest(body, http.headers, time.monotonic(), number, http.body)
            self._requests.append(request)
            self._answering += 1
            self._changed.notify_all()
        try:
            await _deliver(self._step(request), request, connection)
            await connection.flush()
        finally:
            with self._changed:
                self._answering -= 1
                self._changed.notify_all()

    def _step(self, request: ModelRequest) -> Step:
        """Return the step for a request; an HTTP 500 if the script has none."""
        if callable(self._script):
            try:
                return _as_step(self._script(request))
            except Exception as error:
                message = f"The script raised {type(error).__name__}: {error}"
                return self._fault("script_raised", message)
        if request.number < len(self._script):
            return self._script[request.number]
        if self._repeat:
            return self._script[-1]
        message = f"it has {len(self._script)} steps, and this is request {request.number + 1}"
        message = f"The script is exhausted: {message}. Add a step, or pass repeat=True."
        return self._fault("script_exhausted", message)

    def _fault(self, code: str, message: str) -> Step:
        self._faults.append(message)
        return fail(500, message=message, code=code, type="script_error")


def _as_step(given: object) -> Step:
    if isinstance(given, get_args(Step)):
        return cast(Step, given)
    raise TypeError(f"{given!r} is not a step; use answer(...), fail(...) and so on.")


async def _deliver(step: Step, request: ModelRequest, connection: HttpConnection) -> None:
    """Do what the step says; cancelled when the client leaves or the server closes."""
    match step:
        case HttpResponse():
            connection.respond(step.status, step.body.encode(), step.content_type, step.headers)
        case Reply(error=HttpResponse() as error) if not request.stream:
            connection.respond(error.status, error.body.encode())
        case Reply():
            await _send(step, request, connection)
        case StreamEnd():
            await _break_off(step, connection)


async def _send(reply: Reply, request: ModelRequest, connection: HttpConnection) -> None:
    if reply.model is not None:
        request = replace(request, body={**request.body, "model": reply.model})
    connection.begin_chunks("text/event-stream" if request.stream else "application/json")
    connection.chunk(wire.opening(reply, request))
    for piece in wire.pieces(reply, request):
        if reply.delay or reply.max_bytes:
            await connection.flush()
            # Even with a delay of 0: the other connections and a cancellation need their turn.
            await asyncio.sleep(reply.delay)
        connection.chunk(piece)
    connection.chunk(wire.closing(reply, request))
    is_broken_off = reply.ending is StreamEnd.CUT and not request.stream
    if is_broken_off or reply.ending in (StreamEnd.SILENT, StreamEnd.RESET):
        await _break_off(reply.ending, connection)
    else:
        connection.end_chunks()


async def _break_off(ending: StreamEnd, connection: HttpConnection) -> None:
    await connection.flush()
    match ending:
        case StreamEnd.SILENT:
            await asyncio.get_running_loop().create_future()
        case StreamEnd.RESET:
            connection.reset()
        case _:
            connection.hang_up()
