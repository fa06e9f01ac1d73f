"""Calling the file tools in a tree, as a child does."""

import contextlib
import hashlib
import os
import socket
from pathlib import Path
from typing import Any

from outrider.protocol.receipt import Receipt
from outrider.tools.context import ToolContext
from outrider.tools.executor import ToolExecutor, ToolOutcome
from outrider.tools.loading import builtin_tools

FILE_TOOLS = tuple(tool for tool in builtin_tools() if tool.resource == "file")


class FileTools:
    """The file tools over one working tree."""

    def __init__(self, cwd: Path, **settings: Any) -> None:
        self.context = ToolContext(cwd=cwd, **settings)
        self._executor = ToolExecutor(FILE_TOOLS, self.context)

    @property
    def receipt(self) -> Receipt:
        return self._executor.receipt

    async def call(self, name: str, **arguments: Any) -> ToolOutcome:
        return await self._executor.execute(name, arguments)

    async def code(self, name: str, **arguments: Any) -> int:
        return (await self.call(name, **arguments)).envelope["code"]

    async def text(self, name: str, **arguments: Any) -> str:
        outcome = await self.call(name, **arguments)
        assert outcome.envelope["code"] == 0, outcome.text
        return outcome.text

    async def data(self, name: str, **arguments: Any) -> Any:
        outcome = await self.call(name, **arguments)
        assert outcome.envelope["code"] == 0, outcome.text
        return outcome.envelope["data"]


def snapshot(folder: Path) -> dict[str, tuple[int, str]]:
    """Every path below a folder with its mode and a hash of what it holds."""
    found: dict[str, tuple[int, str]] = {}
    for root, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(root, name)
            status = path.lstat()
            if path.is_symlink():
                held = os.readlink(path)
            elif path.is_file():
                held = hashlib.sha256(path.read_bytes()).hexdigest()
            else:
                held = ""
            found[str(path.relative_to(folder))] = (status.st_mode, held)
    return found


def make_socket(path: Path) -> None:
    """Make a socket at a path of any length; an address has at most 107 bytes."""
    with contextlib.chdir(path.parent), socket.socket(socket.AF_UNIX) as made:
        made.bind(path.name)
