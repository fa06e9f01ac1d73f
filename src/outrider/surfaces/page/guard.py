"""Who may talk to the page: the browser that got the link, and no website by way of it.

A website can make a browser send requests here, and a name of its own can lead to loopback. So
every request has to name this server as its host, has to come from the page itself, and needs the
cookie that the link's token was exchanged for.
"""

from collections.abc import Mapping
from hmac import compare_digest

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

ADVICE = "Open the link that 'outrider view' printed: it has the token that this page needs."
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; "
    "form-action 'none'",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


def objection(method: str, headers: Mapping[str, str], port: int) -> str | None:
    """Return why a request can't be the page's own; None where nothing speaks against it."""
    host, origin = headers.get("host", ""), headers.get("origin")
    if host not in (f"127.0.0.1:{port}", f"localhost:{port}"):
        return f"This server is 127.0.0.1:{port}, and not {host[:100]!r}."
    if origin != f"http://{host}" and (origin is not None or method not in ("GET", "HEAD")):
        return f"Requests from {str(origin)[:100]!r} aren't answered."
    if headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
        return "Requests from another site aren't answered."
    return None


class Guard:
    """Lets through what the page asks, and puts the browser's own protection on all answers."""

    def __init__(self, app: ASGIApp, port: int, token: str) -> None:
        self._app, self._port, self._token = app, port, token
        self._cookie = f"outrider-{port}"  # a browser keeps those of all ports together

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        request, app = Request(scope), self._app
        if said := objection(request.method, request.headers, self._port):
            app = PlainTextResponse(said, 403)
        elif self._is_right(request.query_params.get("token", "")):
            app = RedirectResponse("/", 303)  # an address without the token, for all to see
            app.set_cookie(self._cookie, self._token, httponly=True, samesite="strict")
        elif not self._is_right(request.cookies.get(self._cookie, "")):
            app = PlainTextResponse(ADVICE, 403)

        async def protected(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        await app(scope, receive, protected)

    def _is_right(self, given: str) -> bool:
        return compare_digest(given.encode(errors="replace"), self._token.encode())
