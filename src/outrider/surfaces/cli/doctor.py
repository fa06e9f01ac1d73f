"""`outrider doctor`: tries everything that a delegation needs, and reports what it found."""

import asyncio
import http.client
import os
import platform
import shutil
import site
import subprocess
import tempfile
import time
from argparse import Namespace
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from importlib import metadata
from itertools import zip_longest
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from outrider import __version__
from outrider.delegation.perform import Caller, perform
from outrider.delegation.project import Project, project_with
from outrider.delegation.request import Request, working_directory
from outrider.models.catalogue import EMBEDDED
from outrider.models.resolution import ModelChoice, is_embedded, needs
from outrider.protocol.catalogue import CATALOGUE, SEARCH_KEYS
from outrider.protocol.envelope import ToolFault, is_success
from outrider.protocol.errors import Refusal
from outrider.protocol.results import ToolResult, WithheldTool
from outrider.records.activity import host_and_path
from outrider.settings import places
from outrider.settings.files import load_settings
from outrider.settings.keys import SEARCH_PROVIDERS, Config, LspConfig
from outrider.settings.layers import Settings
from outrider.surfaces.cli import output
from outrider.surfaces.cli.parser import CommandParser
from outrider.surfaces.cli.text import by_reason, count, duration, one_line
from outrider.surfaces.cli.web import call_tool
from outrider.tools.context import ToolContext
from outrider.tools.documents.conversion import INSTALL, convert_bytes, is_installed
from outrider.tools.files.ripgrep import ripgrep
from outrider.tools.formatting import error_line
from outrider.tools.loading import load_tools
from outrider.tools.lsp.client import LanguageServer
from outrider.tools.lsp.positions import member
from outrider.tools.lsp.servers import Program, Surroundings, configured, program_for

EXAMPLES = """\
Nothing is guessed: ripgrep is run, a file is written, a child is started and does a task with
the embedded model. A check that fails is a finding, not a failure of the command: the exit
code is 0 whenever the report is complete. Use --json to decide on single checks.

examples:
  outrider doctor
  outrider doctor --online
  outrider doctor --json | jq '.checks[] | select(.status != "ok")'
"""

MIN_FREE_BYTES = 64 << 20
LOW_FREE_BYTES = 1 << 30
SERVER_TIMEOUT_SECONDS = 3.0
CHILD_TIMEOUT_MS = 60_000
NOTE = "The doctor's stethoscope hangs in the hall.\n"
SEARCHED = "weather"
TASK = "Where does the stethoscope hang?"

COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}
Status = Literal["ok", "warn", "fail"]
Findings = Iterable[tuple[Status, str]]
"""What one check finds: each status with what was found, and what to do if it isn't fine."""


def configure(parser: CommandParser) -> None:
    """Declare the arguments of `doctor`."""
    parser.add_cwd()
    parser.add_argument("--online", action="store_true", help="search the web with each provider")


def execute(arguments: Namespace) -> None:
    """Check everything, and report each finding as soon as it is there."""
    checks: list[dict[str, str]] = []
    for name, findings in _checks(working_directory(arguments.cwd), online=arguments.online):
        for status, message in findings:
            checks.append({"name": name, "status": status, "message": message})
            if not arguments.json:
                painted = output.coloured(f"{status:<4}", COLOURS[status])
                output.write(f"{painted}  {name}: {one_line(message)}\n")
                output.flush()
    if arguments.json:
        worst = max((check["status"] for check in checks), key=list(COLOURS).index)
        output.write_json({"status": worst, "checks": checks})


def _checks(folder: Path, *, online: bool) -> Iterator[tuple[str, Findings]]:
    """Yield the name and the findings of every check, in the order of the report."""
    yield "platform", _platform()
    try:
        settings = load_settings(folder, os.environ)
    except Refusal as refusal:
        settings = Settings()
        yield "configuration", [("fail", refusal.message)]
    else:
        yield "configuration", _configuration(folder, settings)
    project = project_with(folder, os.environ, settings)
    yield "agents", _agents(project)
    yield "tools", _tools()
    yield "tools of your own", _own_tools(settings)
    yield "model", _model(project)
    yield "ripgrep", _ripgrep(folder)
    for provider, key in zip_longest(SEARCH_PROVIDERS, SEARCH_KEYS):
        yield f"search with {provider}", _search(provider, key, settings.config, online=online)
    yield "converter", _converter(settings.config)
    yield from _language_servers(project)
    runs = places.runs_folder(os.environ)
    yield "state folder", _state_folder(runs)
    yield "disk", _disk(runs)
    yield "child", _child()


