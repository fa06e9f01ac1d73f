"""What MCP clients of both eras say and want to hear, and their first answers.

A client of the handshake era (2025-06-18, 2025-11-25) opens with `initialize`. One of the stateless
era (2026-07-28) says with each request what it speaks and can do.
"""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from select import select
from typing import Any

from outrider import __version__
from outrider.protocol.data import as_object
from outrider.protocol.errors import OutriderError
from outrider.schemas.values import is_array

HANDSHAKE_VERSIONS = ("2025-06-18", "2025-11-25")
STATELESS_VERSION = "2026-07-28"
PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND = -32700, -32600, -32601
INVALID_PARAMS, INTERNAL_ERROR, UNSUPPORTED_VERSION = -32602, -32603, -32022
META = "io.modelcontextprotocol/"
SERVER = {"name": "outrider", "version": __version__}
READ_BYTES = 1 << 16
MAX_MESSAGE_BYTES = 32 << 20
SILENCE_SECONDS = 0.05

Json = dict[str, Any]
RequestId = str | int
ID_TYPES = (str, int)  # and nothing that only counts as one, such as true


class RpcError(OutriderError):
    """A message that gets an error for an answer, under each of its `ids`."""

    def __init__(self, code: int, message: str, *ids: Any, **data: Any) -> None:
        super().__init__(message)
        self.ids = ids or (None,)
        self.answer: Json = {"error": {"code": code, "message": message, "data": data}}


@dataclass(frozen=True)
class Client:
    """What is known of the client that sent a request."""

    version: str
    capabilities: Json
    info: Json

    @property
    def is_stateless(self) -> bool:
        return self.version == STATELESS_VERSION

    @property
    def can_ask(self) -> bool:
        """Whether it can put a question to the person."""
        forms = self.capabilities.get("elicitation")
        return forms == {} or "form" in as_object(forms)

    def complete(self, result: Json) -> Json:
        """Return a result as its era wants it; nothing of it is to be kept."""
        if not self.is_stateless:
            return result
        era = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
        return {**era, "_meta": {f"{META}serverInfo": SERVER}, **result}


@dataclass
class ClientSession:
    """One client: who it is, and what it is answered to begin with, which must not take long."""

    describe: Callable[[], Json]
    list_tools: Callable[[Client], list[Json]]
    client: Client | None = None  # who sent `initialize`

    def client_of(self, method: str, params: Json) -> Client:
        """Return who sent a request: what it says itself, else what `initialize` said."""
        if method == "initialize":
            wanted = params.get("protocolVersion")
            version = wanted if wanted in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[-1]
            capabilities, info = params.get("capabilities"), params.get("clientInfo")
            self.client = Client(str(version), as_object(capabilities), as_object(info))
            return self.client
        meta = as_object(params.get("_meta"))
        version = meta.get(f"{META}protocolVersion")
        if version is None and self.client is not None:
            return self.client
        if version is None and method not in ("ping", "server/discover"):
            raise RpcError(INVALID_REQUEST, "Send `initialize` first.")
        if version not in (None, STATELESS_VERSION):
            known = {"supported": [STATELESS_VERSION], "requested": str(version)}
            raise RpcError(UNSUPPORTED_VERSION, "Unsupported protocol version.", **known)
        capabilities, info = meta.get(f"{META}clientCapabilities"), meta.get(f"{META}clientInfo")
        return Client(STATELESS_VERSION, as_object(capabilities), as_object(info))

    def opening(self, client: Client, method: str) -> Json | None:
        """Return the result of a request that a client opens with; None for any other."""
        if method == "initialize":
            return {"protocolVersion": client.version, "serverInfo": SERVER, **self.describe()}
        if method == "server/discover":
            return {"supportedVersions": [STATELESS_VERSION], **self.describe()}
        if method == "tools/list":
            return {"tools": self.list_tools(client)}
        return {} if method == "ping" else None


def read_message(line: bytes) -> Json:
    """Return the message on a line; raises `RpcError`."""
    if len(line) > MAX_MESSAGE_BYTES:
        raise RpcError(PARSE_ERROR, f"A message can have at most {MAX_MESSAGE_BYTES:,} bytes.")
    try:
        message: object = json.loads(line)
    except (ValueError, RecursionError):
        raise RpcError(PARSE_ERROR, "This line isn't JSON.") from None
    known = as_object(message)
    # To an answer under another id than its own, a client doesn't listen: it waits.
    parts = message if is_array(message) else [message]
    ids = [one for part in parts if type(one := as_object(part).get("id")) in ID_TYPES]
    is_either = isinstance(known.get("method"), str) or {"result", "error"} & set(known)
    if type(known.get("id", 0)) not in ID_TYPES or not is_either:
        raise RpcError(INVALID_REQUEST, "Not one request, notification or response.", *ids)
    if ids and not isinstance(known.get("params"), dict | None):
        raise RpcError(INVALID_PARAMS, "`params` must be a JSON object.", *ids)
    return known


def as_line(message: Json) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")).encode() + b"\n"


def greet(session: ClientSession, stdin: int, stdout: int) -> bytes | None:
    """Answer what a client opens with; return what it sent beyond that, None if it has gone."""
    pending, has_tools = b"", False
    while len(pending) < READ_BYTES:
        line, newline, rest = pending.partition(b"\n")
        if newline:
            answer = _opening(session, line)
            if answer is None:
                break
            os.write(stdout, answer)
            pending, has_tools = rest, has_tools or b'"tools/list"' in line
        elif has_tools and not select([stdin], [], [], SILENCE_SECONDS)[0]:
            break
        elif data := os.read(stdin, READ_BYTES):
            pending += data
        else:
            return None
    return pending


def _opening(session: ClientSession, line: bytes) -> bytes | None:
    """Return the answer to a line, None where more has to be loaded for it."""
    try:
        message = read_message(line)
        if "id" not in message:
            return b""  # there is nothing yet that a notification could be about
        client = session.client_of(message.get("method", ""), as_object(message.get("params")))
        result = session.opening(client, message.get("method", ""))
    except RpcError:
        return None
    answer = {"id": message["id"], "result": client.complete(result or {})}
    return None if result is None else as_line(answer)
