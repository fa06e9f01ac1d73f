"""Model servers on this machine: which of the well-known ones answers within 150 ms."""

import re
import socket
from collections.abc import Iterable, Mapping
from contextlib import suppress
from time import monotonic
from typing import Any

from outrider.protocol.data import frozen

_DEADLINE_SECONDS = 0.15
OWN_SECONDS = 3.0  # how long a server that the user named may take
_MAX_BYTES = 1 << 20
_LOOPBACK = re.compile(r"http://(localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::(\d{1,5}))?(/[^?#]*)?")
_USABLE = re.compile(r"(?!.*embed)[\w.:/@+ -]{1,200}", re.ASCII | re.IGNORECASE)


@frozen
class ServerKind:
    """A server program: its default port, and the path that lists its models."""

    title: str
    port: int
    path: str
    provider: str
    host: str = "127.0.0.1"
    is_own: bool = False  # whether the user's environment leads there already


@frozen
class LocalServer:
    """A server that answered, with the model to use."""

    title: str
    address: str
    model: str  # without a name where the server still loads its model
    variables: dict[str, str]  # what the child's environment needs to reach it

    @property
    def is_loading(self) -> bool:
        return self.model.endswith(":")


WELL_KNOWN = (
    ServerKind("Ollama", 11434, "/api/tags", "ollama"),
    ServerKind("llama.cpp", 8080, "/v1/models", "openai-chat"),
    ServerKind("LM Studio", 1234, "/v1/models", "openai-chat"),
)


def own_endpoint(base_url: str | None) -> ServerKind | None:
    """Return the server that `OPENAI_BASE_URL` names; None where it isn't on this machine."""
    if (found := _LOOPBACK.fullmatch((base_url or "").strip())) is None:
        return None
    host, port = found[1].strip("[]"), int(found[2] or 80)
    path = f"{(found[3] or '').rstrip('/')}/models"
    return ServerKind("OPENAI_BASE_URL", port, path, "openai-chat", host, is_own=True)


def probe_local_servers(
    kinds: Iterable[ServerKind] = WELL_KNOWN, seconds: float = _DEADLINE_SECONDS
) -> LocalServer | None:
    """Return the first server that answers with a model in time, else one that loads its model."""
    deadline = monotonic() + seconds
    # All are asked before any answer is read, so that they share one deadline.
    asked = [(kind, _ask(kind, seconds / 3)) for kind in kinds]
    answers = [(kind, _read(sock, deadline)) for kind, sock in asked if sock is not None]
    named = [(kind, first_model(answer)) for kind, answer in answers]
    named += [(kind, "") for kind, answer in answers if b" 503 " in answer.partition(b"\r\n")[0]]
    return next((_server(kind, name) for kind, name in named if name is not None), None)


def _server(kind: ServerKind, name: str) -> LocalServer:
    address = f"{kind.host}:{kind.port}"
    base_url = f"http://{address}/v1"
    if kind.is_own:
        variables = {}
    elif kind.provider == "ollama":
        variables = {"OLLAMA_BASE_URL": base_url}
    else:
        # These servers need no key, but the client sends one: a placeholder instead of a real one.
        variables = {"OPENAI_BASE_URL": base_url, "OPENAI_API_KEY": "none"}
    return LocalServer(kind.title, address, f"{kind.provider}:{name}", variables)


def _ask(kind: ServerKind, seconds: float) -> socket.socket | None:
    request = f"GET {kind.path} HTTP/1.0\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
    try:
        sock = socket.create_connection((kind.host, kind.port), timeout=seconds)
    except OSError:
        return None
    with suppress(OSError):  # then no answer comes either
        sock.sendall(request.encode())
    return sock


def _read(sock: socket.socket, deadline: float) -> bytes:
    received = b""
    with sock, suppress(OSError):  # it may be complete: a server needn't close the connection
        while len(received) < _MAX_BYTES and (left := deadline - monotonic()) > 0:
            sock.settimeout(left)
            if not (chunk := sock.recv(65536)):
                break
            received += chunk
    return received


def first_model(answer: bytes) -> str | None:
    """Return the name of the first usable model in a server's HTTP answer; None if none is."""
    head, _, body = answer.partition(b"\r\n\r\n")
    if b" 200 " not in head.split(b"\r\n", 1)[0] + b" ":
        return None
    from json import loads

    with suppress(ValueError, AttributeError, TypeError, RecursionError):
        listing: Any = loads(body)
        # Ollama lists `models` by `name`, the OpenAI form is `data` by `id`.
        entries: Any = listing.get("data") or listing.get("models") or []
        names = [str(entry.get("id") or entry.get("name") or "") for entry in entries]
        return next(filter(_USABLE.fullmatch, names), None)
    return None


def ask_own_server(env: Mapping[str, str]) -> str | None:
    """Return that the server here that variables name answers, or None; raises `OSError`."""
    named = (own_endpoint(env[name]) for name in env if name.endswith("_BASE_URL"))
    if (own := next(filter(None, named), None)) is None:
        return None
    if probe_local_servers([own], OWN_SECONDS) is None:
        raise OSError(f"the server at {own.host}:{own.port} doesn't answer")
    return f"the server at {own.host}:{own.port} answers"
