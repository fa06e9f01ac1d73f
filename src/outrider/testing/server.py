"""A model server on loopback that follows a script, in a thread of the test's own process."""

import asyncio
import json
import secrets
import socket
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from outrider.testing import wire
from outrider.testing.connection import Connection, Connections, HttpRequest
from outrider.testing.delivery import deliver
from outrider.testing.request import Request, is_chat
from outrider.testing.script import Chooser, Script
from outrider.testing.steps import Failure

BACKLOG = 4096


class ScriptedModel:
    """A model server that answers from a script for as long as the `with` block lasts.

    `script` is a sequence of steps, one for each request in the order of arrival, or a function
    from a `Request` to its step, which runs in the server's thread and must return quickly.
    """

    def __init__(
        self, script: Script, *, repeat: bool = False, name: str = "scripted", port: int = 0
    ) -> None:
        self._chooser = Chooser(script, repeat=repeat)
        self._name = name
        self._port = port
        self._key = f"test-key-{secrets.token_hex(8)}"
        self._requests: list[Request] = []
        self._answering = 0
        self._changed = threading.Condition()
        self._connections = Connections()

    def __enter__(self) -> Self:
        """Listen, and return when requests are taken."""
        sock = socket.create_server(("127.0.0.1", self._port), backlog=BACKLOG)
        self._port = sock.getsockname()[1]
        self._loop = asyncio.SelectorEventLoop()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(
            target=self._run, args=(sock,), name="scripted-model", daemon=True
        )
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Drop every connection and end the thread."""
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    @property
    def base_url(self) -> str:
        """Where the API is, as a client's base URL."""
        return f"http://127.0.0.1:{self._port}/v1"

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables that lead an OpenAI client here."""
        return {"OPENAI_BASE_URL": self.base_url, "OPENAI_API_KEY": self._key}

    @property
    def model(self) -> str:
        """The model's name as a user would choose it."""
        return f"openai-chat:{self._name}"

    @property
    def requests(self) -> list[Request]:
        """All chat requests until now, in the order of arrival."""
        with self._changed:
            return list(self._requests)

    @property
    def faults(self) -> list[str]:
        """What was wrong with the script: requests past its end, exceptions, wrong values."""
        return list(self._chooser.faults)

    def wait_for_requests(self, count: int, timeout: float = 30) -> list[Request]:
        """The requests, as soon as there are `count` of them; TimeoutError if they don't come."""
        self._wait(
            lambda: len(self._requests) >= count,
            timeout,
            lambda: f"{len(self._requests)} of {count} requests came within {timeout} s.",
        )
        return self.requests

    def wait_until_idle(self, timeout: float = 30) -> None:
        """Return when no request is being answered; TimeoutError if that doesn't come about."""
        self._wait(
            lambda: self._answering == 0,
            timeout,
            lambda: f"{self._answering} requests are still being answered after {timeout} s.",
        )

    def _wait(
        self, reached: Callable[[], bool], timeout: float, complaint: Callable[[], str]
    ) -> None:
        with self._changed:
            if not self._changed.wait_for(reached, timeout):
                raise TimeoutError(complaint())

    # In the server's thread

    def _run(self, sock: socket.socket) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve(sock))

    async def _serve(self, sock: socket.socket) -> None:
        listener = await self._loop.create_server(
            lambda: Connection(self._exchange, self._connections), sock=sock, backlog=BACKLOG
        )
        await self._stop.wait()
        # Closing the listener while a connection is being accepted would leak that connection's
        # socket. So first stop accepting, then let all that was begun come to its end.
        self._loop.remove_reader(sock)
        self._connections.close()
        while self._connections or len(asyncio.all_tasks()) > 1:
            await asyncio.sleep(0)
        listener.close()

    async def _exchange(self, connection: Connection, http: HttpRequest) -> None:
        match http.method, http.path:
            case "POST", "/v1/chat/completions":
                await self._chat(connection, http)
            case "GET", "/v1/models":
                connection.respond(200, wire.models_body(self._name))
            case _:
                message = (
                    f"There is no {http.method} {http.path} here; "
                    "this server knows POST /v1/chat/completions and GET /v1/models."
                )
                connection.respond(404, wire.error_body(Failure(404, message)))

    async def _chat(self, connection: Connection, http: HttpRequest) -> None:
        try:
            body = json.loads(http.body)
        except ValueError:
            body = None
        if not is_chat(body):
            message = "The body is not a JSON object with a list of messages."
            connection.respond(400, wire.error_body(Failure(400, message)))
            return
        with self._changed:
            request = Request(body, http.headers, time.monotonic(), len(self._requests))
            self._requests.append(request)
            self._answering += 1
            self._changed.notify_all()
        try:
            await deliver(self._chooser.step_for(request), request, connection)
            await connection.flush()
        finally:
            with self._changed:
                self._answering -= 1
                self._changed.notify_all()
