"""The report `doctor`: tries everything that a delegation needs, and tells what it found.

All checks run at the same time, each for a bounded time; one that fails itself is a finding too.
"""

import asyncio
import os
import platform
import shutil
import subprocess
import tempfile
import threading
import time
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

from outrider import __version__
from outrider.delegation.project import Project, project_with
from outrider.delegation.request import working_directory
from outrider.delegation.trial import try_delegation
from outrider.models.catalogue import EMBEDDED
from outrider.models.local_servers import ask_server
from outrider.models.resolution import is_embedded, needs
from outrider.processes.confinement import kernel_offers
from outrider.processes.reaping import command_line
from outrider.protocol.catalogue import CATALOGUE
from outrider.protocol.envelope import ToolFault
from outrider.protocol.errors import Refusal
from outrider.records.runs import left_over
from outrider.runtimes.pi.choices import find_pi
from outrider.settings import places
from outrider.settings.files import load_settings
from outrider.settings.layers import Settings, effective
from outrider.surfaces.mcp import hosts
from outrider.surfaces.parser import CommandParser
from outrider.surfaces.reports import agents as listing, modules
from outrider.surfaces.reports.lsp import programs
from outrider.surfaces.reports.report import Column, Report, Row, Section
from outrider.surfaces.text import as_text, count, duration
from outrider.surfaces.web_calls import search_once
from outrider.tools.documents.conversion import try_converter
from outrider.tools.files.ripgrep import ripgrep
from outrider.tools.loading import load_tools
from outrider.tools.lsp.client import version_of
from outrider.tools.lsp.servers import Surroundings

EXAMPLES = """\
Nothing is guessed: ripgrep is run, a file is written, a child does a task. A
finding is no failure of the command: the exit code is 0. What --online sends to
a model may cost a little.

examples:
  outrider doctor
  outrider doctor --online
  outrider doctor --json | jq '.checks[] | select(.status != "ok")'
"""

MIN_FREE_BYTES, LOW_FREE_BYTES = 64 << 20, 1 << 30
MAX_CHECK_SECONDS = 90.0
NOT_ASKED = "not asked, --online does that"
TROUBLE = (ToolFault, OSError, ValueError, subprocess.SubprocessError)
"""What a part raises that doesn't work."""

PERMISSIONS = ("allowWrite", "projectAgentPolicy", "allowLspTools", "allowedLspActions")
COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}
COLUMNS = (
    Column("", lambda check: f"{check['status']:<4}", lambda check: COLOURS[check["status"]]),
    Column("", lambda check: f"{check['name']}: {check['message']}"),
)
Findings = Iterable[tuple[str, str]]
"""What one check finds: each `ok`, `warn` or `fail` with words, and what to do if it isn't fine."""
Check = Callable[[], Findings]


def configure(parser: CommandParser) -> None:
    """Declare the arguments of `doctor`."""
    parser.add_cwd()
    words = "send a request to each search and model provider that has a key"
    parser.add_argument("--online", action="store_true", help=words)


def report(arguments: Namespace) -> Report:
    """Return what was found."""
    groups, names, checks = zip(
        *_checks(working_directory(arguments.cwd), online=arguments.online), strict=True
    )
    rows = [
        {"group": group, "name": name, "status": status, "message": message}
        for group, name, found in zip(groups, names, _made(checks), strict=True)
        for status, message in found
    ]
    worst = max((row["status"] for row in rows), key=list(COLOURS).index)
    sections = (
        Section(COLUMNS, [row for row in rows if row["group"] == group], group, wraps=True)
        for group in dict.fromkeys(groups)
    )
    return Report("Doctor", {"status": worst, "checks": rows}, tuple(sections))


def _made(checks: tuple[Check, ...]) -> list[Findings]:
    """Return what each check finds. Nobody waits for one that hangs, as a disk or a server may."""
    late = f"no answer within {MAX_CHECK_SECONDS:.0f} s"
    found: list[Findings] = [[("fail", late)] for _ in checks]

    def make(number: int, check: Check) -> None:
        try:
            found[number] = list(check())
        except TROUBLE as error:
            found[number] = [("fail", f"it doesn't work: {error}")]
        except (Exception, SystemExit) as error:
            found[number] = [("fail", f"it can't be checked: {type(error).__name__}: {error}")]

    give_up = time.monotonic() + MAX_CHECK_SECONDS
    threads = [threading.Thread(target=make, args=one, daemon=True) for one in enumerate(checks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, give_up - time.monotonic()))
    return found


def _checks(folder: Path, *, online: bool) -> Iterator[tuple[str, str, Check]]:
    """Yield the group and the name of every check, in the order of the report."""
    try:
        settings, problem = load_settings(folder, os.environ), ""
    except Refusal as refusal:
        settings, problem = Settings(), refusal.message
    project = project_with(folder, os.environ, settings)
    around = Surroundings.of(folder, os.environ, trusted=False)
    runs = places.runs_folder(os.environ)
    versions = f"Outrider {__version__}, Python {platform.python_version()}"
    yield "setup", "platform", lambda: [("ok", f"{versions} on {platform.platform()}")]
    yield "setup", "configuration", partial(_configuration, project, problem)
    yield "setup", "agents", partial(_agents, project)
    yield "setup", "permissions", partial(_permissions, project)
    yield "setup", "tools", partial(_tools, settings.config.tools.modules)
    yield "setup", "hosts", _hosts
    for row in modules.services(project):
        yield row["kind"], row["name"], partial(_service, row, project, online)
    yield "system", "ripgrep", lambda: _program(ripgrep([str(folder)]))
    yield "system", "git", lambda: _program(around.find("git"))
    yield "system", "pi", lambda: _program(find_pi(os.environ, str(folder)))
    yield "system", "state folder", partial(_state_folder, runs)
    yield "system", "confinement", _confinement
    yield "system", "processes left over", partial(_left_over, project, runs)
    yield "system", "child", _child


