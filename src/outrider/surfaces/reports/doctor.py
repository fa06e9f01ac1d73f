"""The report `doctor`: tries everything a delegation needs, at the same time and within limits."""

import asyncio
import os
import platform
import shutil
import subprocess
import tempfile
from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from outrider import __version__
from outrider.delegation.project import Project, project_with
from outrider.delegation.request import working_directory
from outrider.delegation.telemetry import telemetry_state
from outrider.delegation.trial import try_delegation, try_nodes
from outrider.models.known_providers import EMBEDDED
from outrider.models.local_servers import ask_own_server
from outrider.models.resolution import ModelChoice, is_embedded, needs
from outrider.processes.confinement import advice_on_namespaces, missing_in_cells
from outrider.processes.reaping import command_line
from outrider.processes.threads import in_thread
from outrider.protocol.envelope import ToolFault
from outrider.protocol.errors import Refusal
from outrider.protocol.tool_catalogue import CATALOGUE
from outrider.records.runs import left_over
from outrider.runtimes.pi.choices import INSTALL
from outrider.settings import places
from outrider.settings.files import load_settings
from outrider.settings.layers import Settings, effective
from outrider.surfaces import mcp_hosts
from outrider.surfaces.parser import CWD, argument, flag
from outrider.surfaces.reports import modules
from outrider.surfaces.reports.runs import landings
from outrider.surfaces.table import Column, Report, Row, Table
from outrider.surfaces.text import as_text, count, duration, withheld_from
from outrider.surfaces.tool_calls import search_once
from outrider.tools.documents.start_converter import try_converter
from outrider.tools.files.ripgrep import ripgrep
from outrider.tools.loading import load_tools
from outrider.tools.lsp.known_servers import ServerDescription
from outrider.tools.lsp.language_server import ask_version
from outrider.workspaces.trusted_programs import TrustedPrograms

EXAMPLES = """\
Tries everything for real: runs ripgrep, writes a file, gives a child a task.
The exit code is always 0. Requests sent with --online may cost money.

examples:
  outrider doctor --all
  outrider doctor --json | jq '.checks[] | select(.status == "fail")'
"""
ARGUMENTS = (
    CWD,
    flag("--all", "show every check, not only problems and a line for each group"),
    argument("--on", metavar="CLUSTER", help="check the nodes of a cluster instead: ray"),
    flag("--online", "also send a request to each provider that has a key"),
)

LOW_FREE_BYTES, MAX_CHECK_SECONDS, MAX_PROGRAM_SECONDS = 1 << 30, 90.0, 10.0
NOT_ASKED = "not tried without --online"
TROUBLE = (ToolFault, OSError, ValueError, subprocess.SubprocessError)
"""What a part raises that doesn't work."""
PERMISSIONS = ("allowWrite", "projectAgentPolicy", "allowLspTools", "allowedLspActions")
COLOURS = {"off": "dim", "ok": "green", "warn": "yellow", "fail": "red"}
MORE = "'outrider doctor --all' shows every check."
COLUMNS = (
    Column("", lambda check: f"{check['status']:<4}", lambda check: COLOURS[check["status"]]),
    Column("", lambda check: f"{check['name']}: {check['message']}"),
)
Findings = Iterable[tuple[str, str]]
"""What one check finds: each `ok`, `off` for what isn't used, `warn` or `fail`, with words."""
Check = Callable[[], Findings]


def report(arguments: Namespace) -> Report:
    folder, on = working_directory(arguments.cwd), arguments.on
    checks = list(try_nodes(on) if on else _checks(folder, online=arguments.online))
    rows = [
        {"group": group, "name": name, "status": status, "message": message}
        for (group, name, _), found in zip(checks, asyncio.run(_run_checks(checks)), strict=True)
        for status, message in found
    ]
    groups = {name: [one for one in rows if one["group"] == name] for name, _, _ in checks}
    data = {"status": _worst(rows), "checks": rows}
    if arguments.all or on:
        tables = (Table(COLUMNS, found, name, wraps=True) for name, found in groups.items())
        return Report(data, tuple(tables))
    problems = [one for one in rows if one["status"] in ("warn", "fail")]
    each = ((name, _worst(found), _counted(found)) for name, found in groups.items())
    sums = [{"name": name, "status": status, "message": said} for name, status, said in each]
    titled = Table(COLUMNS, problems, "problems", wraps=True), Table(COLUMNS, sums, "all checks")
    return Report(data, titled if problems else titled[1:], (MORE,))


def _worst(rows: Sequence[Row]) -> str:
    return max((row["status"] for row in rows), key=list(COLOURS).index)


