"""One language server for one root: in step with the disk, and patient while it loads.

Before each question it is told what has changed, in documents that were opened and in other files
of its root. A question that meets it loading is asked again when it has loaded.
"""

import asyncio
import os
import time
from collections.abc import Iterable, Mapping
from contextlib import aclosing, suppress
from functools import reduce
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from outrider.protocol.data import member
from outrider.settings.keys import LspConfig
from outrider.tools import ToolCode, ToolContext, ToolFault
from outrider.tools.lsp import known_servers
from outrider.tools.lsp.json_rpc import LspConnection
from outrider.tools.lsp.known_servers import ServerDescription, Stamp, source_files
from outrider.tools.lsp.positions import SourceText, entries, path_of, read_source, uri_of
from outrider.workspaces.place import Place

MAX_OPEN_DOCUMENTS = 20
MAX_LOADS = 500
MAX_CRASHES = 5  # in a row
MAX_ASKED = 3
BACK_OFF_SECONDS = 0.25
SETTLE_SECONDS = 0.5  # without another report, where a server doesn't name versions
_LOOK_AROUND_SECONDS = 0.02
_CREATED, _CHANGED, _DELETED = 1, 2, 3
_PROVIDERS = {
    "symbol": "workspaceSymbol",
    **dict.fromkeys(("prepareCallHierarchy", "incomingCalls", "outgoingCalls"), "callHierarchy"),
}
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


