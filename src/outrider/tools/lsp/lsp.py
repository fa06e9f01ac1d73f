"""The tool `lsp`: definitions, references, calls and faults, as a language server knows them."""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, cast

from outrider.protocol.envelope import ToolCode, ToolFault
from outrider.tools.context import ToolContext
from outrider.tools.formatting import Arguments, Formatter
from outrider.tools.lsp import edits
from outrider.tools.lsp.client import LanguageServer
from outrider.tools.lsp.connection import plain
from outrider.tools.lsp.positions import SourceText, member, path_of, uri_of
from outrider.tools.lsp.servers import configured, program_for
from outrider.tools.lsp.session import LspSession, session_of
from outrider.tools.lsp.symbols import (
    Hit,
    entries,
    hits,
    listed,
    locations,
    matching,
    name_parts,
    name_place,
    symbols,
    word_at,
)  # fmt: skip
from outrider.tools.registry import tool
from outrider.workspaces.folder import containing
from outrider.workspaces.workspace import Place

TIMEOUT_MS = 900_000
"""Only a last resort: lsp.requestTimeoutMs and lsp.startTimeoutMs end what takes too long."""
MAX_TEXT_CHARACTERS = 4_000
MAX_CHECKED_FILES = 20
MAX_OPENED = 5
_SEVERITIES = {1: "error", 2: "warning", 3: "information", 4: "hint"}


def _format_long(data: Any, arguments: Arguments) -> str:
    lines = [data["title"], *data["text"]]
    for file in data["files"]:
        lines.append(file["path"])
        for one in file["lines"]:
            words = " | ".join(filter(None, (one["label"], one["text"])))
            lines.append(f"  {one['line']}:{one['column']}  {words}")
    return "\n".join([*lines, *(f"[{note}]" for note in data["notes"])])


def _format_short(data: Any, arguments: Arguments) -> str:
    return f"lsp {arguments['action']} → {data['title']}"


def _result(title: str, text: Iterable[str] = (), **more: Any) -> dict[str, Any]:
    return {"title": title, "text": list(text), "files": [], "notes": [], **more}


@dataclass(slots=True)
class Call:
    """What is asked, and of what: the place is found first, and then known to its server."""

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
    server: LanguageServer = cast("LanguageServer", None)  # from `open` on
    place: Place = cast("Place", None)
    source: SourceText = SourceText("")

    @property
    def file(self) -> dict[str, Any]:
        """The file, as servers take it."""
        return {"textDocument": {"uri": uri_of(self.place.path)}}

    async def open(self, path: str | None = None) -> "Call":
        """Make a file known to its server, as it is on the disk."""
        if (path := path or self.path) is None:
            raise ToolFault(ToolCode.BAD_PARAMETER, f"{self.action} needs a path")
        self.place = self.context.workspace.resolve(path)
        self.server = self.session.server_for(self.context, self.place)
        self.source = await self.server.open(self.place)
        self.context.effects.file_read(self.place.path)
        return self

    async def aim(self) -> "Call":
        """Find the place that is meant; raises `ToolFault` with a list where several are."""
        names = name_parts(self.symbol or "")
        if not names and not (self.path and self.line and self.column):
            message = "give path, line and column, or a symbol; path and line tell it from others"
            raise ToolFault(ToolCode.BAD_PARAMETER, message)
        if self.path is None:
            return await self._point_at(await self.in_tree(names))
        await self.open()
        if self.line is None and (declared := matching(await self.symbols(), names)):
            return await self._point_at(declared)
        if self.column is None:  # used there, and perhaps declared elsewhere
            at = word_at(self.source, names[-1], self.line or 1)
            if at is None or self.line not in (None, at[0]):
                where = f"line {self.line} of {self.place.shown}" if self.line else self.place.shown
                raise ToolFault(ToolCode.NOT_FOUND, f"there is no {names[-1]} in {where}")
            self.line, self.column = at
        return self

    async def _point_at(self, found: list[Hit]) -> "Call":
        if len(found) != 1:
            title = f"{len(found)} symbols are named {self.symbol}"
            message = f"{title}: give path and line, or the names that it is in"
            raise ToolFault(
                ToolCode.CONFLICT, message, _result(title, **listed(self.context, found))
            )
        await self.open(path_of(found[0].uri))
        self.line, self.column = name_place(self.source, found[0]) or (1, 1)
        return self

    async def symbols(self) -> list[Hit]:
        """Return what the file declares."""
        answer = await self.server.ask("textDocument/documentSymbol", self.file)
        return list(symbols(answer, uri_of(self.place.path)))

    async def in_tree(self, names: tuple[str, ...], *, exact: bool = True) -> list[Hit]:
        """Return the symbols of a name in the whole tree, of the first language that has it."""
        servers, roots = self.session.servers_for_tree(self.context), self.context.workspace.roots
        for self.server in servers:
            answer = await self.server.ask("workspace/symbol", {"query": names[-1]})
            found = [one for one in symbols(answer) if containing(roots, path_of(one.uri) or "")]
            if exact:
                named, found = matching(found, names[-1:]), matching(found, names)
                for uri in () if found else dict.fromkeys(one.uri for one in named[:MAX_OPENED]):
                    await self.open(path_of(uri))  # not every server tells what a symbol is in
                    found += matching(await self.symbols(), names)
            if found:
                return found
        asked = ", ".join(server.server.name for server in servers)
        raise ToolFault(ToolCode.NOT_FOUND, f"{asked} found no symbol {'.'.join(names)}")

    async def ask(self, method: str, **params: Any) -> Any:
        """Return what the server answers about the place."""
        position = self.source.to_server(self.line or 1, self.column or 1)
        asked = {**self.file, "position": position, **params}
        return await self.server.ask(f"textDocument/{method}", asked)

    def found(self, places: Iterable[Hit], *notes: str) -> dict[str, Any]:
        """Return places as the caller sees them."""
        name, listing = self.server.server.name, listed(self.context, places)
        total, files = listing["total"], listing["inFiles"]
        more = total - sum(len(file["lines"]) for file in listing["files"])
        said = [*notes, *([f"{more} more are not shown"] if more else [])]
        if self.server.loading:
            said.append(f"{name} is still loading: there may be more")
        title = f"{total} in {files} file{'s' if files != 1 else ''}, from {name}"
        return _result(title, notes=said, **listing)

    def told(self, words: Iterable[str]) -> dict[str, Any]:
        """Return a server's words as the caller sees them."""
        text = plain("\n".join(words), MAX_TEXT_CHARACTERS).strip()
        name, place = self.server.server.name, f"{self.place.shown}:{self.line}:{self.column}"
        return _result(f"{name} of {place}{'' if text else ': nothing'}", text.splitlines())


