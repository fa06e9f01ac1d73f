"""The hosts that the MCP server can be registered with, as data, and how to do it with each.

Their own commands aren't used: some refuse an entry that is there, or write variables as values.
"""

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from outrider.models.known_providers import NETWORK_VARIABLES, PROVIDERS
from outrider.protocol.data import as_list, as_object, member
from outrider.protocol.errors import ErrorCode, Refusal
from outrider.protocol.text import as_sentence
from outrider.protocol.tool_catalogue import CATALOGUE, keys_of
from outrider.schemas.values import is_array
from outrider.settings.places import home
from outrider.surfaces.jsonc import read_jsonc, with_member, without_member
from outrider.surfaces.user_files import read_text, replace_text

if TYPE_CHECKING:  # a server that starts doesn't load it
    from outrider.delegation.project import Project

NAME = "outrider"
MAX_ANSWER_SECONDS = 20
HELLO = b'{"jsonrpc":"2.0","id":1,"method":"initialize"}\n'
_BLANK = r"[ \t\r]*(?:#.*)?"  # what stands above the next table belongs to that
_TABLE = re.compile(
    rf"\n?^\[mcp_servers\.{NAME}[\].].*\n?(?:(?!(?:{_BLANK}\n)*(?:\[|{_BLANK}\Z)).*\n?)*", re.M
)


@dataclass(frozen=True)
class Host:
    """A host: its file of servers below HOME, and what has them there."""

    title: str
    file: str
    key: str
    base: str = "XDG_CONFIG_HOME"  # the variable with another place for the file's first folder
    fixed: dict[str, Any] = field(default_factory=dict[str, Any])  # what else an entry needs
    passes: str = ""  # what an entry calls the variables that it keeps from servers otherwise
    keeps: tuple[str, ...] = ()  # how those begin that it keeps even then
    is_pasted: bool = False  # whether the user edits the file

    @property
    def path(self) -> Path:
        """The file in which it keeps its servers: of two, the one with ours, or with comments."""
        folder, _, name = self.file.partition("/")
        named = os.environ.get(self.base, "")
        path = (Path(named) if os.path.isabs(named) else home(os.environ) / folder) / name
        there = [one for one in (path.with_suffix(".jsonc"), path) if one.exists()]
        return next(filter(self.server, there), (there or [path])[0])

    def server(self, path: Path) -> dict[str, Any]:
        """Return our server as a file has it; empty where it hasn't."""
        with suppress(OSError, ValueError):  # a file may hold anything
            text = read_text(path)
            read = tomllib.loads(text) if path.suffix == ".toml" else read_jsonc(text)
            return as_object(member(member(read, self.key), NAME))
        return {}

    def variables(self, project: "Project") -> list[str]:
        """Return the names of the variables that our server needs and doesn't get by itself."""
        names = dict.fromkeys(_variables(project) if self.passes else ())
        if self.passes == "env_vars":
            return [*names]
        # Others pass our settings on, and an empty one would be a fault.
        return [one for one in names if one.startswith(self.keeps or "") and one[:9] != "OUTRIDER_"]

    def remedy(self, name: str, variable: str) -> str:
        """Return what to do about a variable that our server, registered as `name`, doesn't get."""
        if not self.keeps:
            return f"run `outrider mcp install {name}` again where it is set"
        under = json.dumps({"env": {variable: "${MY_KEY}"}})[1:-1]
        return f"export it as MY_KEY too, and add {under} to the entry in {self.path}"

    def entry(self, variables: Sequence[str]) -> dict[str, Any]:
        """Return the server as the file should have it, with the names of variables to pass on."""
        # As it works in any folder: with -P, none can bring a module of the same name.
        script, there = Path(sys.executable).parent / "outrider", self.server(self.path)
        module = (sys.executable, "-P", "-m", "outrider")
        first, *rest = *((str(script),) if script.exists() else module), "mcp"
        in_parts = {"command": first, "args": rest}
        command = {"command": [first, *rest]} if self.key == "mcp" else in_parts
        # Where one isn't set, it refers to nothing, and not to this text.
        named: Any = {name: f"${{{name}:-}}" for name in variables if not self.keeps}
        if self.passes == "env_vars":
            kept = as_list(there.get("env_vars"))
            named = [*variables, *(one for one in kept if one not in variables)]
        elif self.passes:
            named |= as_object(there.get(self.passes))
        return {**self.fixed, **there, **command, **({self.passes: named} if named else {})}

    def plan(self, verb: str, variables: Sequence[str]) -> str:
        """Return in words what `change` does, or what the user has to do."""
        if verb == "remove":
            is_there = "" if self.server(self.path) else " (it isn't there)"
            return f"remove {self.key}.{NAME} from {self.path}{is_there}"
        entry = self.entry(variables)
        is_toml = self.path.suffix == ".toml"
        shown = _table(entry) if is_toml else json.dumps({self.key: {NAME: entry}}, indent=2)
        return f"add to {self.path}:\n{shown}"

    def change(self, verb: str, variables: Sequence[str]) -> None:
        """Add or remove the server, or leave all as it was and raise `Refusal`."""
        path, entry = self.path, self.entry(variables) if verb == "add" else None
        try:
            before = read_text(path)
            after = self._changed(before, entry)
            if after != before:
                if before and not self.server(path):  # it has what was there before us
                    replace_text(Path(f"{path.resolve()}.backup"), before, like=path)
                replace_text(path, after)
        except (OSError, ValueError) as error:
            problem = as_sentence(f"{path} is unchanged: {error}")
            hint = "Add --print to see how to do it by hand."
            raise Refusal(ErrorCode.INVALID_INPUT, f"{problem} {hint}") from None

    def _changed(self, text: str, entry: dict[str, Any] | None) -> str:
        """Return the file's text with the server, or without it; raises `ValueError`."""
        if self.path.suffix == ".toml":
            return _with_table(text, entry)
        place = (self.key, NAME)
        return without_member(text, place) if entry is None else with_member(text, place, entry)


