"""Real HTTP and HTTPS servers on loopback, and a network in which public names lead to them."""

import json
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpcore2

PUBLIC = "93.184.216.34"
"""An address on the public internet; `Network` leads it to a server of the test."""


@dataclass
class Asked:
    """One request, as a server saw it."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Server:
    """A running server: what it was asked, and how many requests it had at once."""

    port: int
    routes: "dict[str, Answer]"
    asked: list[Asked] = field(default_factory=list)
    at_once: int = 0
    most_at_once: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    def paths(self) -> list[str]:
        return [one.path for one in self.asked]


class Handler(BaseHTTPRequestHandler):
    """Answers by path; what the test's function returns is sent, what it writes itself is not."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Any

    def handle_one_request(self) -> None:
        with suppress(OSError):
            super().handle_one_request()

    def log_message(self, *_: Any) -> None: ...

    def do_GET(self) -> None:
        seen: Server = self.server.seen
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        asked = Asked(
            self.command, self.path, {k.lower(): v for k, v in self.headers.items()}, body
        )
        with seen.lock:
            seen.asked.append(asked)
            seen.at_once += 1
            seen.most_at_once = max(seen.most_at_once, seen.at_once)
        try:
            routes = seen.routes
            route = routes.get(self.path.partition("?")[0]) or routes.get("*")
            answer = (404, {}, b"nothing here") if route is None else route
            self.answer(answer(self) if callable(answer) else answer)
        finally:
            with seen.lock:
                seen.at_once -= 1

    do_POST = do_CONNECT = do_GET  # noqa: N815

    def answer(self, answer: Any) -> None:
        if answer is None:
            self.close_connection = True
            return
        if isinstance(answer, (str, bytes)):
            answer = (200, {"Content-Type": "text/plain; charset=utf-8"}, answer)
        elif isinstance(answer, (dict, list)):
            answer = (200, {"Content-Type": "application/json"}, json.dumps(answer))
        status, headers, body = answer
        headers = {"Content-Type": headers} if isinstance(headers, str) else headers
        body = body.encode() if isinstance(body, str) else body
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if status != 304 and not {"Content-Length", "Transfer-Encoding"} & set(headers):
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def raw(self, data: bytes) -> None:
        """Send bytes as they are, and end the connection."""
        self.close_connection = True
        with suppress(OSError):
            self.wfile.write(data)


Answer = Callable[[Handler], Any] | tuple | str | bytes | dict | list
"""A body, or status, headers (or the content type alone) and body, or what makes these."""


class _Threaded(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, *_: Any) -> None: ...


@contextmanager
def serving(routes: dict[str, Any], tls: ssl.SSLContext | None = None) -> Iterator[Server]:
    """Serve a table of paths; `*` is any other path."""
    server: Any = _Threaded(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    server.seen = Server(server.server_address[1], routes)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server.seen
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class Network(httpcore2.AsyncNetworkBackend):
    """Records each address that is connected to; public ones lead to a server of the test."""

    def __init__(self, ports: Mapping[int, int] | None = None) -> None:
        """`ports` says which port of loopback stands for a public one."""
        self.connected: list[tuple[str, int]] = []
        self._ports = dict(ports or {})
        self._plain: Any = httpcore2.AnyIOBackend()

    async def connect_tcp(self, host: str, port: int, *args: Any, **options: Any) -> Any:
        self.connected.append((host, port))
        return await self._plain.connect_tcp(
            "127.0.0.1", self._ports.get(port, port), *args, **options
        )


class Names:
    """A resolver that the test controls; a list of lists is answered one after the other."""

    def __init__(self, **names: Sequence[Any]) -> None:
        self.names: dict[str, Any] = {
            name.replace("_", "."): found for name, found in names.items()
        }
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        found = self.names.get(host)
        if found is None:
            raise OSError(f"no such host: {host}")
        if found and isinstance(found[0], list):
            return found.pop(0) if len(found) > 1 else found[0]
        return found
