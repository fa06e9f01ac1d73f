"""A client on stdio: its requests at once, its cancellations, and what it is asked and told.

Neither reading nor writing blocks, and neither changes the mode of a stream that may be another
process's too.
"""

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import count

from outrider.protocol.data import as_object
from outrider.surfaces.mcp import handshake
from outrider.surfaces.mcp.handshake import Client, ClientSession, Json, RequestId, RpcError
from outrider.surfaces.mcp.offer import first_root

MAX_UNREAD_BYTES = 1 << 20  # with more waiting for a client to read, progress is left out
MAX_WAIT_SECONDS = 2.0  # for a client to name its roots, and to read its last answers
WRITE_BYTES = 4096  # what a pipe takes without blocking once it is writable (PIPE_BUF)


class _InputRequired(Exception):
    """A question that a client of the stateless era answers by sending its request again."""


@dataclass(eq=False)
class ClientRequest:
    """One request, and the way back to who sent it."""

    id: RequestId
    params: Json
    client: Client
    connection: "ClientConnection"

    @property
    def token(self) -> RequestId | None:
        """What its progress is told under; None where the client doesn't want to know."""
        token = as_object(self.params.get("_meta")).get("progressToken")
        return token if type(token) in handshake.ID_TYPES else None

    def progress(self, message: str) -> None:
        """Tell the client how far it is, if it wants to know and reads what it gets."""
        if self.token is not None and len(self.connection.outgoing) < MAX_UNREAD_BYTES:
            told = {"progressToken": self.token, "progress": next(self.connection.numbers)}
            self.connection.notify("notifications/progress", {**told, "message": message})

    async def ask(self, key: str, method: str, params: Json) -> Json | None:
        """Return the client's answer to a question, None where it has none.

        Nothing may be done before: a client of the stateless era sends its request again.
        """
        if not self.client.is_stateless:
            return await self.connection.ask(method, params)
        try:
            answers = as_object(json.loads(str(self.params.get("requestState", "{}"))))
        except (ValueError, RecursionError):
            raise RpcError(handshake.INVALID_PARAMS, "requestState isn't ours.") from None
        answers |= as_object(self.params.get("inputResponses"))
        if key in answers:
            return as_object(answers[key])
        # The client sends its newest answers again, and this state for the earlier ones.
        asked = {key: {"method": method, "params": params}}
        state = {"requestState": json.dumps(answers), "inputRequests": asked}
        raise _InputRequired({"resultType": "input_required", **state})

    async def agrees(self, key: str, question: str) -> bool:
        """Whether the person says yes to a question; anything else means no."""
        asked: Json = {"message": question, "requestedSchema": {"type": "object", "properties": {}}}
        answer = await self.ask(key, "elicitation/create", asked)
        return as_object(answer).get("action") == "accept"

    async def root(self) -> str | None:
        """Return the client's first folder; None where it names none."""
        if not self.client.is_stateless:
            return await self.connection.root()
        has_roots = "roots" in self.client.capabilities
        return first_root(await self.ask("roots", "roots/list", {})) if has_roots else None


Handlers = Mapping[str, Callable[[ClientRequest], Awaitable[Json]]]


