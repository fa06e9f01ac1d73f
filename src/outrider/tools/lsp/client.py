"""One language server for one root: in step with the disk, patient while it loads, started anew.

Before each question it is told what has changed, in documents that were opened and in other files
of its root. A question that meets it loading is asked again when it has loaded.
"""

import asyncio
import os
import time
from collections.abc import Mapping
from contextlib import aclosing, suppress
from functools import reduce
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from outrider.protocol.envelope import ToolCode, ToolFault
from outrider.settings.keys import LspConfig
from outrider.tools.context import ToolContext
from outrider.tools.lsp.connection import Connection
from outrider.tools.lsp.positions import SourceText, member, path_of, read_source, uri_of
from outrider.tools.lsp.servers import Program, Stamp, source_files, write_compile_commands
from outrider.workspaces.workspace import Place

MAX_OPEN_DOCUMENTS = 20
MAX_LOADS = 500
MAX_CRASHES = 5  # in a row
MAX_ASKED = 3
BACK_OFF_SECONDS = 0.25
SETTLE_SECONDS = 0.5  # without another report, where a server doesn't name versions
_LOOK_AROUND_SECONDS = 0.02
_CREATED, _CHANGED, _DELETED = 1, 2, 3
_PROVIDERS = {"symbol": "workspaceSymbol", "prepareCallHierarchy": "callHierarchy"}
_NAVIGATION = "callHierarchy definition diagnostic implementation references rename typeDefinition"
_MARKUP = ["plaintext", "markdown"]
_KINDS = {"codeActionKind": {"valueSet": ["quickfix", "refactor"]}}
_RESOLVED = {"dataSupport": True, "resolveSupport": {"properties": ["edit"]}}
_CAPABILITIES: dict[str, Any] = {
    "general": {"positionEncodings": ["utf-16"]},
    "window": {"workDoneProgress": True},
    "workspace": {
        **dict.fromkeys(("applyEdit", "configuration", "workspaceFolders"), True),
        "didChangeWatchedFiles": {"dynamicRegistration": True},
        "workspaceEdit": {"documentChanges": True},
    },
    "textDocument": {
        **{name: {} for name in _NAVIGATION.split()},
        "codeAction": {"codeActionLiteralSupport": _KINDS, **_RESOLVED},
        "documentSymbol": {"hierarchicalDocumentSymbolSupport": True},
        "hover": {"contentFormat": _MARKUP},
        "publishDiagnostics": {"versionSupport": True},
        "signatureHelp": {"signatureInformation": {"documentationFormat": _MARKUP}},
    },
}


