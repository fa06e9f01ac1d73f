"""The report `doctor`: tries everything that a delegation needs, and tells what it found.

All checks run at the same time, each for a bounded time; one that fails itself is a finding too.
"""

import asyncio
import http.client
import os
import platform
import shutil
import site
import subprocess
import sys
import tempfile
import threading
import time
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from outrider import __version__
from outrider.agents.discovery import general_agent
from outrider.delegation.perform import Caller, perform
from outrider.delegation.project import Project, project_with
from outrider.delegation.request import Request, working_directory
from outrider.models.catalogue import EMBEDDED
from outrider.models.resolution import ModelChoice, is_embedded, needs
from outrider.processes.reaping import command_line, marked
from outrider.protocol.brief import RUN_VARIABLE
from outrider.protocol.catalogue import CATALOGUE
from outrider.protocol.envelope import ToolFault, is_success
from outrider.protocol.errors import Refusal
from outrider.protocol.results import WithheldTool
from outrider.records.runs import find_run
from outrider.settings import places
from outrider.settings.files import load_settings
from outrider.settings.keys import SEARCH_PROVIDERS, Config, LspConfig
from outrider.settings.layers import Settings
from outrider.surfaces.mcp import hosts
from outrider.surfaces.parser import CommandParser
from outrider.surfaces.reports import agents as listing, kernel
from outrider.surfaces.reports.modules import converter_state, model_choices, search_state
from outrider.surfaces.reports.report import Column, Report, Section
from outrider.surfaces.text import by_reason, count, duration
from outrider.surfaces.web_calls import TOOLS, call_tool
from outrider.tools.context import ToolContext
from outrider.tools.documents.conversion import convert_bytes, is_installed
from outrider.tools.files.ripgrep import ripgrep
from outrider.tools.formatting import error_line
from outrider.tools.loading import load_tools
from outrider.tools.lsp.client import LanguageServer
from outrider.tools.lsp.positions import member
from outrider.tools.lsp.servers import Program, Server, Surroundings, configured, program_for

EXAMPLES = """\
Nothing is guessed: ripgrep is run, a file is written, a child is started and
does a task. A check that fails is a finding, not a failure of the command: the
exit code is 0. Use --json to decide on single checks. What --online sends to a
model may cost a little.

examples:
  outrider doctor
  outrider doctor --online
  outrider doctor --json | jq '.checks[] | select(.status != "ok")'
"""

MIN_FREE_BYTES = 64 << 20
LOW_FREE_BYTES = 1 << 30
SERVER_TIMEOUT_SECONDS = 3.0
CHILD_TIMEOUT_MS = 60_000
MAX_CHECK_SECONDS = 90.0
NOTE = "The doctor's stethoscope hangs in the hall.\n"
SEARCHED = "weather"
TASK = "Where does the stethoscope hang?"
QUESTION = "Answer with the word yes."
NOT_ASKED = "not asked, --online does that"

COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}
COLUMNS = (
    Column("", "status", lambda check: COLOURS[check["status"]], least=4),
    Column("", lambda check: f"{check['name']}: {check['message']}"),
)
Status = Literal["ok", "warn", "fail"]
Findings = Iterable[tuple[Status, str]]
"""What one check finds: each status with what was found, and what to do if it isn't fine."""
Check = Callable[[], Findings]


def configure(parser: CommandParser) -> None:
    """Declare the arguments of `doctor`."""
    parser.add_cwd()
    words = "send a request to each search and model provider that has a key"
    parser.add_argument("--online", action="store_true", help=words)


def report(arguments: Namespace) -> Report:
    """Return what was found."""
    checks = list(_checks(working_directory(arguments.cwd), online=arguments.online))
    rows = [
        {"group": group, "name": name, "status": status, "message": message}
        for (group, name, _), found in zip(
            checks, _made([check[2] for check in checks]), strict=True
        )
        for status, message in found
    ]
    worst = max((row["status"] for row in rows), key=list(COLOURS).index)
    sections = (
        Section(COLUMNS, [row for row in rows if row["group"] == group], group, wraps=True)
        for group in dict.fromkeys(row["group"] for row in rows)
    )
    return Report("Doctor", {"status": worst, "checks": rows}, tuple(sections))