def _platform() -> Findings:
    found = f"Outrider {__version__}, Python {platform.python_version()} on {platform.platform()}"
    notes = {"Linux": "", "Darwin": "; children are started cold"}
    note = notes.get(platform.system())
    if note is None:
        yield "warn", f"{found}; only Linux and macOS are supported"
    else:
        yield "ok", f"{found}{note}"


def _configuration(folder: Path, settings: Settings) -> Findings:
    for warning in settings.warnings:
        yield "warn", warning
    if not settings.warnings:
        user = places.user_config_file(os.environ)
        project = places.project_config_file(folder, os.environ)
        files = [str(path) for path in (user, project) if path and path.exists()]
        yield "ok", " and ".join(files) or "no file, so the defaults apply"


def _agents(project: Project) -> Findings:
    for note in project.discovery.diagnostics:
        yield "fail" if note.severity == "error" else "warn", str(note)
    agents = project.discovery.agents
    yield "ok", f"{count(len(agents), 'agent')}: {', '.join(agents)}"


def _tools() -> Findings:
    tools = CATALOGUE.values()
    there = ", ".join(tool.name for tool in tools if not tool.missing)
    absent = [WithheldTool(tool.name, tool.missing) for tool in tools if tool.missing]
    # Not a warning: a tool that isn't installed is not a broken one.
    yield "ok", "; without ".join([there, *by_reason(absent)])


def _own_tools(settings: Settings) -> Findings:
    tools, problems = load_tools(settings.config.tools.modules)
    if tools:
        yield "ok", ", ".join(sorted(tool.name for tool in tools))
    for problem in problems:
        yield "warn", problem


def _model(project: Project) -> Findings:
    """Check the model that answers for an agent that names none."""
    choice = project.choice()
    named = f"{choice.model or 'none'} ({choice.reason})"
    if choice.problem:
        yield "fail", f"{named}: {choice.problem}"
    elif is_embedded(choice.model):
        hint = "it finds and quotes, it doesn't reason; set a key such as OPENAI_API_KEY for more"
        yield "ok", f"{named}: {hint}"
    else:
        status, message = _provider(choice)
        yield status, f"{named}: {message}"


def _provider(choice: ModelChoice) -> tuple[Status, str]:
    variables = choice.environment(os.environ)
    base = next((variables[name] for name in variables if name.endswith("_BASE_URL")), None)
    if base is not None:
        key = next((variables[name] for name in variables if name.endswith("_API_KEY")), None)
        return _server(base, key)
    key = next((name for name in needs(choice.model) if variables.get(name)), None)
    return "ok", f"{f'{key} is set' if key else 'no key is needed'}; the provider was not asked"


def _server(base: str, key: str | None) -> tuple[Status, str]:
    """Ask a model server for its list of models. No redirect is followed with the key."""
    try:
        address = urlsplit(base)
    except ValueError as error:
        return "fail", f"the server's address can't be read: {error}"
    host = address.netloc.rpartition("@")[2]  # without a user's name and password
    if not host or address.scheme not in ("http", "https"):
        return "fail", "the server's address isn't an http address"
    place = f"the server at {address.scheme}://{host}"
    secure = address.scheme == "https"
    kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        with closing(kind(host, timeout=SERVER_TIMEOUT_SECONDS)) as connection:
            connection.request("GET", f"{address.path.rstrip('/')}/models", headers=headers)
            status = connection.getresponse().status
    except (OSError, ValueError, http.client.HTTPException) as error:
        return "fail", f"{place} gives no answer: {error}"
    if status in (401, 403):
        return "fail", f"{place} refuses the key (status {status})"
    return "ok", f"{place} answers"


def _ripgrep(folder: Path) -> Findings:
    try:
        program = ripgrep([str(folder)])
        ran = subprocess.run(
            [program, "--version"], capture_output=True, text=True, timeout=10, check=True
        )
    except ToolFault as fault:
        yield "fail", str(fault)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        yield "fail", f"it is there, but doesn't run: {error}"
    else:
        version = next(iter(ran.stdout.splitlines()), "it prints no version")
        yield "ok", f"{version} ({program})"


def _search(provider: str, key: str | None, config: Config, *, online: bool) -> Findings:
    """Check a search provider: whether its key is there and, if asked to, whether it answers."""
    address = config.web.endpoints.get(provider)
    if key is not None and not os.environ.get(key) and not address:
        yield "ok", f"not used: {key} is not set"
        return
    reason = (
        f"it is at {host_and_path(address)}"
        if address
        else f"{key} is set"
        if key
        else "needs no key"
    )
    if not online:
        yield "ok", f"{reason}; not asked, --online does that"
        return
    one = replace(config, web=replace(config.web, provider=provider))
    with tempfile.TemporaryDirectory(prefix="outrider-doctor-") as folder:
        search = call_tool("web_search", {"query": SEARCHED}, one, folder)
        envelope, _ = asyncio.run(search)
    if is_success(envelope):
        yield "ok", f"{reason}; it answers"
    else:
        yield "fail", f"{reason}; {error_line(envelope)}"


