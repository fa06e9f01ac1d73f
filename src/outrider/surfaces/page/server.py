"""The page's server: what it can be asked, and what it does for a person who says so."""

import asyncio
import os
import re
import secrets
import shlex
import socket
import subprocess
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from outrider.delegation.control import ask_run
from outrider.delegation.landing import land_run, writer_run
from outrider.delegation.request import invalid
from outrider.delegation.run_handle import RunHandle
from outrider.processes.shielding import finish
from outrider.protocol import jsonl
from outrider.protocol.changes import LandingConflict
from outrider.protocol.data import as_object, to_json
from outrider.protocol.errors import OutriderError, Refusal
from outrider.records.runs import RecordedRun, delete_run, find_run
from outrider.settings.places import runs_folder
from outrider.surfaces.page.guard import Guard
from outrider.surfaces.page.listing import Listing, rows_of, runs_with
from outrider.surfaces.page.record import changes_in, event_at, folder_of, head_of, run_news
from outrider.surfaces.text import clean_line

WEB = Path(__file__).with_name("web")
KINDS = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}
RUN_ID = re.compile(r"[0-9a-f]{8}")
MAX_STOP_SECONDS = 30.0


def listening(port: int) -> socket.socket:
    """Return a socket on loopback, and on nothing else; raises `Refusal`."""
    opened = socket.socket()
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind(("127.0.0.1", port))
        opened.listen()
    except (OSError, OverflowError) as error:
        opened.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise invalid(f"Port {port} can't be used: {reason}. Give another with --port.") from None
    return opened