def _made(checks: list[Check]) -> list[Findings]:
    """Return what each check finds. Nobody waits for one that hangs, as a disk or a server may."""
    late: Findings = [("fail", f"no answer within {MAX_CHECK_SECONDS:.0f} s")]
    found: list[Findings] = [late for _ in checks]

    def make(number: int) -> None:
        try:
            found[number] = list(checks[number]())
        except (Exception, SystemExit) as error:
            found[number] = [("fail", f"it can't be checked: {type(error).__name__}: {error}")]

    threads = [threading.Thread(target=make, args=(n,), daemon=True) for n in range(len(checks))]
    give_up = time.monotonic() + MAX_CHECK_SECONDS
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, give_up - time.monotonic()))
    return found


def _checks(folder: Path, *, online: bool) -> Iterator[tuple[str, str, Check]]:
    """Yield the group and the name of every check, in the order of the report."""
    setup, models, web, system = "setup", "models", "web and documents", "system"
    servers = "language servers"
    try:
        settings, problem = load_settings(folder, os.environ), ""
    except Refusal as refusal:
        settings, problem = Settings(), refusal.message
    project, config = project_with(folder, os.environ, settings), settings.config
    runs = places.runs_folder(os.environ)
    yield setup, "platform", _platform
    yield setup, "configuration", partial(_configuration, folder, settings, problem)
    yield setup, "agents", partial(_agents, project)
    yield setup, "permissions", partial(_permissions, project)
    yield setup, "tools", _tools
    yield setup, "tools of your own", partial(_own_tools, config)
    yield setup, "hosts", _hosts
    for title, choice in model_choices(project):
        yield models, title, partial(_model, choice, title, online=online)
    for name in SEARCH_PROVIDERS:
        yield web, f"search with {name}", partial(_search, name, config, online=online)
    yield web, "converter", partial(_converter, config)
    yield system, "ripgrep", partial(_program, lambda: ripgrep([str(folder)]))
    yield system, "git", partial(_program, lambda: _git(folder))
    for server in configured(config.lsp):
        yield servers, server.name, partial(_language_server, server, project)
    yield system, "state folder", partial(_state_folder, runs)
    yield system, "disk", partial(_disk, runs)
    yield system, "confinement", _confinement
    yield system, "processes left over", partial(_left_over, project, runs)
    yield system, "child", _child


def _platform() -> Findings:
    found = f"Outrider {__version__}, Python {platform.python_version()} on {platform.platform()}"
    notes = {"Linux": "", "Darwin": "; children are started cold"}
    note = notes.get(platform.system(), "; only Linux and macOS are supported")
    yield "ok" if platform.system() in notes else "warn", f"{found}{note}"


def _configuration(folder: Path, settings: Settings, problem: str) -> Findings:
    if problem:
        yield "fail", problem
        return
    user = places.user_config_file(os.environ)
    project = places.project_config_file(folder, os.environ)
    files = [str(path) for path in (user, project) if path and path.exists()]
    yield "ok", " and ".join(files) or f"no file ({user}), so the defaults apply"
    for warning in settings.warnings:
        yield "warn", warning


def _agents(project: Project) -> Findings:
    for note in project.discovery.diagnostics:
        yield "fail" if note.severity == "error" else "warn", str(note)
    for sentence in listing.lost(project):
        yield "ok", sentence
    agents = project.discovery.agents
    yield "ok", f"{count(len(agents), 'agent')}: {', '.join(agents)}"