class ClientConnection:
    """Answers a client with handlers, by method, until it has gone or `closed` is set."""

    def __init__(self, session: ClientSession, handlers: Handlers, stdin: int, stdout: int) -> None:
        self.closed = asyncio.Event()
        self.outgoing = bytearray()  # what waits for the client to read it
        self.numbers = count(1)  # for progress, which has to grow, and for our own requests
        self._session = session
        self._handlers = {**handlers, "subscriptions/listen": self._listen}
        self._stdin, self._stdout = stdin, stdout
        self._incoming = bytearray()
        self._running: dict[RequestId, asyncio.Task[None]] = {}
        self._asked: dict[str, asyncio.Future[Json | None]] = {}
        self._listeners: dict[RequestId, Json] = {}
        self._roots: asyncio.Task[Json | None] | None = None

    @property
    def _loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    async def serve(self, pending: bytes = b"") -> None:
        """Answer, beginning with what was read already; end what is under way in the end."""
        self._feed(pending)
        self._loop.add_reader(self._stdin, self._on_readable)
        await self.closed.wait()
        self._loop.remove_reader(self._stdin)
        await asyncio.sleep(0)  # what needs no time is answered even now
        running = list(self._running.values())
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        give_up = self._loop.time() + MAX_WAIT_SECONDS
        while self.outgoing and self._loop.time() < give_up:
            await asyncio.sleep(0.005)

    def _on_readable(self) -> None:
        data = b""
        with suppress(OSError):
            data = os.read(self._stdin, handshake.READ_BYTES)
        self._feed(data)
        if not data:
            self.closed.set()

    def _feed(self, data: bytes) -> None:
        *lines, rest = data.split(b"\n")
        for line in lines:
            whole, self._incoming = bytes(self._incoming + line), bytearray()
            try:
                if whole.strip():
                    self._take(handshake.read_message(whole))
            except RpcError as error:
                for one in error.ids:  # where it was to answer a question of ours, it doesn't
                    self._take({"id": one})
                    self.send({"id": one, **error.answer})
        self._incoming += rest
        del self._incoming[handshake.MAX_MESSAGE_BYTES + 1 :]  # enough to know that it is too long

    def send(self, message: Json) -> None:
        if not self.outgoing:
            self._loop.add_writer(self._stdout, self._on_writable)
        self.outgoing += handshake.as_line(message)

    def _on_writable(self) -> None:
        try:
            del self.outgoing[: os.write(self._stdout, self.outgoing[:WRITE_BYTES])]
        except OSError:  # nobody reads any more
            self.outgoing.clear()
            self.closed.set()
        if not self.outgoing:
            self._loop.remove_writer(self._stdout)

    def notify(self, method: str, params: Json) -> None:
        self.send({"method": method, "params": params})

    def _take(self, message: Json) -> None:
        request_id, method = message.get("id"), message.get("method")
        if method is None:
            waiting = self._asked.pop(str(request_id), None)
            if waiting is not None and not waiting.done():
                waiting.set_result(as_object(message["result"]) if "result" in message else None)
        elif method == "notifications/cancelled":
            with suppress(KeyError, TypeError):  # it has ended, or this can't be an id
                self._running[message["params"]["requestId"]].cancel()
        elif method == "notifications/roots/list_changed":
            self._roots = None
        elif request_id in self._running:
            raise RpcError(handshake.INVALID_REQUEST, "This id is in use.", request_id)
        elif request_id is not None:
            task = self._running[request_id] = self._loop.create_task(self._answer(message))
            task.add_done_callback(lambda _: self._running.pop(request_id, None))

    async def _answer(self, message: Json) -> None:
        """Send the answer to a request; a cancelled one gets none."""
        try:
            answer = {"result": await self._result(message["method"], message)}
        except _InputRequired as required:
            answer = {"result": required.args[0]}
        except RpcError as error:
            answer = error.answer
        except Exception as error:
            fault = f"This is a bug in Outrider: {type(error).__name__}: {error}"
            answer = RpcError(handshake.INTERNAL_ERROR, fault).answer
        self.send({"id": message["id"], **answer})

    async def _result(self, method: str, message: Json) -> Json:
        params = as_object(message.get("params"))
        client = self._session.client_of(method, params)
        result = self._session.opening(client, method)
        if result is None and method not in self._handlers:
            raise RpcError(handshake.METHOD_NOT_FOUND, f"Unknown method {method!r}.")
        if result is None:
            request = ClientRequest(message["id"], params, client, self)
            result = await self._handlers[method](request)
        return client.complete(result)

    async def ask(self, method: str, params: Json) -> Json | None:
        """Return the answer of a client of the handshake era; None where it has none."""
        request_id = f"outrider-{next(self.numbers)}"
        answer = self._asked[request_id] = self._loop.create_future()
        self.send({"id": request_id, "method": method, "params": params})
        return await answer

    async def root(self) -> str | None:
        """Return the folder of a client of the handshake era; None where it names none in time."""
        if self._session.client is None or "roots" not in self._session.client.capabilities:
            return None
        if self._roots is None:
            self._roots = self._loop.create_task(self.ask("roots/list", {}))
        done, _ = await asyncio.wait({self._roots}, timeout=MAX_WAIT_SECONDS)
        return first_root(done.pop().result()) if done else None

    async def _listen(self, request: ClientRequest) -> Json:
        """Keep a client of the stateless era informed, until it cancels this."""
        about = {"_meta": {f"{handshake.META}subscriptionId": request.id}}
        wanted = as_object(request.params.get("notifications")).get("toolsListChanged") is True
        told = {"notifications": {"toolsListChanged": True} if wanted else {}}
        self.notify("notifications/subscriptions/acknowledged", {**about, **told})
        if wanted:
            self._listeners[request.id] = about
        try:
            return await self._loop.create_future()
        finally:
            self._listeners.pop(request.id, None)

    def tools_changed(self) -> None:
        """Tell the client that there are other tools now, wherever it wants to know."""
        everyone = [Json()] if self._session.client else []
        for about in (*everyone, *self._listeners.values()):
            self.notify("notifications/tools/list_changed", about)
