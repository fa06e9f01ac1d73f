"""The hosts that the server can be registered with, as data, and how that is done with each."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from outrider.protocol.errors import ErrorCode, Refusal
from outrider.settings.places import home
from outrider.surfaces.mcp.wire import Json, as_object, encoded

NAME = "outrider"
MAX_ANSWER_SECONDS = 20


@dataclass(frozen=True)
class Host:
    """A host: where it keeps its servers, and its own program to add and remove one, if any."""

    title: str
    file: str
    """Below HOME; of VS Code below the project."""
    key: str
    """The entry of the file that has all servers."""
    program: str = ""
    scope: tuple[str, ...] = ()

    @property
    def path(self) -> Path:
        """The file in which it keeps its servers."""
        return home(os.environ) / self.file

    def command(self, verb: str) -> list[str]:
        """Return its own command that adds or removes the server."""
        start = [self.program, "mcp", verb, *self.scope, NAME]
        first, *rest = own_command()
        if verb == "remove":
            return start
        return [*start, first, "--", *rest] if self.scope == _USER else [*start, "--", first, *rest]

    def entry(self) -> Json:
        """Return the server as the file has it."""
        first, *rest = own_command()
        if self.key == "mcp":
            return {"type": "local", "command": [first, *rest], "enabled": True}
        return {"command": first, "args": rest}


_USER = ("-s", "user")
HOSTS = {
    "claude": Host("Claude Code", ".claude.json", "mcpServers", "claude", ("--scope", "user")),
    "codex": Host("Codex", ".codex/config.toml", "mcp_servers", "codex"),
    "gemini": Host("Gemini CLI", ".gemini/settings.json", "mcpServers", "gemini", _USER),
    "qwen": Host("Qwen Code", ".qwen/settings.json", "mcpServers", "qwen", _USER),
    "copilot": Host("Copilot CLI", ".copilot/mcp-config.json", "mcpServers", "copilot"),
    "opencode": Host("OpenCode", ".config/opencode/opencode.json", "mcp"),
    "cursor": Host("Cursor", ".cursor/mcp.json", "mcpServers"),
    "vscode": Host("VS Code", ".vscode/mcp.json", "servers"),
}
PASTED = ("cursor", "vscode")


def own_command() -> list[str]:
    """Return the command of this server, as it works in any folder."""
    script = Path(sys.executable).parent / "outrider"
    # With -P, no folder that a host happens to be in can bring a module of the same name.
    module = [sys.executable, "-P", "-m", "outrider"]
    return [*([str(script)] if script.exists() else module), "mcp"]


def plan(name: str, verb: str) -> str:
    """Return in words what `change` will do, or what the user has to."""
    host = HOSTS[name]
    if host.program:
        import shlex

        return f"run: {shlex.join(host.command(verb))}"
    whole = json.dumps({host.key: {NAME: host.entry()}}, indent=2)
    does = "paste" if name in PASTED else "add"
    return (
        f"{does} this to {host.path}:\n{whole}"
        if verb == "add"
        else f"remove {host.key}.{NAME} from {host.path}"
    )


def change(name: str, verb: str) -> None:
    """Add the server to a host, or remove it; raises `Refusal`."""
    host = HOSTS[name]
    if not host.program:
        return _edit(host, verb)
    try:
        subprocess.run(host.command(verb), check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise _failed(f"{host.title} can't be changed: {error}") from None
    return None


def _edit(host: Host, verb: str) -> None:
    try:
        data = as_object(json.loads(host.path.read_bytes())) if host.path.exists() else {}
    except (OSError, ValueError) as error:
        raise _failed(f"{host.path} can't be read as JSON, so it isn't changed: {error}") from None
    servers = as_object(data.get(host.key))
    servers.pop(NAME, None)
    data[host.key] = servers | ({NAME: host.entry()} if verb == "add" else {})
    host.path.parent.mkdir(parents=True, exist_ok=True)
    if host.path.exists():
        shutil.copy2(host.path, f"{host.path}.backup")
    new = host.path.with_suffix(".new")
    new.write_text(json.dumps(data, indent=2) + "\n")
    new.replace(host.path)


def _failed(message: str) -> Refusal:
    advice = "`outrider mcp install HOST --print` shows what to do by hand."
    return Refusal(ErrorCode.INVALID_INPUT, f"{message}. {advice}")


def registered() -> Iterator[tuple[Host, list[str]]]:
    """Yield the hosts in whose file the server is, with the command that is there."""
    for host in HOSTS.values():
        with suppress(OSError, ValueError):
            entry = as_object(as_object(_read(host.path).get(host.key)).get(NAME))
            command = entry.get("command", [])
            if entry:
                yield (
                    host,
                    [command, *entry.get("args", [])] if isinstance(command, str) else command,
                )


def _read(path: Path) -> Json:
    if path.suffix != ".toml":
        return as_object(json.loads(path.read_bytes()))
    import tomllib

    return tomllib.loads(path.read_text())


def problem_of(command: list[str]) -> str | None:
    """Return why a server that is registered doesn't answer; None where it does."""
    hello = encoded({"id": 1, "method": "initialize", "params": {}})
    try:
        done = subprocess.run(
            command, input=hello, capture_output=True, timeout=MAX_ANSWER_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    return None if b'"serverInfo"' in done.stdout else "it doesn't answer as a server"