def _permissions(project: Project) -> Findings:
    """Tell what is allowed here, and for each agent what it gets and what is withheld."""
    settings = project.config.subagents
    writing = "agents that aren't readonly may write" if settings.allow_write else "no agent writes"
    yield "ok", f"subagents.allowWrite is {'on' if settings.allow_write else 'off'}: {writing}"
    trusted = "trusted" if project.trusted else "not in subagents.trustedProjects"
    policy = f"subagents.projectAgentPolicy is {settings.project_agent_policy}"
    yield "ok", f"this project is {trusted}; {policy}"
    actions = ", ".join(settings.allowed_lsp_actions) if settings.allow_lsp_tools else ""
    yield "ok", f"LSP actions for children: {actions or 'none'}"
    for agent in project.discovery.agents.values():
        row = listing.record(agent, project)
        without = f"; without {listing.without(row)}" if row["withheld"] else ""
        off = f"; it may not run: {row['mayRunReason']}" if row["mayRun"] == "refuse" else ""
        yield "ok", f"{agent.name} gets {', '.join(row['tools']) or 'no tools'}{without}{off}"


def _tools() -> Findings:
    tools = CATALOGUE.values()
    there = ", ".join(tool.name for tool in tools if not tool.missing)
    absent = [WithheldTool(tool.name, tool.missing) for tool in tools if tool.missing]
    # Not a warning: a tool that isn't installed is not a broken one.
    yield "ok", "; without ".join([there, *by_reason(absent)])


def _own_tools(config: Config) -> Findings:
    tools, problems = load_tools(config.tools.modules)
    if tools:
        yield "ok", ", ".join(sorted(tool.name for tool in tools))
    for problem in problems:
        yield "warn", problem


def _hosts() -> Findings:
    """Tell with which hosts the MCP server is registered, and try the command that they have."""
    for host, command in hosts.registered():
        problem = hosts.problem_of(command)
        where = f"{host.title} ({host.path})"
        yield ("warn", f"{where}: {problem}") if problem else ("ok", f"{where}: the server answers")


def _model(choice: ModelChoice, title: str, *, online: bool) -> Findings:
    """Check the model that answers for an agent that names none, or that of another provider."""
    named = f"{choice.model or 'none'} ({choice.reason})"
    if choice.problem:
        yield "fail" if title == "model" else "warn", f"{named}: {choice.problem}"
    elif is_embedded(choice.model):
        hint = "it finds and quotes, it doesn't reason; set a key such as OPENAI_API_KEY for more"
        yield "ok", f"{named}: {hint}"
    else:
        asked = partial(_delegated, QUESTION, choice.model, "", **choice.variables)
        status, message = asked() if online else _reached(choice)
        yield status, f"{named}: {message}"


def _reached(choice: ModelChoice) -> tuple[Status, str]:
    variables = choice.environment(os.environ)
    base = next((variables[name] for name in variables if name.endswith("_BASE_URL")), None)
    if base is not None:
        key = next((variables[name] for name in variables if name.endswith("_API_KEY")), None)
        return _server(base, key)
    key = next((name for name in needs(choice.model) if variables.get(name)), None)
    return "ok", f"{f'{key} is set' if key else 'no key is needed'}; {NOT_ASKED}"


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


def _search(provider: str, config: Config, *, online: bool) -> Findings:
    """Check a search provider: whether it would be asked and, if wanted, whether it answers."""
    on, reason = search_state(provider, config)
    if not on or not online:
        yield "ok", f"{reason}; {NOT_ASKED}" if on else reason
        return
    one = replace(config, web=replace(config.web, provider=provider))
    with tempfile.TemporaryDirectory(prefix="outrider-doctor-") as folder:
        search = call_tool(TOOLS["search"], {"query": SEARCHED}, one, folder)
        envelope, _ = asyncio.run(search)
    if is_success(envelope):
        yield "ok", f"{reason}; it answers"
    else:
        yield "fail", f"{reason}; {error_line(envelope)}"


def _converter(config: Config) -> Findings:
    """Convert a tiny document, where the package for that is installed."""
    if not is_installed():
        yield "ok", converter_state(config)[1]
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


def _program(find: Callable[[], str | None]) -> Findings:
    try:
        program = find()
        if program is None:
            yield "ok", "not installed; Outrider does without it"
            return
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


