"""The tool `lsp`: definitions, references, calls and faults, as a language server knows them."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import reduce
from typing import Annotated, Any

from outrider.protocol.data import as_list, member
from outrider.settings.keys import PRIVILEGED_LSP_ACTIONS, READ_ONLY_LSP_ACTIONS
from outrider.tools import Arguments, Formatter, ToolCode, ToolContext, ToolFault, tool
from outrider.tools.files.ripgrep import narrowed_to, searching
from outrider.tools.lsp import edits, positions
from outrider.tools.lsp.json_rpc import ANY_SHAPE, plain
from outrider.tools.lsp.known_servers import configured, program_for
from outrider.tools.lsp.language_server import LanguageServer
from outrider.tools.lsp.positions import Hit, SourceText, entries, hit, path_of, uri_of
from outrider.tools.lsp.session import LspSession
from outrider.workspaces.path_guard import containing
from outrider.workspaces.place import Place

TIMEOUT_MS = 900_000  # a last resort: lsp.requestTimeoutMs and lsp.startTimeoutMs end it before
MAX_TEXT_CHARACTERS = 4_000
MAX_TITLE_CHARACTERS = 200
MAX_ALIKE = 10  # symbols of one name
_SEVERITIES = {1: "error", 2: "warning", 3: "information", 4: "hint"}
_ACTION = {"enum": [*READ_ONLY_LSP_ACTIONS, *PRIVILEGED_LSP_ACTIONS]}
_START_LINE = ("range", "start", "line")
_TEXT, _NUMBER = {"minLength": 1}, {"minimum": 1}


def _format_long(data: Any, arguments: Arguments) -> str:
    lines = [data["title"], *data["text"]]
    for file in data["files"]:
        lines.append(file["path"])
        for one in file["lines"]:
            words = " | ".join(filter(None, (one["label"], one["text"])))
            lines.append(f"  {one['line']}:{one['column']}  {words}")
    return "\n".join([*lines, *(f"[{note}]" for note in data["notes"])])


def _result(title: str, text: Iterable[str] = (), **more: Any) -> dict[str, Any]:
    return {"title": title, "text": list(text), "files": [], "notes": [], **more}


@dataclass(slots=True)
class _Call:
    """One call: the place that is meant is found first, and made known to its server."""

    context: ToolContext
    session: LspSession
    action: str
    path: str | None
    line: int | None
    column: int | None
    symbol: str | None
    query: str | None
    new_name: str | None
    dry_run: bool
    server: LanguageServer = field(init=False)
    place: Place = field(init=False)
    source: SourceText = field(init=False)
    asked: list[LanguageServer] = field(default_factory=list[LanguageServer])
    notes: list[str] = field(default_factory=list[str])

    async def open(self, path: str | None = None, among: Sequence[LanguageServer] = ()) -> None:
        """Make a file known to its server, as it is on the disk."""
        if (path := path or self.path) is None:
            raise ToolFault(ToolCode.BAD_PARAMETER, f"{self.action} needs a path")
        self.place = self.context.workspace.resolve(path)
        self.source = positions.read_source(self.context.workspace, self.place)
        known = [one for one in among if path.endswith(one.server.file_types)]
        self.server = (known or [self.session.server_for(self.context, self.place)])[0]
        self.asked = [self.server]
        await self.server.open(self.place)
        self.context.effects.file_read(self.place.path)

    async def aim(self) -> None:
        """Find the place that is meant; raises `ToolFault` with a list where several are."""
        names = positions.name_parts(self.symbol)
        if not names and not (self.path and self.line):
            message = "give path and line, perhaps a column, or a symbol"
            raise ToolFault(ToolCode.BAD_PARAMETER, message)
        if self.path is None:
            await self._point_at(await self.in_tree(names))
            return
        await self.open()
        if self.line is None and (found := positions.with_names(await self.ask_declared(), names)):
            await self._point_at(found)
        elif not names:
            self.column = self.column or positions.first_name(self.source, self.line or 1)
        elif self.column is None:  # used there, and perhaps declared elsewhere
            at = positions.word_at(self.source, names[-1], self.line or 1)
            if at is None or self.line not in (None, at[0]):
                where = f"line {self.line} of {self.place.shown}" if self.line else self.place.shown
                raise ToolFault(ToolCode.NOT_FOUND, f"there is no {names[-1]} in {where}")
            self.line, self.column = at

    async def _point_at(self, found: list[Hit]) -> None:
        found = await self.distinct(found)
        if len(found) != 1:
            title = f"{len(found)} symbols are named {self.symbol}"
            data = _result(title, **positions.read_places(self.context, found))
            lines = [{**one, **file} for file in data["files"] for one in file["lines"]]
            some = ", ".join(map("{path}:{line}:{column}".format_map, lines[:MAX_ALIKE]))
            message = f"{title}: give path and line of one, or more names; they are at {some}"
            raise ToolFault(ToolCode.CONFLICT, message, data)
        await self.open(path_of(found[0].uri))
        self.line, self.column = positions.name_place(self.source, found[0]) or (1, 1)

    async def distinct(self, found: list[Hit]) -> list[Hit]:
        """Return symbols without those that only declare another of them, as prototypes do."""
        ranked, servers = list[tuple[Any, Any, Any, Hit]](), self.asked
        for one in found if 1 < len(found) <= MAX_ALIKE else ():
            await self.open(one.where[0], servers)
            self.line, self.column = positions.name_place(self.source, one) or (1, 1)
            at = self.place.path, self.line - 1
            extents = [other.extent for other in await self.ask_declared() if other.line == at[1]]
            leads = positions.locations(await self.ask("definition"))
            ranked.append((max(extents, default=()), at, {to.where for to in leads}, one))
        # Asked at a definition, clangd names the prototype: of the two, the one with a body counts.
        ranked.sort(key=lambda one: one[0])
        rest = [{at for _, at, *_ in ranked[number:]} for number in range(1, len(ranked) + 1)]
        pairs = zip(ranked, rest, strict=True)
        return [one for (*_, leads, one), larger in pairs if larger.isdisjoint(leads)] or found

    async def ask_declared(self) -> list[Hit]:
        uri = uri_of(self.place.path)
        asked = {"textDocument": {"uri": uri}}
        return positions.symbols(await self.server.ask("textDocument/documentSymbol", asked), uri)

    async def in_tree(self, names: tuple[str, ...], *, exact: bool = True) -> list[Hit]:
        """Return the symbols of a name in the whole tree."""
        if not names:
            raise ToolFault(ToolCode.BAD_PARAMETER, f"{self.action} needs a name to look for")
        if not (found := await self.ask_all(lambda: self._named(names, exact))):
            asked = ", ".join(server.server.name for server in self.asked)
            advice = [server.advice for server in self.asked if server.advice]
            said = [f"{asked} found no symbol {'.'.join(names)!r}", *self.notes, *advice]
            raise ToolFault(ToolCode.NOT_FOUND, "; ".join(said))
        return found

    async def ask_all(self, ask: Callable[[], Awaitable[list[Hit]]]) -> list[Hit]:
        """Return what the tree's servers answer together; raises `ToolFault` if none does."""
        servers, self.notes = self.session.servers_for_tree(self.context)
        found, code = list[Hit](), ToolCode.UPSTREAM_FAILED.value
        for self.server in servers:
            try:
                found += await ask()
                self.asked.append(self.server)
            except ToolFault as fault:
                code = fault.code
                self.notes.append(fault.message)
            except ANY_SHAPE:
                self.notes.append(f"{self.server.server.name} gave an unexpected answer")
        if not self.asked:
            raise ToolFault(code, "; ".join(self.notes))
        return found

    async def _named(self, names: tuple[str, ...], exact: bool) -> list[Hit]:
        """Return the symbols that the server knows by a name, or that files with it declare."""
        likely = await asyncio.to_thread(_files_with, self, names[-1], exact)
        if exact and not likely:
            return []
        declared = await self._declared_in(likely)
        answer = positions.symbols(await self.server.ask("workspace/symbol", {"query": names[-1]}))
        roots = self.context.workspace.roots
        found = [one for one in answer if containing(roots, one.where[0])]
        if not exact:
            return found
        if not positions.with_names(found, names):
            # Not every server knows what isn't open, or tells what a symbol is in.
            told = [one.where[0] for one in positions.with_names(found, names[-1:])]
            declared += await self._declared_in(told) if told else ()
            found = [*dict.fromkeys(declared)]
        return positions.with_names(found, names)

    async def _declared_in(self, paths: Iterable[str]) -> list[Hit]:
        """Return what files declare; a server that has told it has read them."""
        found = list[Hit]()
        for place in await self.server.open_some(paths):
            self.place = place
            found += await self.ask_declared()
        return found

    async def ask(self, method: str, **params: Any) -> Any:
        """Return what the server answers about the place."""
        position = self.source.to_server(self.line or 1, self.column or 1)
        asked = {"textDocument": {"uri": uri_of(self.place.path)}, "position": position, **params}
        return await self.server.ask(f"textDocument/{method}", asked)

    def show(self, places: Iterable[Hit]) -> dict[str, Any]:
        """Return places as the caller sees them."""
        listing = positions.read_places(self.context, places)
        total, files = listing["total"], listing["inFiles"]
        more = total - sum(len(file["lines"]) for file in listing["files"])
        said = [*self.notes, *([f"{more} more are not shown"] if more else [])]
        names = {one.server.name: one.loading for one in self.asked}
        said += [f"{name} is still loading: there may be more" for name in names if names[name]]
        title = f"{total} in {files} file{'' if files == 1 else 's'}, from {', '.join(names)}"
        return _result(title, notes=said, **listing)

    def told(self, words: Iterable[str]) -> dict[str, Any]:
        """Return a server's words as the caller sees them."""
        text = plain("\n".join(words), MAX_TEXT_CHARACTERS).strip()
        place = f"{self.place.shown}:{self.line}:{self.column}{'' if text else ': nothing'}"
        return _result(f"{self.server.server.name} of {place}", text.splitlines())

    def make_edit(self, edit: Any) -> dict[str, Any]:
        """Make an edit, or show what it would change."""
        changes = edits.plan(self.context, edit)
        if not self.dry_run:
            edits.apply(self.context, changes)
        title = f"{len(changes)} files {'would be changed' if self.dry_run else 'changed'}"
        told = [one.told for one in changes]
        return _result(title, (f"{one['path']}\n{one['diff']}" for one in told), changes=told)