def _converter(config: Config) -> Findings:
    """Convert a tiny document, where the package for that is installed."""
    if not is_installed():
        yield "ok", f"not installed; {INSTALL} lets children read PDF and Office files"
        return
    named = f"markitdown {metadata.version('markitdown')}"
    try:
        with tempfile.TemporaryDirectory(prefix="outrider-doctor-") as folder:
            context = ToolContext(cwd=Path(folder), convert=config.convert)
            works = "| 6 | 7 |" in convert_bytes(context, b"six,seven\n6,7\n", "doctor.csv")
    except (ToolFault, OSError) as fault:
        yield "fail", f"{named} is there, but doesn't work: {fault}"
    else:
        yield "ok" if works else "fail", f"{named} has converted a small table"


def _language_servers(project: Project) -> Iterator[tuple[str, Findings]]:
    """Start each language server that is installed, and see whether it answers."""
    around = Surroundings(project.plain_env, (str(project.folder),), project.trusted)
    # In an empty folder there is nothing that a server could run.
    servers = [replace(server, runs="") for server in configured(project.config.lsp)]
    with tempfile.TemporaryDirectory(prefix="outrider-doctor-") as folder:
        context = ToolContext(cwd=Path(folder), environment=around.for_server())
        for program in (program_for(server, around) for server in servers):
            finding = asyncio.run(_answers(program, context, project.config.lsp))
            yield f"language server {program.server.name}", [finding]


async def _answers(program: Program, context: ToolContext, config: LspConfig) -> tuple[Status, str]:
    if program.path is None:
        return "ok", program.problem
    server = LanguageServer(program, str(context.cwd), context, config)
    try:
        await server.start()
    except ToolFault as fault:
        return "warn", f"{program.path} is there, but doesn't work: {fault}"
    finally:
        await server.aclose()
    return "ok", f"{member(server.info, 'version') or 'it'} ({program.path}) answers"


def _state_folder(runs: Path) -> Findings:
    try:
        runs.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=runs) as file:
            file.write(b"doctor")
            file.flush()
        is_open = runs.stat().st_mode & 0o077
    except OSError as error:
        problem = f"{runs} can't be written: {error.strerror}"
        yield "fail", f"{problem}. OUTRIDER_HOME names another place."
        return
    if is_open:
        yield "warn", f"{runs} is open to others; close it with: chmod 700 {runs}"
    else:
        yield "ok", f"{runs} can be written, and is yours alone"


def _disk(runs: Path) -> Findings:
    with suppress(OSError):  # then the state folder's check has said so
        free = shutil.disk_usage(runs).free
        message = f"{free / (1 << 30):,.1f} GiB free for runs"
        if free < MIN_FREE_BYTES:
            yield "fail", f"{message}; records would be cut short"
        else:
            yield "warn" if free < LOW_FREE_BYTES else "ok", message


def _child() -> Findings:
    try:
        with tempfile.TemporaryDirectory(prefix="outrider-doctor-") as folder:
            start = time.monotonic()
            result = asyncio.run(_delegate(Path(folder)))
            took = duration((time.monotonic() - start) * 1000)
    except OSError as error:
        yield "fail", f"no temporary folder to try it in: {error}"
        return
    if result.completed and "notes.txt" in result.text:
        yield "ok", f"one was started and did a small task in {took}"
    else:
        error = result.details.error
        reason = error.message if error else "it answered, but didn't find what it was asked for"
        yield "fail", f"a small task failed after {took}: {reason}"


async def _delegate(folder: Path) -> ToolResult:
    """Delegate a small task in a folder of its own, away from the user's settings and runs."""
    work = folder / "work"
    work.mkdir()
    (work / "notes.txt").write_text(NOTE)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OUTRIDER_")}
    env = kept | {
        "HOME": str(folder),
        "XDG_CONFIG_HOME": str(folder / "config"),
        "OUTRIDER_HOME": str(folder / "state"),
        # With another HOME, Python wouldn't find what was installed for this user only.
        "PYTHONUSERBASE": site.getuserbase(),
    }
    flags = {"subagents.timeoutMs": CHILD_TIMEOUT_MS, "warm.keepMinutes": 0}
    request = Request("explorer", TASK, model=EMBEDDED, cwd=work)
    return await perform(request, Caller(env, flags=flags))