_JSON, _LOCAL = "mcpServers", {"type": "local"}
HOSTS = {
    "claude": Host("Claude Code", "./.claude.json", _JSON, "CLAUDE_CONFIG_DIR", {"type": "stdio"}),
    "codex": Host("Codex", ".codex/config.toml", "mcp_servers", "CODEX_HOME", {}, "env_vars"),
    "gemini": Host("Gemini CLI", "./.gemini/settings.json", _JSON, "GEMINI_CLI_HOME", {}, "env"),
    "qwen": Host("Qwen Code", ".qwen/settings.json", _JSON, "QWEN_HOME"),
    "copilot": Host("Copilot CLI", ".copilot/mcp-config.json", _JSON, "COPILOT_HOME",
                    {**_LOCAL, "tools": ["*"]}, "env", ("OPENAI_", "ANTHROPIC_")),
    "opencode": Host("OpenCode", ".config/opencode/opencode.json", "mcp",
                     fixed={**_LOCAL, "enabled": True}),
    "cursor": Host("Cursor", ".cursor/mcp.json", _JSON, "", is_pasted=True),
    "vscode": Host("VS Code", ".config/Code/User/mcp.json", "servers", is_pasted=True),
}  # fmt: skip


def _with_table(text: str, entry: dict[str, Any] | None) -> str:
    kept = _TABLE.sub("", text)
    after = kept if entry is None else f"{kept}\n"[not kept :] + _table(entry)
    if _parted(after) != (entry, _parted(text)[1]):
        raise ValueError(f"mcp_servers.{NAME} isn't a table of its own")
    return after


def _parted(text: str) -> tuple[Any, Any]:
    """Return our server, and everything else."""
    read = tomllib.loads(text)
    servers = as_object(read.pop("mcp_servers", None))
    return servers.pop(NAME, None), (read, servers)


def _table(entry: dict[str, Any]) -> str:
    lines = (f"{name} = {_as_toml(value)}\n" for name, value in entry.items())
    return f"[mcp_servers.{NAME}]\n{''.join(lines)}"


def _as_toml(value: Any) -> str:
    if is_array(value):
        return f"[{', '.join(map(_as_toml, value))}]"
    if not isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False)
    pairs = (f"{json.dumps(name)} = {_as_toml(one)}" for name, one in as_object(value).items())
    return f"{{{', '.join(pairs)}}}"


def _variables(project: "Project") -> Iterator[str]:
    """Yield the keys that models need here, and all else that is read where it is set."""
    models = [one.model for one in map(project.choice, (None, *project.discovery.agents.values()))]
    providers = [PROVIDERS[name] for model in models if (name := model.split(":")[0]) in PROVIDERS]
    yield from (key for provider in providers for key in provider.keys)
    others = [*NETWORK_VARIABLES, "XDG_CONFIG_HOME", "XDG_STATE_HOME"]
    others += [name for provider in providers for name in provider.others]
    others += [key for tool in CATALOGUE for key in keys_of(tool)]
    others += [name for name in project.env if re.match("OUTRIDER_(?!SUBAGENT_)", name)]
    yield from (name for name in others if project.env.get(name, "").strip())


def advice_for(client: object, refusal: str) -> str:
    """Return what to do where a client's host keeps a variable that a refusal names; or nothing."""
    for name, host in HOSTS.items():
        lacking = re.search(r"\bset ([A-Z]+_[A-Z_]+)", refusal)
        if lacking and host.passes and name in str(client):
            return f" {host.title} may not pass it on: {host.remedy(name, lacking[1])}."
    return ""


def problem_of(entry: dict[str, Any]) -> str | None:
    """Start a registered server, and return why it doesn't answer; None where it does."""
    try:
        command: Any = entry.get("command")
        whole = [command] if isinstance(command, str) else command
        done = subprocess.run(
            [*whole, *entry.get("args", [])],
            input=HELLO, capture_output=True, timeout=MAX_ANSWER_SECONDS, check=True,
        )  # fmt: skip
    except (OSError, TypeError, ValueError, subprocess.SubprocessError) as error:
        return str(error)
    return None if b'"serverInfo"' in done.stdout else "it doesn't answer like an MCP server"