def _counted(rows: Sequence[Row]) -> str:
    found = Counter(row["status"] for row in rows)
    return ", ".join(f"{found[status]} {status}" for status in reversed(COLOURS) if found[status])


async def _run_checks(checks: list[tuple[str, str, Check]]) -> list[Findings]:
    """Return what each check finds. Nobody waits for one that hangs, as a disk or a server may."""
    tasks = [asyncio.ensure_future(in_thread(_findings)(check)) for _, _, check in checks]
    await asyncio.wait(tasks, timeout=MAX_CHECK_SECONDS)
    late = [("warn", f"no answer within {MAX_CHECK_SECONDS:.0f} s")]
    return [task.result() if task.done() else late for task in tasks]


def _findings(check: Check) -> Findings:
    try:
        return list(check()) or [("ok", "none")]
    except (TimeoutError, subprocess.TimeoutExpired) as error:  # a busy machine is slow
        return [("warn", f"can't tell: {error}")]
    except TROUBLE as error:
        return [("fail", f"doesn't work: {error}")]
    except (Exception, SystemExit) as error:
        return [("fail", f"can't be checked: {type(error).__name__}: {error}")]


def _checks(folder: Path, *, online: bool) -> Iterator[tuple[str, str, Check]]:
    """Yield the group and the name of every check, in the order of the report."""
    try:
        settings, problem = load_settings(folder, os.environ), ""
    except Refusal as refusal:
        settings, problem = Settings(), refusal.message
    project = project_with(folder, os.environ, settings)
    runs = places.runs_folder(os.environ)
    programs = TrustedPrograms.around(folder, os.environ, trusted=False)
    git, bash = programs.find("git"), programs.find("bash") or shutil.which("bash", path=os.defpath)
    versions = f"Outrider {__version__}, Python {platform.python_version()}"
    yield "setup", "platform", lambda: [("ok", f"{versions} on {platform.platform()}")]
    yield "setup", "configuration", partial(_configuration, project, problem)
    yield "setup", "agents", partial(_agents, project)
    yield "setup", "permissions", partial(_permissions, project)
    yield "setup", "tools", partial(_tools, project)
    yield "setup", "hosts", partial(_hosts, project)
    yield "setup", "telemetry", lambda: [telemetry_state(project.config.telemetry, project.env)]
    for row, subject in modules.services(project):
        yield row["kind"], row["name"], partial(_service, row, subject, project, online)
    yield "system", "ripgrep", lambda: _program(ripgrep([str(folder)]))
    yield "system", "git", lambda: _program(git)
    yield "system", "bash", lambda: _program(bash, "the bash tool needs it", "warn")
    yield "system", "pi", lambda: _program(programs.find("pi"), f"install it with: {INSTALL}")
    yield "system", "state folder", partial(_state_folder, runs)
    yield "system", "confinement", _confinement
    yield "system", "background runs", partial(_background, programs.find("loginctl"))
    yield "system", "processes left over", partial(_left_over, project, runs)
    yield "system", "landings", partial(landings, runs)
    yield "system", "child", _child


def _configuration(project: Project, problem: str) -> Findings:
    user = places.user_config_file(os.environ)
    own = places.project_config_file(project.folder, os.environ)
    files = [str(path) for path in (user, own) if path and path.exists()]
    words = " and ".join(files) or f"no file ({user}); using the defaults"
    yield "fail" if problem else "ok", problem or words
    yield from (("warn", warning) for warning in project.settings.warnings)


def _agents(project: Project) -> Findings:
    """Tell of faulty and unused files, and of each agent what it gets and what is withheld."""
    for note in project.discovery.diagnostics:
        yield "fail" if note.severity == "error" else "warn", str(note)
    yield from (("ok", sentence) for sentence in project.discovery.lost)
    for agent in project.discovery.agents.values():
        row = project.about(agent)
        without = f"; without {withheld_from(row)}" if row["withheld"] else ""
        off = f"; can't run: {row['mayRunReason']}" if row["mayRun"] == "refuse" else ""
        yield "ok", f"{agent.name} gets {', '.join(row['tools']) or 'no tools'}{without}{off}"


def _permissions(project: Project) -> Findings:
    for key, value in effective(project.config):
        if key.name.removeprefix("subagents.") in PERMISSIONS:
            yield "ok", f"{key.name} is {as_text(value)}"
    yield "ok", f"this project is {'' if project.trusted else 'not '}in subagents.trustedProjects"


def _tools(project: Project) -> Findings:
    own, problems = load_tools(project.config.tools.modules)
    yield "ok", f"{count(len(CATALOGUE), 'tool')} built in, {len(own)} of your own"
    yield from (("warn", problem) for problem in problems)