async def _locate(call: Call) -> dict[str, Any]:
    if call.action == "definition" and call.path is None and call.symbol:
        return call.found(await call.in_tree(name_parts(call.symbol)))
    await call.aim()
    method = "typeDefinition" if call.action == "type-definition" else call.action
    return call.found(locations(await call.ask(method, context={"includeDeclaration": True})))


async def _hover(call: Call) -> dict[str, Any]:
    await call.aim()
    return call.told(_words(member(await call.ask("hover"), "contents")))


def _words(contents: Any) -> list[str]:
    parts = cast("list[Any]", contents) if isinstance(contents, list) else [contents]
    return [str(member(part, "value") or (part if isinstance(part, str) else "")) for part in parts]


async def _signature(call: Call) -> dict[str, Any]:
    """Ask within the parentheses of a call; a declaration has only what hovering shows."""
    await call.aim()
    answer = await call.ask("signatureHelp")
    parenthesis = call.source.lines[(call.line or 1) - 1].find("(", (call.column or 1) - 1)
    if not entries(member(answer, "signatures")) and parenthesis >= 0:
        before, call.column = call.column, parenthesis + 2
        answer = await call.ask("signatureHelp")
        call.column = before
    found = entries(member(answer, "signatures"))
    if not found:
        return await _hover(call)
    documents = [word for one in found for word in _words(one.get("documentation"))]
    return call.told([*(str(one.get("label")) for one in found), *documents])


async def _symbols(call: Call) -> dict[str, Any]:
    return call.found(await (await call.open()).symbols())


async def _workspace_symbols(call: Call) -> dict[str, Any]:
    names = name_parts(call.query or call.symbol or "")
    if not names:
        raise ToolFault(ToolCode.BAD_PARAMETER, "workspace-symbols needs a query")
    return call.found(await call.in_tree(names, exact=False))


async def _calls(call: Call) -> dict[str, Any]:
    await call.aim()
    incoming = call.action == "incoming-calls"
    method = f"callHierarchy/{'incomingCalls' if incoming else 'outgoingCalls'}"
    places: list[Hit] = []
    for item in entries(await call.ask("prepareCallHierarchy")):
        for one in entries(await call.server.ask(method, {"item": item})):
            other = one["from" if incoming else "to"]
            spans = one["fromRanges"] if incoming else [other["selectionRange"]]
            places += [hit for span in spans for hit in hits(other["uri"], span, other["name"])]
    return call.found(places)


async def _diagnostics(call: Call) -> dict[str, Any]:
    await call.open()
    return call.found(_faults(call.place.path, await call.server.diagnostics(call.place)))


def _faults(path: str, items: Any) -> list[Hit]:
    found: list[Hit] = []
    for one in entries(items):
        code = f" [{one['code']}]" if isinstance(one.get("code"), str | int) else ""
        label = f"{_SEVERITIES.get(one.get('severity', 1), 'error')}: {one.get('message')}{code}"
        found += hits(uri_of(path), one.get("range"), label)
    return found


