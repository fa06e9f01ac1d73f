"""A real HTTP server on loopback for the web tools' tests."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True)
class Answer:
    """What a path gives."""

    body: bytes | str = b""
    kind: str = "text/html; charset=utf-8"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


Routes = dict[str, Answer | Callable[[BaseHTTPRequestHandler], None]]


@dataclass
class Server:
    """A running server: its routes can be changed, its requests seen."""

    port: int
    routes: Routes
    seen: list[str]

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    def url(self, path: str) -> str:
        return f"http://{self.host}{path}"


@contextmanager
def serving(routes: Routes | None = None) -> Iterator[Server]:
    """Serve a table of paths."""
    found = Server(0, routes if routes is not None else {}, [])

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            found.seen.append(self.path)
            answer = found.routes.get(
                self.path.partition("?")[0], Answer("no such page", status=404)
            )
            if callable(answer):
                answer(self)
                return
            body = answer.body.encode() if isinstance(answer.body, str) else answer.body
            self.send_response(answer.status)
            headers = {"Content-Type": answer.kind, "Content-Length": str(len(body))}
            for name, value in {**headers, **answer.headers}.items():
                if value:
                    self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        found.port = server.server_port
        try:
            yield found
        finally:
            server.shutdown()
            thread.join()
