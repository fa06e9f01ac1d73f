"""The hosts that the MCP server can be registered with, as data, and how to do it with each."""

import json
import os
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from outrider.protocol.data import as_object, member
from outrider.protocol.errors import ErrorCode, Refusal
from outrider.schemas.values import is_object
from outrider.settings.places import home

NAME = "outrider"
MAX_ANSWER_SECONDS = 20
HELLO = b'{"jsonrpc":"2.0","id":1,"method":"initialize"}\n'


@dataclass(frozen=True)
class Host:
    """A host: its file of servers below HOME, the entry that has them, and its own command."""

    title: str
    file: str
    key: str
    own: str = ""  # its command that adds or removes a server; else its file is edited
    dashes_at: int = 0  # before which word of the server's command it wants `--`
    is_pasted: bool = False  # whether the user edits the file

    @property
    def path(self) -> Path:
        """The file in which it keeps its servers."""
        return home(os.environ) / self.file

    def command(self, verb: str) -> list[str]:
        """Return its own command to `add` or `remove` the server."""
        server = own_command()
        server.insert(self.dashes_at, "--")
        return [*self.own.format(verb).split(), NAME, *(server if verb == "add" else [])]

    def entry(self) -> dict[str, Any]:
        """Return the server as the file has it."""
        first, *rest = own_command()
        if self.key == "mcp":
            return {"type": "local", "command": [first, *rest], "enabled": True}
        return {"command": first, "args": rest}

    def plan(self, verb: str) -> str:
        """Return in words what `change` does, or what the user has to do."""
        if self.own:
            return f"run: {shlex.join(self.command(verb))}"
        if verb == "remove":
            return f"remove {self.key}.{NAME} from {self.path}"
        return f"add to {self.path}:\n{json.dumps({self.key: {NAME: self.entry()}}, indent=2)}"

    def change(self, verb: str) -> None:
        """Add or remove the server; raises `Refusal`."""
        try:
            if self.own:
                subprocess.run(self.command(verb), check=True)
            else:
                self._edit(verb)
        except (OSError, ValueError, subprocess.CalledProcessError) as error:
            problem = f"{self.title} is unchanged: {error}"
            hint = "Add --print to see how to do it by hand."
            raise Refusal(ErrorCode.INVALID_INPUT, f"{problem}. {hint}") from None

    def _edit(self, verb: str) -> None:
        path, data = self.path.resolve(), {}
        new = path.with_suffix(".new")
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            data = json.loads(path.read_bytes())
            if not is_object(data):
                raise ValueError(f"{path} doesn't hold a JSON object")
            shutil.copy2(path, f"{path}.backup")
            shutil.copy2(path, new)  # with its mode: it may hold keys
        elif verb == "remove":
            return
        servers = as_object(data.get(self.key)) | {NAME: self.entry()}
        if verb == "remove":
            del servers[NAME]
        new.write_text(json.dumps({**data, self.key: servers}, indent=2) + "\n")
        new.replace(path)


HOSTS = {
    "claude": Host("Claude Code", ".claude.json", "mcpServers", "claude mcp {} --scope user"),
    "codex": Host("Codex", ".codex/config.toml", "mcp_servers", "codex mcp {}"),
    "gemini": Host("Gemini CLI", ".gemini/settings.json", "mcpServers", "gemini mcp {} -s user", 1),
    "qwen": Host("Qwen Code", ".qwen/settings.json", "mcpServers", "qwen mcp {} -s user", 1),
    "copilot": Host("Copilot CLI", ".copilot/mcp-config.json", "mcpServers", "copilot mcp {}"),
    "opencode": Host("OpenCode", ".config/opencode/opencode.json", "mcp"),
    "cursor": Host("Cursor", ".cursor/mcp.json", "mcpServers", is_pasted=True),
    "vscode": Host("VS Code", ".config/Code/User/mcp.json", "servers", is_pasted=True),
}


def own_command() -> list[str]:
    """Return the command of this server, as it works in any folder."""
    script = Path(sys.executable).parent / "outrider"
    # With -P, no folder that a host happens to be in can bring a module of the same name.
    module = [sys.executable, "-P", "-m", "outrider"]
    return [*([str(script)] if script.exists() else module), "mcp"]


def registered() -> Iterator[tuple[Host, list[str]]]:
    """Yield the hosts in whose file the server is, with the command that is there."""
    for host in HOSTS.values():
        with suppress(OSError, ValueError, TypeError):  # a file may hold anything
            text = host.path.read_text()
            read = tomllib.loads(text) if host.path.suffix == ".toml" else json.loads(text)
            if entry := as_object(member(member(read, host.key), NAME)):
                command = entry.get("command", [])
                whole = [command] if isinstance(command, str) else command
                yield host, [*whole, *entry.get("args", [])]


def problem_of(command: list[str]) -> str | None:
    """Start a registered server, and return why it doesn't answer; None where it does."""
    try:
        done = subprocess.run(
            command, input=HELLO, capture_output=True, timeout=MAX_ANSWER_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    return None if b'"serverInfo"' in done.stdout else "it doesn't answer like an MCP server"