def _configuration(project: Project, problem: str) -> Findings:
    user = places.user_config_file(os.environ)
    own = places.project_config_file(project.folder, os.environ)
    files = [str(path) for path in (user, own) if path and path.exists()]
    words = " and ".join(files) or f"no file ({user}), so the defaults apply"
    yield "fail" if problem else "ok", problem or words
    for warning in project.settings.warnings:
        yield "warn", warning


def _agents(project: Project) -> Findings:
    """Tell of faulty and unused files, and of each agent what it gets and what is withheld."""
    for note in project.discovery.diagnostics:
        yield "fail" if note.severity == "error" else "warn", str(note)
    yield from (("ok", sentence) for sentence in listing.lost(project))
    for agent in project.discovery.agents.values():
        row = listing.record(agent, project)
        without = f"; without {listing.without(row)}" if row["withheld"] else ""
        off = f"; it may not run: {row['mayRunReason']}" if row["mayRun"] == "refuse" else ""
        yield "ok", f"{agent.name} gets {', '.join(row['tools']) or 'no tools'}{without}{off}"


def _hosts() -> Findings:
    """Tell with which hosts the MCP server is registered, and try the command that they have."""
    for host, command in hosts.registered():
        problem = hosts.problem_of(command)
        where = f"{host.title} ({host.path})"
        yield "warn" if problem else "ok", f"{where}: {problem or 'the server answers'}"


def _permissions(project: Project) -> Findings:
    for key, value in effective(project.config):
        if key.name.removeprefix("subagents.") in PERMISSIONS:
            yield "ok", f"{key.name} is {as_text(value)}"
    yield "ok", f"this project is {'' if project.trusted else 'not '}in subagents.trustedProjects"


def _tools(names: Sequence[str]) -> Findings:
    own, problems = load_tools(names)
    yield "ok", f"{count(len(CATALOGUE), 'tool')} built in, {len(own)} of your own"
    yield from (("warn", problem) for problem in problems)


def _service(row: Row, project: Project, online: bool) -> Findings:
    """Try what is on: a model, a search provider, a language server, the converter."""
    kind, name, why = row["kind"], row["name"], row["why"]
    if not row["on"]:
        broken = "fail" if name == project.choice().shown else "warn"
        yield broken if kind == "models" else "ok", why
        return
    try:
        yield "ok", f"{why}; {TRIED[kind](name, project, online)}"
    except TROUBLE as error:
        yield "fail", f"{why}; it doesn't work: {error}"


def _model(name: str, project: Project, online: bool) -> str:
    if is_embedded(name):
        return "it finds and quotes, it doesn't reason; set a key such as OPENAI_API_KEY for more"
    choice = next(one for one in modules.model_choices(project) if one.shown == name)
    if online:
        return (
            f"it did a small task in {duration(try_delegation(choice.model, **choice.variables))}"
        )
    key = "its key is set" if needs(choice.model) else "no key is needed"
    return ask_server(choice.environment(os.environ)) or f"{key}, {NOT_ASKED}"


def _search(name: str, project: Project, online: bool) -> str:
    return search_once(name, project.config) if online else NOT_ASKED


def _language_server(name: str, project: Project, _online: bool) -> str:
    program = next(one for one in programs(project) if one.name == name)
    around = Surroundings.of(project.folder, project.plain_env, trusted=project.trusted)
    version = asyncio.run(version_of(program, around.for_server(), project.config.lsp))
    return f"{version or 'it'} answers"


def _program(path: str | None) -> Findings:
    if path is None:
        yield "ok", "not installed; Outrider does without it"
        return
    ran = subprocess.run(
        [path, "--version"], capture_output=True, text=True, timeout=10, check=True
    )
    yield "ok", f"{ran.stdout.partition(os.linesep)[0] or 'it prints no version'} ({path})"


def _state_folder(runs: Path) -> Findings:
    runs.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=runs) as file:
        file.write(b"doctor")
    is_open = runs.stat().st_mode & 0o077
    close = f"it is open to others; close it with: chmod 700 {runs}"
    yield "warn" if is_open else "ok", f"{runs}: {close if is_open else 'it is yours alone'}"
    free = shutil.disk_usage(runs).free
    status = ["ok", "warn", "fail"][(free < LOW_FREE_BYTES) + (free < MIN_FREE_BYTES)]
    cut = "; records would be cut short" if status == "fail" else ""
    yield status, f"{free / (1 << 30):,.1f} GiB free for runs{cut}"


def _confinement() -> Findings:
    """Tell what the kernel offers; only the converter's network namespace is in use today."""
    for name, (works, words) in kernel_offers().items():
        missed = name == "user namespaces" and not works
        lack = "; documents are converted without a network namespace" if missed else ""
        yield "warn" if missed else "ok", f"{name}: {words if works else f'no ({words})'}{lack}"


def _left_over(project: Project, runs: Path) -> Findings:
    """Look for processes of runs that have ended."""
    found = [(pid, run, project.masker.text(command_line(pid))) for pid, run in left_over(runs)]
    for pid, run, command in found:
        yield "warn", f"process {pid} of run {run}: {command}; end it with: kill {pid}"
    if not found:
        yield "ok", "none"


def _child() -> Findings:
    yield "ok", f"a child was started and did a small task in {duration(try_delegation(EMBEDDED))}"


TRIED: dict[str, Callable[[str, Project, bool], str]] = {
    "models": _model,
    "search": _search,
    "servers": _language_server,
    "converter": lambda _, project, __: try_converter(project.config.convert),
}