class LanguageServer(LspConnection):
    """One run of a server in its root, from the first question on."""

    def __init__(
        self,
        server: ServerDescription,
        root: str,
        context: ToolContext,
        config: LspConfig,
        crashes: int,
    ) -> None:
        super().__init__(server.name)
        self.server, self.root = server, root
        self.crashes = crashes  # how often it failed in a row before; none once it has answered
        self.info: Any = None  # name and version, as it says
        self.loading: set[str] = set()  # what it says it loads: its answers may lack something
        self.advice = ""  # what would help it to know more
        self._context = context
        self._request_seconds = config.request_timeout_ms / 1000
        self._start_seconds = config.start_timeout_ms / 1000
        self._starting: asyncio.Task[None] | None = None
        self._capabilities: Any = None
        self._folders = [{"uri": uri_of(root), "name": os.path.basename(root)}]
        self._loads = 0
        self._patient = self._pulls = True
        self._documents: dict[str, tuple[Place, str, int]] = {}  # with text and version
        self._reports: dict[str, tuple[list[Any], int | None, float]] = {}
        self._watched: dict[str, Stamp] = {}
        self._edits: list[Any] | None = None
        self._scratch: TemporaryDirectory[str] | None = None

    async def aclose(self) -> None:
        """End the server and all that it started; it is not started again."""
        if self._starting is not None and self._starting.cancel():
            await asyncio.wait({self._starting})
        await super().aclose()
        if self._scratch is not None:
            self._scratch.cleanup()

    async def start(self) -> None:
        """Wait until the server runs, started now if it wasn't; raises `ToolFault`."""
        if self.fault is None:
            self._starting = self._starting or asyncio.create_task(self._start())
            # A caller who gives up must not end what others wait for.
            await asyncio.shield(self._starting)
        if self.fault is not None:
            raise self.fault

    async def _start(self) -> None:
        # From a cell it doesn't see this process, and would take it for dead.
        watched = None if self._context.cells else os.getpid()
        hello: dict[str, Any] = {"processId": watched, "capabilities": _CAPABILITIES}
        hello |= {"rootUri": uri_of(self.root), "workspaceFolders": self._folders}
        try:
            if self.crashes >= MAX_CRASHES:
                raise self.failed("failed too often and won't be restarted", ToolCode.NOT_AVAILABLE)
            await asyncio.sleep(BACK_OFF_SECONDS * (2**self.crashes - 1))
            self._watched = dict(source_files(self.root, self.server.file_types))
            hello |= {"initializationOptions": self.server.settings()}
            given = self._context
            await self.launch(self._command(), self.root, given.environment, given.cells)
            told = await self.request("initialize", hello, self._start_seconds)
        except Exception as error:  # whatever it is: a server that has not failed isn't replaced
            fault = self.failed(f"can't be started: {error}", ToolCode.NOT_AVAILABLE)
            self.end(error if isinstance(error, ToolFault) else fault)
        else:
            self._capabilities, self.info = member(told, "capabilities"), member(told, "serverInfo")
            self.notify("initialized", {})

    def _command(self) -> list[str]:
        command = [str(self.server.path), *self.server.command[1:]]
        if "{commands}" in command[-1]:
            self._scratch = TemporaryDirectory(dir=self._context.spill_folder())
            self.advice = known_servers.write_compile_commands(self.root, self._scratch.name)
            command[-1] = command[-1].replace("{commands}", self._scratch.name)
        return command

    async def open(self, place: Place) -> SourceText:
        """Return the text of a file, which the server knows now as it is on the disk."""
        source = read_source(self._context.workspace, place)
        await self.start()
        self._tell(place, source.text)
        return source

    async def open_some(self, paths: Iterable[str]) -> list[Place]:
        """Open files, or any if there are none: some servers know only what open files need."""
        await self.start()
        opened = list[Place]()
        for path in [*dict.fromkeys(paths or self._watched)][:MAX_OPEN_DOCUMENTS]:
            with suppress(ToolFault):  # a link that leads out, or no text: passed over
                await self.open(place := self._context.workspace.resolve(path))
                opened.append(place)
        return opened

    async def ask(self, method: str, params: Any) -> Any:
        """Return the answer to a question, asked when the server has loaded what it loads."""
        await self.start()
        name = method.partition("/")[2]
        if not (self._knows(name) or name == "diagnostic"):
            how = f"doesn't support {name}; set lsp.preferred to another server"
            raise self.failed(how, ToolCode.TOO_LARGE)
        self._tell_changes()
        answer: Any = None
        for _ in range(MAX_ASKED):
            give_up = time.monotonic() + self._start_seconds
            while self.loading and self._patient and self.fault is None:
                await asyncio.sleep(_LOOK_AROUND_SECONDS)
                self._patient = time.monotonic() < give_up
            loads = self._loads
            answer = await self.request(method, params, self._request_seconds)
            if self._loads == loads:
                break
        self.crashes = 0
        return answer

    def _knows(self, name: str) -> Any:
        return member(self._capabilities, f"{_PROVIDERS.get(name, name)}Provider")

    async def diagnostics(self, place: Place) -> list[Any]:
        """Return what the server finds wrong with a file that was opened."""
        asked = {"textDocument": {"uri": uri_of(place.path)}}
        if self._pulls:
            try:
                told = await self.ask("textDocument/diagnostic", asked)
                return [] if told is None else told["items"]
            except ToolFault:  # some answer that don't say so; what others send unasked is enough
                self._pulls = bool(self._knows("diagnostic"))
                if self._pulls or self.fault is not None:
                    raise
        give_up = time.monotonic() + self._request_seconds
        while (items := self._settled(place.path)) is None:
            if time.monotonic() > give_up or self.fault is not None:
                late = self.failed(f"said nothing of {place.shown} in time", ToolCode.TIMEOUT)
                raise self.fault or late
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
        if member(self._knows("diagnostic"), "workspaceDiagnostics"):
            # Where nothing is wrong, a server may wait for a change; a result of the past that
            # doesn't exist any more always is one.
            past = [{"uri": uri_of(f"{self.root}/."), "value": "none"}]
            told = await self.ask("workspace/diagnostic", {"previousResultIds": past})
            items = entries(told["items"])
            return {path_of(one.get("uri")) or "/": one.get("items", []) for one in items}, 0
        found = dict[str, list[Any]]()
        files = sorted(path for path, _ in source_files(self.root, self.server.file_types))
        for place in await self.open_some(files):
            with suppress(ToolFault):  # not in time; the next one may be
                found[place.path] = await self.diagnostics(place)
        if self.fault is not None:
            raise self.fault
        return found, len(files)

    async def edit_of(self, action: dict[str, Any]) -> Any:
        """Return the edit that a code action makes, whichever of three ways it is told."""
        seconds = self._request_seconds
        if "edit" not in action and "data" in action and "command" not in action:
            action = await self.request("codeAction/resolve", action, seconds)
        if "edit" in action or "command" not in action:
            return action.get("edit")
        # A command, or what has one.
        named = action["command"] if member(action["command"], "command") else action
        asked = {key: member(named, key) for key in ("command", "arguments")}
        self._edits = edits = list[Any]()
        try:
            await self.request("workspace/executeCommand", asked, seconds)
        except ToolFault:  # it may have asked for the edit, and then for what only editors do
            if not edits:
                raise
        finally:
            self._edits = None
        return edits

    def _tell(self, place: Place, text: str) -> None:
        """Open a document at the server, or tell it the new text."""
        _, before, version = self._documents.pop(path := place.path, (place, None, 0))
        named: dict[str, Any] = {"uri": uri_of(path), "version": version + 1}
        if before is None:
            named |= {"languageId": self.server.language_id(path), "text": text}
            self.notify("textDocument/didOpen", {"textDocument": named})
        elif before != text:
            told = {"textDocument": named, "contentChanges": [{"text": text}]}
            self.notify("textDocument/didChange", told)
            self._reports.pop(path, None)
        self._documents[path] = (place, text, version + (before != text))
        if len(self._documents) > MAX_OPEN_DOCUMENTS:
            self._close(next(iter(self._documents)))

    def _close(self, path: str) -> None:
        del self._documents[path]
        self._reports.pop(path, None)
        self.notify("textDocument/didClose", {"textDocument": {"uri": uri_of(path)}})

    def _tell_changes(self) -> None:
        """Bring the server in step with the disk."""
        for path, (place, _, _) in list(self._documents.items()):
            try:
                self._tell(place, read_source(self._context.workspace, place).text)
            except ToolFault:  # it is gone, or no text any more
                self._close(path)
        old, new = self._watched, dict(source_files(self.root, self.server.file_types))
        self._watched = new
        kinds = {path: _CHANGED if path in old else _CREATED for path in new}
        kinds = {path: kind for path, kind in kinds.items() if old.get(path) != new[path]}
        # Of a large tree not all is seen: what isn't seen now may still be there.
        kinds |= {path: _DELETED for path in old if path not in new and not os.path.lexists(path)}
        if kinds:
            changes = [{"uri": uri_of(path), "type": kind} for path, kind in kinds.items()]
            self.notify("workspace/didChangeWatchedFiles", {"changes": changes})

    def answer(self, method: str, params: Any) -> Any:
        """Return what the server asks of an editor: settings, folders, an edit to make."""
        if method.startswith("client/") or method.endswith(("/refresh", "/create")):
            return None
        if method == "workspace/configuration":
            names = [one.get("section") or "" for one in params["items"]]
            return [reduce(member, name.split("."), self.server.settings()) for name in names]
        if method == "workspace/workspaceFolders":
            return self._folders
        if method == "workspace/applyEdit" and self._edits is not None:
            self._edits.append(params["edit"])
            return {"applied": True}
        return super().answer(method, params)

    def listen(self, method: str, params: Any) -> None:
        """Take note of what the server loads, and of what it finds wrong."""
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


async def ask_version(server: ServerDescription, env: Mapping[str, str], config: LspConfig) -> str:
    """Start a server in an empty folder, and return its version; raises `ToolFault`."""
    with TemporaryDirectory(prefix="outrider-lsp-") as folder:
        context = ToolContext(cwd=Path(folder), environment=env)
        async with aclosing(LanguageServer(server, folder, context, config, 0)) as opened:
            await opened.start()
    return str(member(opened.info, "version") or "")