async def _workspace_diagnostics(call: Call) -> dict[str, Any]:
    call.server = (
        call.session.servers_for_tree(call.context)[0]
        if call.path is None
        else (await call.open()).server
    )
    reports, checked, total = await call.server.all_diagnostics(MAX_CHECKED_FILES)
    notes = [f"{checked} of {total} files were checked"] if checked < total else []
    return call.found([hit for path, items in reports for hit in _faults(path, items)], *notes)


async def _servers(call: Call) -> dict[str, Any]:
    around, lines = call.session.around(call.context), list[str]()
    for server in configured(call.session.config):
        program = program_for(server, around)
        roots = [root for name, root in call.session.servers if name == server.name]
        runs = f", runs in {', '.join(roots)}" if roots else ""
        lines.append(f"{server.language}: {server.name} {program.path or program.problem}{runs}")
    return _result(f"{len(lines)} language servers", lines)


async def _rename(call: Call) -> dict[str, Any]:
    if not call.new_name:
        raise ToolFault(ToolCode.BAD_PARAMETER, "rename needs newName")
    await call.aim()
    return _edited(call, await call.ask("rename", newName=call.new_name))


def _edited(call: Call, edit: Any) -> dict[str, Any]:
    changes = edits.planned(call.context, edit)
    if not changes:
        raise ToolFault(ToolCode.NOT_FOUND, f"{call.server.server.name} would change nothing")
    if not call.dry_run:
        edits.apply(call.context, changes)
    done = "would be changed" if call.dry_run else "changed"
    text = [f"{one.told['path']}\n{one.told['diff']}" for one in changes]
    return _result(f"{len(changes)} files {done}", text, changes=[one.told for one in changes])


async def _code_action(call: Call) -> dict[str, Any]:
    await call.open()
    line = call.line or 1
    end = call.source.to_server(line, len(call.source.lines[line - 1]) + 1)
    start = call.source.to_server(line, call.column or 1)
    near = [
        one
        for one in entries(await call.server.diagnostics(call.place))
        if one["range"]["start"]["line"] == line - 1
    ]
    asked = {"range": {"start": start, "end": end}, "context": {"diagnostics": near}}
    offered = {str(one.get("title")): one for one in entries(await call.ask("codeAction", **asked))}
    if call.query is None:
        return _result(f"{len(offered)} code actions", (plain(title, 200) for title in offered))
    if (chosen := offered.get(call.query)) is None:
        raise ToolFault(
            ToolCode.NOT_FOUND, f"no code action has this title; there are: {', '.join(offered)}"
        )
    return _edited(call, await call.server.edit_of(chosen))


async def _restart(call: Call) -> dict[str, Any]:
    await call.session.aclose()
    return await _servers(call) if call.path is None else await _symbols(call)


_HANDLERS: dict[str, Callable[[Call], Awaitable[dict[str, Any]]]] = {
    "hover": _hover, "signature": _signature, "symbols": _symbols, "diagnostics": _diagnostics,
    "workspace-diagnostics": _workspace_diagnostics, "servers": _servers,
    "workspace-symbols": _workspace_symbols, "incoming-calls": _calls, "outgoing-calls": _calls,
    "rename": _rename, "codeAction": _code_action, "restart": _restart,
}  # fmt: skip
Action = Literal[
    "definition", "references", "hover", "signature", "symbols", "diagnostics",
    "workspace-diagnostics", "servers", "implementation", "type-definition", "workspace-symbols",
    "incoming-calls", "outgoing-calls", "rename", "codeAction", "restart",
]  # fmt: skip


@tool("code:lsp", name="lsp", timeout_ms=TIMEOUT_MS, format=Formatter(_format_long, _format_short))
async def lsp(
    context: ToolContext,
    action: Action,
    path: Annotated[str | None, {"minLength": 1}] = None,
    line: Annotated[int | None, {"minimum": 1}] = None,
    column: Annotated[int | None, {"minimum": 1}] = None,
    symbol: Annotated[str | None, {"minLength": 1}] = None,
    query: Annotated[str | None, {"minLength": 1}] = None,
    new_name: Annotated[str | None, {"minLength": 1}] = None,
    dry_run: bool = False,
) -> dict[str, Any]:
    """Ask a language server about code: where something is defined, used, called, of what type it
    is, what a file declares, what is wrong with it. Name a place by path, line and column, or by
    a symbol.

    Args:
        path: The file, relative to the working tree.
        line: The line, from 1.
        column: The character in the line, from 1; a symbol does as well.
        symbol: `name` or `Class.method`, alone or with a path, or a line too.
        query: What workspace-symbols looks for; the title of the codeAction to apply.
        new_name: For rename.
        dry_run: Show what rename and codeAction would change.
    """
    session = session_of(context)
    session.check(action)
    call = Call(context, session, action, path, line, column, symbol, query, new_name, dry_run)
    try:
        return await _HANDLERS.get(action, _locate)(call)
    except (LookupError, TypeError, AttributeError) as fault:  # answers of any shape
        message = f"{action} was answered with something unexpected ({type(fault).__name__})"
        raise ToolFault(ToolCode.UPSTREAM_FAILED, message) from None