async def _answer(call: _Call) -> dict[str, Any]:
    match call.action:
        case "symbols":
            await call.open()
            return call.show(await call.ask_declared())
        case "workspace-symbols":
            names = positions.name_parts(call.query or call.symbol)
            return call.show(await call.in_tree(names, exact=False))
        case "diagnostics":
            await call.open()
            return call.show(_faults(call.place.path, await call.server.diagnostics(call.place)))
        case "workspace-diagnostics":
            return await _workspace_diagnostics(call)
        case "servers" | "restart":
            return await _servers(call)
        case "codeAction":
            return await _code_action(call)
        case "definition" if call.path is None and call.symbol:
            return call.show(await call.in_tree(positions.name_parts(call.symbol)))
        case "hover":
            await call.aim()
            return call.told(_words(member(await call.ask("hover"), "contents")))
        case "signature":
            await call.aim()
            return await _signature(call)
        case "incoming-calls" | "outgoing-calls":
            await call.aim()
            return await _calls(call)
        case "rename":
            if not call.new_name:
                raise ToolFault(ToolCode.BAD_PARAMETER, "rename needs newName")
            await call.aim()
            return call.make_edit(await call.ask("rename", newName=call.new_name))
        case _:
            await call.aim()
            asked = "typeDefinition" if call.action == "type-definition" else call.action
            answer = await call.ask(asked, context={"includeDeclaration": True})
            found = positions.locations(answer)
            return call.show(await _past_prototype(call, found) if asked == "definition" else found)


