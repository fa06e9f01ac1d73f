"""What a fetch over loopback costs with all its guards, beside plain `httpx2`.

    python3 -m benchmarks.web_client [requests]

Both ask one server for the same page in the same process, by turns: one request after the other
over a kept connection, and several at once. The aim is at most twice the time of `httpx2`. The
guarded client resolves and checks, keeps limits and deadlines, and has its cache switched on.
"""

import asyncio
import statistics
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx2

from outrider.settings.keys import WebConfig
from outrider.tools.web.client import WebClient

AIM = 2.0
ROUNDS = 9
AT_ONCE = 4
PAGE = b"<html><body>" + b"<p>Some text of a page.</p>" * 800 + b"</body></html>"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body in one piece, or the kernel waits between them
    disable_nagle_algorithm = True

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(PAGE)))
        if self.path == "/tagged":
            self.send_header("ETag", '"one"')
        self.end_headers()
        self.wfile.write(PAGE)

    def log_message(self, *_):
        pass


Fetch = Callable[[str], Awaitable[bytes]]


async def seconds(fetch: Fetch, url: str, requests: int, at_once: int) -> float:
    """Return the time of one request, where so many are made in groups."""
    begin = time.perf_counter()
    for _ in range(requests // at_once):
        bodies = await asyncio.gather(*(fetch(url) for _ in range(at_once)))
        assert all(body == PAGE for body in bodies)
    return (time.perf_counter() - begin) / requests


async def measure(base: str, requests: int) -> list[tuple[str, float, float]]:
    """Return for each way of asking the milliseconds of a request, guarded and plain."""
    guarded = WebClient(WebConfig(allow_private_network=True))
    rows: list[tuple[str, float, float]] = []
    async with httpx2.AsyncClient(trust_env=False) as plain:

        async def with_guard(url: str) -> bytes:
            return (await guarded.get(url)).body

        async def without(url: str) -> bytes:
            return (await plain.get(url)).content

        for name, path, at_once in (
            ("one after the other", "/", 1),
            (f"{AT_ONCE} at once", "/", AT_ONCE),
            ("with a validator", "/tagged", 1),
        ):
            both: tuple[list[float], list[float]] = ([], [])
            for _ in range(ROUNDS):
                for times, fetch in zip(both, (with_guard, without), strict=True):
                    times.append(await seconds(fetch, base + path, requests, at_once))
            rows.append((name, *(statistics.median(times) * 1000 for times in both)))
    await guarded.aclose()
    return rows


def main() -> None:
    """Print the table; end with 1 where the aim is missed."""
    requests = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    base = f"http://127.0.0.1:{server.server_address[1]}"
    rows = asyncio.run(measure(base, requests))
    print(f"{'':22}{'guarded':>10}{'httpx2':>10}{'ratio':>8}")
    for name, ours, theirs in rows:
        print(f"{name:22}{ours:8.2f}ms{theirs:8.2f}ms{ours / theirs:8.2f}")
    sys.exit(any(ours / theirs > AIM for name, ours, theirs in rows if "validator" not in name))


if __name__ == "__main__":
    main()