def _git(folder: Path) -> str | None:
    """Return the first git on PATH that isn't the project's own: that one is never run."""
    places_of_programs = filter(os.path.isabs, os.environ.get("PATH", "").split(os.pathsep))
    found = filter(None, (shutil.which("git", path=place) for place in places_of_programs))
    return next(
        (one for one in found if not Path(os.path.realpath(one)).is_relative_to(folder)), None
    )


def _language_server(server: Server, project: Project) -> Findings:
    """Start a language server that is installed, and see whether it answers."""
    around = Surroundings(project.plain_env, (str(project.folder),), project.trusted)
    # In an empty folder there is nothing of a repository that it could run.
    program = program_for(replace(server, runs=""), around)
    if not project.config.lsp.enabled:
        yield "ok", "lsp.enabled is off"
    elif program.path is None:
        yield "ok", program.problem
    else:
        with tempfile.TemporaryDirectory(prefix="outrider-doctor-") as folder:
            context = ToolContext(cwd=Path(folder), environment=around.for_server())
            yield asyncio.run(_answers(program, context, project.config.lsp))


async def _answers(program: Program, context: ToolContext, config: LspConfig) -> tuple[Status, str]:
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
    # The folder itself may be about to be made.
    place = next((one for one in (runs, *runs.parents) if one.is_dir()), None)
    with suppress(OSError):  # then the state folder's check says so
        free = shutil.disk_usage(place or "/").free
        message = f"{free / (1 << 30):,.1f} GiB free for runs"
        if free < MIN_FREE_BYTES:
            yield "fail", f"{message}; records would be cut short"
        else:
            yield "warn" if free < LOW_FREE_BYTES else "ok", message


def _confinement() -> Findings:
    """Tell what the kernel offers; only the converter's network namespace is in use today."""
    if sys.platform != "linux":
        return
    for name, (works, words) in kernel.offers().items():
        missed = name == "user namespaces" and not works
        lack = "; documents are converted without a network namespace" if missed else ""
        yield "warn" if missed else "ok", f"{name}: {words if works else f'no ({words})'}{lack}"


def _left_over(project: Project, runs: Path) -> Findings:
    """Look for processes of runs that have ended, by the variable that all of a run's have."""
    found = 0
    for pid, run_id in marked(RUN_VARIABLE):
        with suppress(Refusal, OSError):
            run = find_run(runs, run_id)
            if run.id == run_id and run.state != "running":
                found += 1
                command = project.masker.text(command_line(pid))
                yield "warn", f"process {pid} of run {run_id}: {command}; end it with: kill {pid}"
    if not found:
        yield "ok", "none"


def _child() -> Findings:
    yield _delegated(TASK, EMBEDDED, "notes.txt")


def _delegated(task: str, model: str, expected: str, **variables: str) -> tuple[Status, str]:
    """Delegate a small task in a folder of its own, away from the user's settings and runs."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OUTRIDER_")}
    with tempfile.TemporaryDirectory(prefix="outrider-doctor-") as place:
        work = Path(place, "work")
        work.mkdir()
        (work / "notes.txt").write_text(NOTE)
        env = {
            **kept,
            **variables,
            "HOME": place,
            "XDG_CONFIG_HOME": f"{place}/config",
            "OUTRIDER_HOME": f"{place}/state",
            # With another HOME, Python wouldn't find what was installed for this user only.
            "PYTHONUSERBASE": site.getuserbase(),
        }
        flags = {"subagents.timeoutMs": CHILD_TIMEOUT_MS, "warm.keepMinutes": 0}
        # A model that is only asked whether it answers needs no tools.
        asked = None if is_embedded(model) else replace(general_agent(), tools=())
        request = Request("explorer", task, model=model, cwd=work, definition=asked)
        begun = time.monotonic()
        result = asyncio.run(perform(request, Caller(env, flags=flags)))
    took = duration((time.monotonic() - begun) * 1000)
    if result.completed and expected in result.text:
        return "ok", f"a child was started and did a small task in {took}"
    error = result.details.error
    reason = error.message if error else "it answered, but didn't find what it was asked for"
    return "fail", f"a small task failed after {took}: {reason}"