async def _past_prototype(call: _Call, found: list[Hit]) -> list[Hit]:
    """Return the definition whose name was asked at where the server has found its prototype."""
    line, column = call.line or 1, call.column or 1
    if len(found) == 1 and found[0].where != (call.place.path, line - 1):
        declared = [
            one
            for one in await call.ask_declared()
            if (at := positions.name_place(call.source, one) or (0, 0)) <= (line, column)
            and (line, column) <= (at[0], at[1] + len(one.names[-1]))
        ]
        with suppress(ToolFault):  # found in a library
            return (await call.distinct([*declared[:1], *found]))[:1]
    return found


def _files_with(call: _Call, name: str, exact: bool) -> list[str]:
    """Return the files of a server's languages that contain a name, as a word if it is exact."""
    workspace, root = call.context.workspace, call.server.root
    how = ["--null", "--fixed-strings", "--word-regexp" if exact else "--ignore-case"]
    how += narrowed_to([f"*{ending}" for ending in call.server.server.file_types])
    command = ["--files-with-matches", f"--regexp={name}", *how]
    opened = workspace.open_folder(workspace.resolve(root))
    with opened as folder, searching(call.context, command, folder) as search:
        return [f"{root}/{path}" for path in search.paths()]


def _words(contents: Any) -> list[str]:
    parts = as_list(contents) or [contents]
    return [str(member(part, "value") or (part if isinstance(part, str) else "")) for part in parts]


async def _signature(call: _Call) -> dict[str, Any]:
    """Ask within the parentheses of a call; a declaration has only what hovering shows."""
    found = entries(member(await call.ask("signatureHelp"), "signatures"))
    parenthesis = call.source.lines[(call.line or 1) - 1].find("(", (call.column or 1) - 1)
    if not found and parenthesis >= 0:
        before, call.column = call.column, parenthesis + 2
        found = entries(member(await call.ask("signatureHelp"), "signatures"))
        call.column = before
    if not found:
        return call.told(_words(member(await call.ask("hover"), "contents")))
    documents = [word for one in found for word in _words(one.get("documentation"))]
    return call.told([*(str(one.get("label")) for one in found), *documents])