class Page:
    """The page of all runs of a user, on one socket."""

    def __init__(self, opened: socket.socket, env: Mapping[str, str], editor: str | None) -> None:
        self._socket, self._env, self._editor = opened, env, editor
        self._runs, self._listing = runs_folder(env), Listing(runs_folder(env))
        self._token = secrets.token_urlsafe(32)
        self.port: int = opened.getsockname()[1]
        files = {f"/{one.name}": one for one in WEB.iterdir() if one.suffix in KINDS}
        self._files = {path: (one.read_bytes(), KINDS[one.suffix]) for path, one in files.items()}
        self._files["/"] = self._files.pop("/index.html")

    @property
    def link(self) -> str:
        """The address that opens the page, once or more often, with its token."""
        return f"http://127.0.0.1:{self.port}/?token={self._token}"

    def serve(self) -> None:
        """Answer until the process is told to end."""
        quiet: dict[str, Any] = {"log_config": None, "access_log": False, "server_header": False}
        plain: dict[str, Any] = {"http": "h11", "loop": "asyncio", "ws": "none", "lifespan": "off"}
        app = Guard(self._app(), self.port, self._token)
        config = uvicorn.Config(app, **quiet, **plain, timeout_graceful_shutdown=1)
        uvicorn.Server(config).run([self._socket])

    def _app(self) -> Starlette:
        one = "/api/runs/{run_id}"
        routes = [
            Route("/api/runs", self._list),
            Route("/api/rows", self._rows),
            Route("/api/search", self._search),
            Route(one, self._head),
            Route(one, self._act, methods=["POST"]),
            Route(f"{one}/news", self._news),
            Route(f"{one}/event", self._event),
            Route(f"{one}/changes", self._changes),
            *(Route(path, self._file) for path in self._files),
        ]
        told: Any = {LandingConflict: _conflict, Refusal: _refusal, OutriderError: _failure}
        return Starlette(routes=routes, exception_handlers={**told, OSError: _failure})

    def _run(self, request: Request) -> RecordedRun:
        """Return the run that a request names by its whole id; raises `Refusal`."""
        name = request.path_params["run_id"]
        if not RUN_ID.fullmatch(name):
            raise invalid(f"{clean_line(name)[:100]!r} is no run's id.")
        return find_run(self._runs, name)

    async def _file(self, request: Request) -> Response:
        content, kind = self._files[request.url.path]
        return Response(content, media_type=kind)

    async def _list(self, request: Request) -> Response:
        async def news() -> AsyncIterator[bytes]:
            async for rows, version in self._listing.news(_place(request)):
                yield _message("rows", rows, version)

        return StreamingResponse(news(), media_type="text/event-stream")

    async def _rows(self, request: Request) -> Response:
        names = request.query_params.get("ids", "").split(",")
        named = [one for one in names if RUN_ID.fullmatch(one)]
        return _json(await asyncio.to_thread(rows_of, self._runs, named))

    async def _search(self, request: Request) -> Response:
        words = request.query_params.get("words", "")
        return _json(await asyncio.to_thread(runs_with, self._runs, words))

    async def _head(self, request: Request) -> Response:
        return _json({**head_of(self._run(request)), "hasEditor": self._editor is not None})

    async def _news(self, request: Request) -> Response:
        run, start = self._run(request), _place(request)

        async def news() -> AsyncIterator[bytes]:
            async for kind, data, at in run_news(run.folder, start):
                yield _message(kind, data, at)

        return StreamingResponse(news(), media_type="text/event-stream")

    async def _event(self, request: Request) -> Response:
        return _json(event_at(self._run(request).folder, _number(request.query_params.get("at"))))

    async def _changes(self, request: Request) -> Response:
        return _json(await asyncio.to_thread(changes_in, self._run(request).id, self._env))

    async def _act(self, request: Request) -> Response:
        """Do what a person said yes to."""
        run, said = self._run(request), as_object(jsonl.decode(await request.body()))
        match said:
            case {"action": "tell", "text": str(text)}:
                return _json({"turn": await RunHandle(run.folder).tell(text)})
            case {"action": "stop"}:
                async with asyncio.timeout(MAX_STOP_SECONDS):
                    await ask_run(run.folder, {"stop": True})
            case {"action": "delete"}:
                if not await finish(asyncio.to_thread(delete_run, run.folder)):
                    raise invalid(f"Run {run.id} isn't deleted: it is running, or landing.")
            case {"action": "open", "path": str(path), "line": int(line)}:
                self._open(run, path, line)
            case {"action": "land" | "discard" | "undo" as action}:
                await finish(asyncio.to_thread(self._settle, run.id, action))
            case _:
                raise invalid("The action is none of stop, tell, land, discard, undo and delete.")
        return _json({})

    def _settle(self, run_id: str, action: str) -> None:
        """Do what the command of this name does; raises what it does."""
        run, _ = writer_run(run_id, self._env)
        does: dict[str, Callable[[], object]] = {"discard": run.discard, "undo": run.undo}
        does.get(action, lambda: land_run(run, self._env))()

    def _open(self, run: RecordedRun, path: str, line: int) -> None:
        """Open a file of the run's folder in the user's editor; raises `Refusal`."""
        top = Path(os.path.realpath(folder_of(run)))
        file = Path(os.path.realpath(top / path))
        if self._editor is None or not file.is_relative_to(top) or not file.is_file():
            raise invalid(f"{clean_line(path)[:200]!r} is no file in the folder of this run.")
        words = [one.replace("{line}", str(line)) for one in shlex.split(self._editor)]
        words, quiet = [one.replace("{path}", str(file)) for one in words], subprocess.DEVNULL
        subprocess.Popen(words, cwd=top, stdin=quiet, stdout=quiet, stderr=quiet)


def _number(given: str | None) -> int:
    """Return a place in a file; raises `Refusal`."""
    if given is None or not re.fullmatch(r"\d{1,15}", given, re.ASCII):
        raise invalid(f"{clean_line(str(given))[:100]!r} is no place in a transcript.")
    return int(given)


def _place(request: Request) -> int:
    """Return how far a reader of an event stream has come."""
    given = request.headers.get("last-event-id") or request.query_params.get("after")
    return _number(given or "0")


def _message(kind: str, data: Any, at: int) -> bytes:
    """Return a message of an event stream; a reader that is cut off goes on behind its `id`."""
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (at, kind.encode(), jsonl.encode(data))


def _json(data: Any, status: int = 200) -> Response:
    return Response(jsonl.encode(data), status, media_type="application/json")


async def _refusal(_request: Request, error: Any) -> Response:
    return _json({"error": error.message}, 400)


async def _conflict(_request: Request, error: Any) -> Response:
    said = "Nothing was changed, because of conflicts."
    return _json({"error": said, "conflicts": to_json(error.conflicts)}, 409)


async def _failure(_request: Request, error: Any) -> Response:
    return _json({"error": f"That failed: {clean_line(str(error)) or type(error).__name__}."}, 500)
