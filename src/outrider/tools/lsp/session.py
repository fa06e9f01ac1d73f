"""What the `lsp` calls of one child share: its language servers, and what it may ask them."""

import asyncio
import os
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from outrider.protocol.envelope import ToolCode, ToolFault
from outrider.settings.keys import PRIVILEGED_LSP_ACTIONS, LspConfig
from outrider.tools.context import ToolContext
from outrider.tools.lsp import servers
from outrider.tools.lsp.client import LanguageServer
from outrider.tools.lsp.servers import Program, Surroundings
from outrider.workspaces.workspace import Place

MAX_LANGUAGES = 3
MAX_SERVERS = 4
"""How many run at once; of more, the one is ended that was asked longest ago."""


class LspSession:
    """The servers of one child, or of a person's command, one for each program and root."""

    def __init__(self, config: LspConfig, actions: Sequence[str], *, trusted: bool = False) -> None:
        """`trusted` says that the user trusts the repository: what lies in it may be run."""
        self.config = config
        self.trusted = trusted
        self.servers: dict[tuple[str, str], LanguageServer] = {}
        self._actions = actions
        self._ending: set[asyncio.Task[None]] = set()

    def check(self, action: str) -> None:
        """Raise `ToolFault` where an action isn't allowed."""
        if action not in self._actions:
            why = "subagents.allowedLspActions doesn't list it"
            if action in PRIVILEGED_LSP_ACTIONS:
                why = "it is never open to a child, and to others by lsp.tool.allowMutatingActions"
            message = f"{action} is not allowed: {why}. Allowed: {', '.join(self._actions)}"
            raise ToolFault(ToolCode.DENIED, message)

    def around(self, context: ToolContext) -> Surroundings:
        """Return where programs are looked for."""
        roots = context.workspace.roots
        return Surroundings.of(context.cwd, context.environment, roots, trusted=self.trusted)

    def server_for(self, context: ToolContext, place: Place) -> LanguageServer:
        """Return the server that knows a file; raises `ToolFault` where there is none."""
        program = servers.choose(place.path, self.config, self.around(context))
        return self._server(context, program, servers.root_of(place, program.server))

    def servers_for_tree(self, context: ToolContext) -> list[LanguageServer]:
        """Return the servers for the languages that the tree has most of, the first one first."""
        root, around = context.workspace.roots[0], self.around(context)
        code = [one for one in servers.configured(self.config) if one.root_markers]
        endings = tuple(ending for one in code for ending in one.file_types)
        found = Counter(
            os.path.splitext(path)[1] for path, _ in servers.source_files(root, endings)
        )
        programs: dict[str, Program] = {}
        for ending, _ in found.most_common():
            with suppress(ToolFault):
                program = servers.choose(f"any{ending}", self.config, around)
                programs.setdefault(program.server.name, program)
        if not programs:
            message = "no language server fits the files here: name a file with path"
            raise ToolFault(ToolCode.NOT_AVAILABLE, message)
        chosen = list(programs.values())[:MAX_LANGUAGES]
        return [self._server(context, program, root) for program in chosen]

    def _server(self, context: ToolContext, program: Program, root: str) -> LanguageServer:
        key = (program.server.name, root)
        if (server := self.servers.pop(key, None)) is None:
            inside = replace(context, environment=self.around(context).for_server())
            server = LanguageServer(program, root, inside, self.config)
        self.servers[key] = server  # what was asked last stands last
        if len(self.servers) > MAX_SERVERS:
            oldest = self.servers.pop(next(iter(self.servers)))
            self._ending.add(asyncio.create_task(oldest.aclose()))
        return server

    async def aclose(self) -> None:
        """End all servers."""
        self._ending |= {asyncio.create_task(server.aclose()) for server in self.servers.values()}
        self.servers.clear()
        while self._ending:
            await asyncio.wait({self._ending.pop()})