async def _calls(call: _Call) -> dict[str, Any]:
    side = "from" if call.action == "incoming-calls" else "to"
    method = f"callHierarchy/{'incomingCalls' if side == 'from' else 'outgoingCalls'}"

    def calls(one: Any) -> list[Hit]:
        other = one[side]
        spans = one["fromRanges"] if side == "from" else other["selectionRange"]
        return positions.usable(spans, lambda span: [hit(other["uri"], span, other["name"])])

    places: list[Hit] = []
    for item in entries(await call.ask("prepareCallHierarchy")):
        places += positions.usable(await call.server.ask(method, {"item": item}), calls)
    return call.show(places)


async def _workspace_diagnostics(call: _Call) -> dict[str, Any]:
    async def ask() -> list[Hit]:
        reports, files = await call.server.all_diagnostics()
        if files > len(reports):
            call.notes.append(f"{len(reports)} of {files} files were checked")
        return positions.usable(list(reports), lambda path: _faults(path, reports[path]))

    if call.path is None:
        return call.show(await call.ask_all(ask))
    await call.open()
    return call.show(await ask())


def _faults(path: str, items: Any) -> list[Hit]:
    def fault(one: Any) -> list[Hit]:
        code = f" [{one['code']}]" if isinstance(one.get("code"), str | int) else ""
        severity = _SEVERITIES.get(one.get("severity", 1), "error")
        return [hit(uri_of(path), one["range"], f"{severity}: {one.get('message')}{code}")]

    return positions.usable(items, fault)


async def _servers(call: _Call) -> dict[str, Any]:
    if call.action == "restart":
        await call.session.aclose()
    programs, lines = call.session.programs(call.context), list[str]()
    for server in configured(call.session.config):
        found = program_for(server, programs)
        runs = [f", runs in {root}" for name, root in call.session.servers if name == server.name]
        where = f"{found.path or found.problem}{''.join(runs)}"
        lines.append(f"{server.language}: {server.name} {where}")
    return _result(f"{len(lines)} language servers", lines)


async def _code_action(call: _Call) -> dict[str, Any]:
    await call.open()
    line = call.line or 1
    start = call.source.to_server(line, call.column or 1)
    end = call.source.to_server(line, len(call.source.lines[line - 1]) + 1)
    items = entries(await call.server.diagnostics(call.place))
    near = [one for one in items if reduce(member, _START_LINE, one) == line - 1]
    asked = {"range": {"start": start, "end": end}, "context": {"diagnostics": near}}
    actions = entries(await call.ask("codeAction", **asked))
    offered = {plain(one.get("title"), MAX_TITLE_CHARACTERS): one for one in actions}
    if call.query is None:
        return _result(f"{len(offered)} code actions", offered)
    if call.query not in offered:
        message = f"no code action has this title; there are: {', '.join(offered)}"
        raise ToolFault(ToolCode.NOT_FOUND, message)
    return call.make_edit(await call.server.edit_of(offered[call.query]))


@tool("code:lsp", name="lsp", timeout_ms=TIMEOUT_MS, format=Formatter(_format_long))
async def lsp(
    context: ToolContext,
    action: Annotated[str, _ACTION],
    path: Annotated[str | None, _TEXT] = None,
    line: Annotated[int | None, _NUMBER] = None,
    column: Annotated[int | None, _NUMBER] = None,
    symbol: Annotated[str | None, _TEXT] = None,
    query: Annotated[str | None, _TEXT] = None,
    new_name: Annotated[str | None, _TEXT] = None,
    dry_run: bool = False,
) -> dict[str, Any]:
    """Ask a language server about code: where something is defined, used, called, of what type it
    is, what a file declares, what is wrong with it. Name a place by path, line and column, or by
    a symbol.

    Args:
        path: The file, relative to the working tree.
        line: The line, from 1.
        column: The character in the line, from 1; without it, the first name there is meant.
        symbol: `name` or `Class.method`, alone or with a path, or a line too.
        query: What workspace-symbols looks for; the title of the codeAction to apply.
        new_name: For rename.
        dry_run: Show what rename and codeAction would change.
    """
    session = context.lsp
    if not isinstance(session, LspSession):
        raise ToolFault(ToolCode.NOT_AVAILABLE, "Language servers are not set up here")
    session.check(action)
    call = _Call(context, session, action, path, line, column, symbol, query, new_name, dry_run)
    try:
        return await _answer(call)
    except ANY_SHAPE as fault:
        message = f"{action} was answered with something unexpected ({type(fault).__name__})"
        raise ToolFault(ToolCode.UPSTREAM_FAILED, message) from None
