"""What the `lsp` calls of one child share: its language servers, and what it may ask them."""

import asyncio
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from outrider.agents.lsp_permissions import why_no_lsp_action
from outrider.settings.keys import LspConfig
from outrider.tools import ToolCode, ToolContext, ToolFault
from outrider.tools.lsp import known_servers
from outrider.tools.lsp.known_servers import ServerDescription
from outrider.tools.lsp.language_server import LanguageServer
from outrider.workspaces.place import Place
from outrider.workspaces.trusted_programs import TrustedPrograms

MAX_SERVERS = 4  # how many run at once; of more, the one is ended that was asked longest ago


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
        if action not in self._actions:
            raise ToolFault(ToolCode.DENIED, why_no_lsp_action(action, self._actions))

    def programs(self, context: ToolContext) -> TrustedPrograms:
        roots = context.workspace.roots
        return TrustedPrograms.around(context.cwd, context.environment, roots, trusted=self.trusted)

    def server_for(self, context: ToolContext, place: Place) -> LanguageServer:
        """Return the server that knows a file; raises `ToolFault` where there is none."""
        server = known_servers.choose(place.path, self.config, self.programs(context))
        return self._open(context, server, known_servers.root_of(place, server))

    def servers_for_tree(self, context: ToolContext) -> tuple[list[LanguageServer], list[str]]:
        """Return the servers for the tree's languages, most files first, and which are missing."""
        root, programs = context.workspace.roots[0], self.programs(context)
        code = [one for one in known_servers.configured(self.config) if one.root_markers]
        endings = tuple(ending for one in code for ending in one.file_types)
        files = known_servers.source_files(root, endings)
        found = Counter(os.path.splitext(path)[1] for path, _ in files)
        chosen, missing = dict[str, ServerDescription](), dict[str, None]()
        for ending, _ in found.most_common():
            try:
                server = known_servers.choose(f"any{ending}", self.config, programs)
                chosen.setdefault(server.name, server)
            except ToolFault as fault:
                missing[fault.message] = None
        if not chosen:
            message = "no language server fits the files here: name a file with path"
            raise ToolFault(ToolCode.NOT_AVAILABLE, "; ".join(missing) or message)
        opened = [self._open(context, one, root) for one in [*chosen.values()][:MAX_SERVERS]]
        missing |= dict.fromkeys(f"{name} wasn't asked" for name in [*chosen][MAX_SERVERS:])
        return opened, [*missing]

    def _open(self, context: ToolContext, server: ServerDescription, root: str) -> LanguageServer:
        """Return the server of a root: the one that runs, or a new one."""
        key = (server.name, root)
        old = self.servers.pop(key, None)
        if old is not None and old.fault is None:
            self.servers[key] = old  # what was asked last stands last
            return old
        inside = replace(context, environment=self.programs(context).for_started())
        crashes = 1 + old.crashes if old else 0
        opened = self.servers[key] = LanguageServer(server, root, inside, self.config, crashes)
        if old is not None:
            self._end(old)
        if len(self.servers) > MAX_SERVERS:
            self._end(self.servers.pop(next(iter(self.servers))))
        return opened

    def _end(self, server: LanguageServer) -> None:
        ending = asyncio.create_task(server.aclose())
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)

    async def aclose(self) -> None:
        while self.servers:
            self._end(self.servers.popitem()[1])
        while self._ending:
            await asyncio.wait(self._ending)
