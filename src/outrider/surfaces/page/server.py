"""The page's server: what it can be asked, and what it does for a person who says so."""

import asyncio
import os
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
from outrider.delegation.landing import settle, writer_run
from outrider.delegation.map.journal import maps_folder
from outrider.delegation.request import invalid
from outrider.delegation.run_handle import RunHandle
from outrider.processes.shielding import finish
from outrider.protocol import jsonl
from outrider.protocol.data import as_object, to_json
from outrider.protocol.errors import OutriderError
from outrider.records.runs import RecordedRun, delete_run, find_run
from outrider.settings.places import runs_folder
from outrider.surfaces.page import maps, runs
from outrider.surfaces.page.guard import Guard
from outrider.surfaces.page.listing import Listing
from outrider.surfaces.text import clean_line

WEB = Path(__file__).with_name("web")
KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
MAX_STOP_SECONDS = 30.0
Told = AsyncIterator[tuple[str, Any, int]]


def listening(port: int) -> socket.socket:
    """Return a socket on loopback, and on nothing else; raises `Refusal`."""
    opened = socket.socket()
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind(("127.0.0.1", port))
        opened.listen()
    except (OSError, OverflowError) as error:
        opened.close()
        reason = getattr(error, "strerror", None) or error
        raise invalid(f"Port {port} can't be used: {reason}. Give another with --port.") from None
    return opened


class Page:
    """The page of all runs of a user, on one socket."""

    def __init__(self, opened: socket.socket, env: Mapping[str, str], editor: str | None) -> None:
        self._socket, self._env, self._editor = opened, env, editor
        self._runs, self._listing = runs_folder(env), Listing(env)
        self._token = secrets.token_urlsafe(32)
        self.port: int = opened.getsockname()[1]

    @property
    def link(self) -> str:
        """The address that opens the page, with its token."""
        return f"http://127.0.0.1:{self.port}/?token={self._token}"

    def serve(self) -> None:
        """Answer until the process is told to end."""
        quiet: dict[str, Any] = {"log_config": None, "access_log": False, "server_header": False}
        plain: dict[str, Any] = {"http": "h11", "loop": "asyncio", "ws": "none", "lifespan": "off"}
        app = Guard(self._app(), self.port, self._token)
        config = uvicorn.Config(app, **quiet, **plain, timeout_graceful_shutdown=1)
        uvicorn.Server(config).run([self._socket])

    def _app(self) -> Starlette:
        files = {f"/{one.name}": one for one in WEB.iterdir()} | {"/": WEB / "index.html"}
        run = "/api/runs/{run_id}"
        routes = [
            *(Route(path, _file(file)) for path, file in files.items() if file.suffix in KINDS),
            Route("/api/runs", self._list),
            Route("/api/search", self._search),
            Route(run, self._head),
            Route(run, self._act, methods=["POST"]),
            Route(f"{run}/news", self._news),
            Route(f"{run}/events/{{begin:int}}", self._event),
            Route(f"{run}/changes", self._changes),
            Route("/api/maps/{map_id}", self._map),
            Route("/api/maps/{map_id}/news", self._map_news),
        ]
        failing: Any = dict.fromkeys((OutriderError, OSError, ValueError), _failed)
        return Starlette(routes=routes, exception_handlers=failing)

    def _run(self, request: Request) -> RecordedRun:
        """Return the run that a request names by its whole id; raises `Refusal`."""
        name = request.path_params["run_id"]
        if len(name) != 8 or not name.isalnum():
            raise invalid("A run is named by the eight digits of its id.")
        return find_run(self._runs, name)

    async def _list(self, request: Request) -> Response:
        rows = self._listing.news(_place(request))
        return _stream(("rows", some, version) async for some, version in rows)

    async def _search(self, request: Request) -> Response:
        words = request.query_params.get("words", "")
        return _json(await asyncio.to_thread(runs.runs_with, self._runs, words))

    async def _head(self, request: Request) -> Response:
        return _json({**runs.head_of(self._run(request)), "hasEditor": bool(self._editor)})

    async def _news(self, request: Request) -> Response:
        return _stream(runs.run_news(self._run(request).folder, _place(request)))

    async def _event(self, request: Request) -> Response:
        return _json(runs.event_at(self._run(request).folder, request.path_params["begin"]))

    async def _changes(self, request: Request) -> Response:
        run_id = self._run(request).id
        return _json(await finish(asyncio.to_thread(runs.changes_in, run_id, self._env)))

    async def _map(self, request: Request) -> Response:
        return _json(maps.row_of_map(self._journal(request), self._env))

    async def _map_news(self, request: Request) -> Response:
        return _stream(maps.map_news(self._journal(request), _place(request)))

    def _journal(self, request: Request) -> Path:
        return maps.find_map(maps_folder(self._env), request.path_params["map_id"])

    async def _act(self, request: Request) -> Response:
        """Do what a person said yes to."""
        run, told = self._run(request), None
        match as_object(jsonl.decode(await request.body())):
            case {"action": "tell", "text": str(text)}:
                told = {"turn": await RunHandle(run.folder).tell(text)}
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
                raise invalid("The page has no such action.")
        return _json(told)

    def _settle(self, run_id: str, action: str) -> None:
        settle(writer_run(run_id, self._env)[0], action, self._env)

    def _open(self, run: RecordedRun, path: str, line: int) -> None:
        """Open a file of the run's folder in the user's editor; raises `Refusal`."""
        top = Path(os.path.realpath(runs.folder_of(run)))
        file = Path(os.path.realpath(top / path))
        if not self._editor or not file.is_relative_to(top) or not file.is_file():
            raise invalid(f"{clean_line(path)[:200]!r} is no file in the folder of this run.")
        words = [one.replace("{line}", str(line)) for one in shlex.split(self._editor)]
        words, quiet = [one.replace("{path}", str(file)) for one in words], subprocess.DEVNULL
        subprocess.Popen(words, cwd=top, stdin=quiet, stdout=quiet, stderr=quiet)


def _file(file: Path) -> Callable[[Request], Response]:
    content = file.read_bytes()
    return lambda _request: Response(content, media_type=KINDS[file.suffix])


def _place(request: Request) -> int:
    """Return how far a reader of a stream has come; raises `ValueError`."""
    return int(request.headers.get("last-event-id") or request.query_params.get("after", "0"))


def _stream(messages: Told) -> Response:
    async def lines() -> AsyncIterator[bytes]:
        async for kind, data, at in messages:
            yield b"id: %d\nevent: %s\ndata: %s\n\n" % (at, kind.encode(), jsonl.encode(data))

    return StreamingResponse(lines(), media_type="text/event-stream")


def _json(data: Any, status: int = 200) -> Response:
    return Response(jsonl.encode(data), status, media_type="application/json")


async def _failed(_request: Request, error: Exception) -> Response:
    """Return what went wrong; a landing that conflicts says with which files."""
    conflicts = to_json(getattr(error, "conflicts", ()))
    said = "Nothing was changed, because of conflicts." if conflicts else clean_line(str(error))
    return _json({"error": said or "That took too long.", "conflicts": conflicts}, 400)