def _hosts(project: Project) -> Findings:
    """Tell with which hosts the MCP server is registered, and try the command that they have."""
    for name, host in mcp_hosts.HOSTS.items():
        if not (entry := host.server(host.path)):
            continue
        problem = mcp_hosts.problem_of(entry)
        passed = as_text(entry.get(host.passes))
        kept = [one for one in host.variables(project) if f'"{one}"' not in passed]
        if kept and not problem:
            lack = f"doesn't get {', '.join(kept)}: {host.remedy(name, kept[0])}"
            problem = f"the server answers, but {lack}"
        words = f"{host.title} ({host.path}): {problem or 'the server answers'}"
        yield "warn" if problem else "ok", words


def _service(row: Row, subject: modules.Subject, project: Project, online: bool) -> Findings:
    """Try what is on: a model, a search provider, a language server, the converter."""
    why = row["why"]
    if row["on"]:
        for status, words in _findings(lambda: [("ok", _try_service(subject, project, online))]):
            yield status, f"{why}; {words}"
    elif isinstance(subject, ModelChoice):
        yield "fail" if subject.shown == project.choice().shown else "warn", why
    else:
        yield "off", why


def _try_service(subject: modules.Subject, project: Project, online: bool) -> str:
    match subject:
        case ModelChoice(model=model) if is_embedded(model):
            return "searches and quotes but doesn't reason; set a key such as OPENAI_API_KEY"
        case ModelChoice(model=model, variables=variables) if online:
            return f"did a small task in {duration(try_delegation(model, **variables)[0])}"
        case ModelChoice(model=model):
            key = "its key is set" if needs(model) else "no key is needed"
            return ask_own_server(subject.environment(os.environ)) or f"{key}, {NOT_ASKED}"
        case ServerDescription():
            around = TrustedPrograms.around
            env = around(project.folder, project.plain_env, trusted=project.trusted).for_started()
            version = asyncio.run(ask_version(subject, env, project.config.lsp))
            return f"{version or 'the server'} answers"
        case str():
            return search_once(subject, project.config) if online else NOT_ASKED
        case None:
            return try_converter(project.config.convert)


def _program(path: str | None, lack: str = "it isn't required", so: str = "off") -> Findings:
    if path is None:
        return [(so, f"not installed; {lack}")]
    version = _printed(path, "--version").partition(os.linesep)[0]
    return [("ok", f"{version or 'no version printed'} ({path})")]


def _printed(*command: str) -> str:
    """Return what a program prints; raises `SubprocessError` where it fails."""
    limit, nowhere = MAX_PROGRAM_SECONDS, subprocess.DEVNULL
    return subprocess.check_output(command, text=True, timeout=limit, stderr=nowhere)


def _state_folder(runs: Path) -> Findings:
    runs.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=runs) as file:
        file.write(b"doctor")
    is_open = runs.stat().st_mode & 0o077
    close = f"other users can read it; fix with: chmod 700 {runs}"
    yield "warn" if is_open else "ok", f"{runs}: {close if is_open else 'only you can read it'}"
    free = shutil.disk_usage(runs).free
    yield "warn" if free < LOW_FREE_BYTES else "ok", f"{free / (1 << 30):,.1f} GiB free for runs"


def _confinement() -> Findings:
    missing = missing_in_cells()
    for lack in missing:
        yield "warn", f"what children start is not fully confined here: {lack}"
    if not missing:
        yield "ok", "what children start has its own processes, network and files"
    elif advice := advice_on_namespaces():
        yield "warn", advice


def _background(loginctl: str | None) -> Findings:
    """Ask logind whether it ends what a user has left running."""
    asked = "show-session", "--property=KillUserProcesses"  # of logind itself without a session
    with suppress(subprocess.CalledProcessError):  # it is installed, and isn't at work
        if loginctl and "KillUserProcesses=yes" in _printed(loginctl, *asked):
            killed = "logind ends them with your session (KillUserProcesses=yes); start them with: "
            return [("warn", f"{killed}systemd-run --user --scope outrider run --bg")]
    return [("ok", "they survive the end of a session")]


def _left_over(project: Project, runs: Path) -> Findings:
    for pid, run in left_over(runs):
        command = project.masker.text(command_line(pid))
        yield "warn", f"process {pid} of run {run}: {command}; end it with: kill {pid}"


def _child() -> Findings:
    took, missing = try_delegation(EMBEDDED)
    yield "ok", f"started a child that did a small task in {duration(took)}"
    for lack in missing:
        yield "warn", f"children are not fully confined here: {lack}; see docs/safety.md"