class LanguageServer:
    """A server and its root; it runs from the first question on."""

    def __init__(
        self, program: Program, root: str, context: ToolContext, config: LspConfig
    ) -> None:
        self.server, self.root = program.server, root
        self.info: Any = None  # name and version, as it says
        self.loading: set[str] = set()
        """What it says that it is loading; its answers may lack something until it has."""
        self._program, self._context = program, context
        self._request_seconds = config.request_timeout_ms / 1000
        self._start_seconds = config.start_timeout_ms / 1000
        self._connection: Connection | None = None
        self._starting: asyncio.Task[Connection] | None = None
        self._capabilities: Any = None
        self._folders = [{"uri": uri_of(root), "name": os.path.basename(root)}]
        self._crashes = self._loads = 0
        self._patient = self._pulls = True
        self._documents: dict[str, tuple[Place, str, int]] = {}  # with text and version
        self._reports: dict[str, tuple[list[Any], int | None, float]] = {}
        self._watched: dict[str, Stamp] = {}
        self._edits: list[Any] | None = None
        self._scratch: TemporaryDirectory[str] | None = None

    async def aclose(self) -> None:
        """End the server and all that it started."""
        if (starting := self._starting) is not None and starting.cancel():
            await asyncio.wait({starting})
        if self._connection is not None:
            await self._connection.aclose()
        if self._scratch is not None:
            self._scratch.cleanup()

    async def start(self) -> Connection:
        """Return the running server, started now if it isn't there; raises `ToolFault`."""
        if self._connection is not None and self._connection.fault is None:
            return self._connection
        if self._starting is None:
            self._starting = asyncio.create_task(self._start())
            self._starting.add_done_callback(self._has_started)
        # A caller who gives up must not end what others wait for.
        return await asyncio.shield(self._starting)

    def _has_started(self, starting: "asyncio.Task[Connection]") -> None:
        self._starting = None
        if not starting.cancelled() and starting.exception() is not None:
            self._crashes += 1

    async def _start(self) -> Connection:
        if self._connection is not None:
            self._crashes, self._connection = self._crashes + 1, None
        if self._crashes >= MAX_CRASHES:
            raise self._fault("failed too often and isn't started again", ToolCode.NOT_AVAILABLE)
        await asyncio.sleep(BACK_OFF_SECONDS * (2**self._crashes - 1))
        for known in (self._documents, self._reports, self.loading):
            known.clear()
        self._watched = dict(source_files(self.root, self.server.file_types))
        hello = {"processId": os.getpid(), "capabilities": _CAPABILITIES}
        hello |= {"rootUri": uri_of(self.root), "workspaceFolders": self._folders}
        hello |= {"initializationOptions": self._program.options()}
        opened = Connection(self.server.name, await self._process(), self._answer, self._listen)
        try:
            told = await opened.request("initialize", hello, self._start_seconds)
        except BaseException:
            await opened.aclose()
            raise
        self._capabilities, self.info = member(told, "capabilities"), member(told, "serverInfo")
        opened.notify("initialized", {})
        self._connection = opened
        return opened

    def _fault(self, how: str, code: ToolCode = ToolCode.UPSTREAM_FAILED) -> ToolFault:
        return ToolFault(code, f"{self.server.name} {how}")

    async def _process(self) -> asyncio.subprocess.Process:
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), asyncio.subprocess.PIPE)
        command = [str(self._program.path), *self.server.command[1:]]
        if "{commands}" in command[-1]:
            self._scratch = self._scratch or TemporaryDirectory(dir=self._context.spill_folder())
            write_compile_commands(self.root, self._scratch.name)
            command[-1] = command[-1].replace("{commands}", self._scratch.name)
        try:
            return await asyncio.create_subprocess_exec(
                *command,
                **pipes,
                cwd=self.root,
                env=self._context.environment,
                start_new_session=True,
            )
        except OSError as error:
            how = f"can't be started ({command[0]}): {error.strerror}"
            raise self._fault(how, ToolCode.NOT_AVAILABLE) from None

    async def open(self, place: Place) -> SourceText:
        """Return the text of a file, which the server knows now as it is on the disk."""
        source = read_source(self._context.workspace, place)
        self._tell(await self.start(), place, source.text)
        return source

    async def ask(self, method: str, params: Any) -> Any:
        """Return the answer to a question, asked when the server has loaded what it loads."""
        connection, (kind, _, name) = await self.start(), method.partition("/")
        provider = f"{_PROVIDERS.get(name, name)}Provider"
        asked_anyway = kind == "callHierarchy" or name == "diagnostic"
        if not asked_anyway and not member(self._capabilities, provider):
            how = f"doesn't know {name}; lsp.preferred can name another server"
            raise self._fault(how, ToolCode.TOO_LARGE)
        self._tell_changes(connection)
        answer: Any = None
        for _ in range(MAX_ASKED):
            give_up = time.monotonic() + self._start_seconds
            while self.loading and self._patient and connection.fault is None:
                await asyncio.sleep(_LOOK_AROUND_SECONDS)
                self._patient = time.monotonic() < give_up
            loads = self._loads
            answer = await connection.request(method, params, self._request_seconds)
            if self._loads == loads:
                break
        self._crashes = 0
        return answer

    async def diagnostics(self, place: Place) -> list[Any]:
        """Return what the server finds wrong with a file that was opened."""
        connection, asked = await self.start(), {"textDocument": {"uri": uri_of(place.path)}}
        while self._pulls:
            try:
                return member(await self.ask("textDocument/diagnostic", asked), "items") or []
            except ToolFault:  # some answer that don't say so, others speak unasked
                self._pulls = bool(member(self._capabilities, "diagnosticProvider"))
                if self._pulls or connection.fault is not None:
                    raise
        give_up = time.monotonic() + self._request_seconds
        while (items := self._settled(place.path)) is None:
            if time.monotonic() > give_up or connection.fault is not None:
                late = self._fault(f"said nothing of {place.shown} in time", ToolCode.TIMEOUT)
                raise connection.fault or late
            await asyncio.sleep(_LOOK_AROUND_SECONDS)
        return items

    def _settled(self, path: str) -> list[Any] | None:
        document = self._documents.get(path)
        if path not in self._reports or document is None or self.loading:
            return None
        items, version, at = self._reports[path]
        is_late = time.monotonic() - at > SETTLE_SECONDS
        return items if (is_late if version is None else version >= document[2]) else None

    async def all_diagnostics(self) -> tuple[dict[str, list[Any]], int]:
        """Return what is wrong in each file that was checked, and how many files there are."""
        await self.start()
        if member(member(self._capabilities, "diagnosticProvider"), "workspaceDiagnostics"):
            # Where nothing is wrong, a server may wait for a change; a result of the past that
            # doesn't exist any more always is one.
            past = [{"uri": uri_of(f"{self.root}/."), "value": "none"}]
            told = await self.ask("workspace/diagnostic", {"previousResultIds": past})
            found = {path_of(one["uri"]) or "/": one.get("items", []) for one in told["items"]}
            return found, 0
        found = dict[str, list[Any]]()
        files = sorted(path for path, _ in source_files(self.root, self.server.file_types))
        for path in files[:MAX_OPEN_DOCUMENTS]:
            with suppress(ToolFault):  # a link that leads out, or no text: passed over
                await self.open(place := self._context.workspace.resolve(path))
                found[path] = await self.diagnostics(place)
        return found, len(files)

    async def edit_of(self, action: dict[str, Any]) -> Any:
        """Return the edit that a code action makes, whichever of three ways it is told."""
        connection, seconds = await self.start(), self._request_seconds
        if "edit" not in action and "data" in action and "command" not in action:
            action = await connection.request("codeAction/resolve", action, seconds)
        if "edit" in action or "command" not in action:
            return action.get("edit")
        # A command, or what has one.
        named = action["command"] if member(action["command"], "command") else action
        asked = {key: member(named, key) for key in ("command", "arguments")}
        self._edits = edits = list[Any]()
        try:
            await connection.request("workspace/executeCommand", asked, seconds)
        except ToolFault:  # it may have asked for the edit, and then for what only editors do
            if not edits:
                raise
        finally:
            self._edits = None
        return edits

    def _tell(self, connection: Connection, place: Place, text: str) -> None:
        """Open a document at the server, or tell it the new text."""
        _, before, version = self._documents.pop(path := place.path, (place, None, 0))
        named: dict[str, Any] = {"uri": uri_of(path), "version": version + 1}
        if before is None:
            named |= {"languageId": self.server.language_id(path), "text": text}
            connection.notify("textDocument/didOpen", {"textDocument": named})
        elif before != text:
            told = {"textDocument": named, "contentChanges": [{"text": text}]}
            connection.notify("textDocument/didChange", told)
            self._reports.pop(path, None)
        self._documents[path] = (place, text, version + (before != text))
        if len(self._documents) > MAX_OPEN_DOCUMENTS:
            self._close(connection, next(iter(self._documents)))

    def _close(self, connection: Connection, path: str) -> None:
        del self._documents[path]
        self._reports.pop(path, None)
        connection.notify("textDocument/didClose", {"textDocument": {"uri": uri_of(path)}})

    def _tell_changes(self, connection: Connection) -> None:
        """Bring the server in step with the disk."""
        for path, (place, _, _) in list(self._documents.items()):
            try:
                self._tell(connection, place, read_source(self._context.workspace, place).text)
            except ToolFault:  # it is gone, or no text any more
                self._close(connection, path)
        old, new = self._watched, dict(source_files(self.root, self.server.file_types))
        self._watched = new
        kinds = {path: _CHANGED if path in old else _CREATED for path in new}
        kinds = {path: kind for path, kind in kinds.items() if old.get(path) != new[path]}
        # Of a large tree not all is seen: what isn't seen now may still be there.
        kinds |= {path: _DELETED for path in old if path not in new and not os.path.lexists(path)}
        if kinds:
            changes = [{"uri": uri_of(path), "type": kind} for path, kind in kinds.items()]
            connection.notify("workspace/didChangeWatchedFiles", {"changes": changes})

    def _answer(self, method: str, params: Any) -> Any:
        if method.startswith("client/") or method.endswith(("/refresh", "/create")):
            return None
        if method == "workspace/configuration":
            names = [one.get("section") or "" for one in params["items"]]
            return [reduce(member, name.split("."), self._program.options()) for name in names]
        if method == "workspace/workspaceFolders":
            return self._folders
        if method == "workspace/applyEdit" and self._edits is not None:
            self._edits.append(params["edit"])
            return {"applied": True}
        raise LookupError(method)

    def _listen(self, method: str, params: Any) -> None:
        if method == "$/progress":
            token, kind = str(params["token"]), params["value"]["kind"]
            if kind == "begin" and len(self.loading) < MAX_LOADS:
                self.loading.add(token)
                self._loads += 1
            elif kind == "end":
                self.loading.discard(token)
        elif method == "textDocument/publishDiagnostics":
            told = (params["diagnostics"], params.get("version"), time.monotonic())
            self._reports |= {one: told for one in self._documents if one == path_of(params["uri"])}


async def version_of(program: Program, env: Mapping[str, str], config: LspConfig) -> str:
    """Start a server in an empty folder, and return its version; raises `ToolFault`."""
    with TemporaryDirectory(prefix="outrider-lsp-") as folder:
        context = ToolContext(cwd=Path(folder), environment=env)
        async with aclosing(LanguageServer(program, folder, context, config)) as server:
            await server.start()
    return str(member(server.info, "version") or "")
