"""What MCP clients of both eras say and want to hear. Nothing here reads, writes or waits.

A client of the handshake era (2025-06-18, 2025-11-25) opens with `initialize`. One of the stateless
era (2026-07-28) says with each request what it speaks and can do.
"""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

from outrider import __version__
from outrider.protocol.errors import OutriderError

HANDSHAKE_VERSIONS = ("2025-06-18", "2025-11-25")
STATELESS_VERSION = "2026-07-28"
PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND = -32700, -32600, -32601
INVALID_PARAMS, INTERNAL_ERROR, UNSUPPORTED_VERSION = -32602, -32603, -32022
META = "io.modelcontextprotocol/"
READ_BYTES = 1 << 16
SILENCE_SECONDS = 0.05
SERVER = {"name": "outrider", "version": __version__}
_CACHEABLE = ("server/discover", "tools/list", "prompts/list")

Json = dict[str, Any]
RequestId = str | int


class RpcError(OutriderError):
    """A message that gets an error for an answer."""

    def __init__(self, code: int, message: str, data: Json | None = None) -> None:
        super().__init__(message)
        self.answer: Json = {"code": code, "message": message} | ({"data": data} if data else {})


def as_object(value: object) -> Json:
    """Return a JSON object as it is, and an empty one for anything else."""
    return cast("Json", value) if isinstance(value, dict) else {}


def first_root(answer: object) -> str | None:
    """Return the path of the first root that is a folder of this machine."""
    from urllib.parse import unquote, urlsplit

    roots = as_object(answer).get("roots")
    for root in cast("list[object]", roots if isinstance(roots, list) else []):
        parts = urlsplit(str(as_object(root).get("uri", "")))
        if parts.scheme == "file" and os.path.isdir(path := unquote(parts.path)):
            return path
    return None


@dataclass(frozen=True)
class Client:
    """What is known of the client that sent a request."""

    version: str
    capabilities: Json = field(default_factory=dict[str, Any])
    name: str = ""

    @property
    def is_stateless(self) -> bool:
        """Whether it is of the stateless era."""
        return self.version == STATELESS_VERSION

    @property
    def can_ask(self) -> bool:
        """Whether it can put a question to the person."""
        forms = self.capabilities.get("elicitation")
        return forms == {} or "form" in as_object(forms)


class Session:
    """One client: who it is, and the answers to what it opens with, which must not take long.

    `describe` returns what the server says of itself, `list_tools` the tools for a client.
    """

    def __init__(
        self, describe: Callable[[], Json], list_tools: Callable[[Client], list[Json]]
    ) -> None:
        self.client: Client | None = None
        """Who sent `initialize`; None for a client of the stateless era."""
        self._describe = describe
        self._list_tools = list_tools

    def answer(self, method: str, params: Json) -> Json | None:
        """Return the result of a request that a client opens with; None for any other."""
        if method == "initialize":
            return self._initialize(params)
        client = self.client_of(method, params)
        if method == "ping":
            return self.complete(client, method, {})
        if method == "server/discover":
            about = {"supportedVersions": [STATELESS_VERSION], **self._describe()}
            return self.complete(client, method, about)
        if method == "tools/list":
            return self.complete(client, method, {"tools": self._list_tools(client)})
        return None

    def _initialize(self, params: Json) -> Json:
        wanted = params.get("protocolVersion")
        version = wanted if wanted in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[-1]
        name = as_object(params.get("clientInfo")).get("name")
        self.client = Client(str(version), as_object(params.get("capabilities")), str(name))
        return {"protocolVersion": version, "serverInfo": SERVER, **self._describe()}

    def client_of(self, method: str, params: Json) -> Client:
        """Return who sent a request: what it says itself, else what `initialize` said."""
        meta = as_object(params.get("_meta"))
        version = meta.get(f"{META}protocolVersion")
        if version is None and self.client is not None:
            return self.client
        if version is None and method not in ("ping", "server/discover"):
            raise RpcError(INVALID_REQUEST, "Send `initialize` first.")
        if version not in (None, STATELESS_VERSION):
            versions = {"supported": [STATELESS_VERSION], "requested": version}
            raise RpcError(UNSUPPORTED_VERSION, "This version isn't spoken here.", versions)
        name = as_object(meta.get(f"{META}clientInfo")).get("name")
        capabilities = as_object(meta.get(f"{META}clientCapabilities"))
        return Client(STATELESS_VERSION, capabilities, str(name))

    def complete(self, client: Client, method: str, result: Json) -> Json:
        """Return a result as the client's era wants it."""
        if not client.is_stateless:
            return result
        cache = {"ttlMs": 0, "cacheScope": "private"} if method in _CACHEABLE else {}
        meta = {f"{META}serverInfo": SERVER}
        return {"resultType": "complete", "_meta": meta, **cache, **result}


def parsed(line: bytes) -> Json:
    """Return the message on a line; raises `RpcError`."""
    try:
        message: object = json.loads(line)
    except (ValueError, RecursionError):
        raise RpcError(PARSE_ERROR, "This line isn't JSON.") from None
    if not isinstance(message, dict):
        raise RpcError(INVALID_REQUEST, "A message is one JSON object.")
    checked = cast("Json", message)
    answers = "result" in checked or "error" in checked
    if not answers and not isinstance(checked.get("method"), str):
        raise RpcError(INVALID_REQUEST, "A request needs a method.")
    if "id" in checked and (
        isinstance(checked["id"], bool) or not isinstance(checked["id"], RequestId)
    ):
        raise RpcError(INVALID_REQUEST, "A request's id is a text or a whole number.")
    if not isinstance(checked.get("params", {}), dict):
        raise RpcError(INVALID_PARAMS, "The params of a request are a JSON object.")
    return checked


def encoded(message: Json) -> bytes:
    """Return a message as a line; half a character, which no UTF-8 has, is escaped."""
    text = json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":"))
    return text.encode() + b"\n"


def greeted(session: Session, stdin: int, stdout: int) -> bytes:
    """Answer what a client opens with, before more is loaded; return what was read beyond that.

    It ends when the client wants something else, when it has its tools and is silent, or is gone.
    """
    from select import select

    pending, has_tools = b"", False
    while len(pending) < READ_BYTES:
        line, newline, rest = pending.partition(b"\n")
        if newline:
            message = _opening(session, line)
            if message is None:
                break
            os.write(stdout, message)
            pending, has_tools = rest, has_tools or b'"tools/list"' in line
        elif has_tools and not select([stdin], [], [], SILENCE_SECONDS)[0]:
            break
        elif data := os.read(stdin, READ_BYTES):
            pending += data
        else:
            break
    return pending


def _opening(session: Session, line: bytes) -> bytes | None:
    """Return the answer to a line, if it is one that a client opens with."""
    try:
        message = parsed(line)
        if message.get("method") == "notifications/initialized":
            return b""
        if "id" in message and (
            result := session.answer(message["method"], message.get("params", {}))
        ):
            return encoded({"id": message["id"], "result": result})
    except (RpcError, KeyError):
        pass
    return None
