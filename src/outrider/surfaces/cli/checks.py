"""What `doctor` checks. Each check does the thing itself; none of them raises for a bad finding."""

import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from outrider import __version__
from outrider.delegation.project import Project, project_with
from outrider.protocol.errors import Refusal
from outrider.settings import places
from outrider.settings.files import load_settings
from outrider.settings.layers import Settings
from outrider.surfaces.cli.text import count

SCARCE_BYTES = 1 << 30
TOO_LITTLE_BYTES = 64 << 20


class Status(StrEnum):
    """What came of a check."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Check:
    """One finding: what was checked, what came of it, and what to do if it isn't fine."""

    name: str
    status: Status
    message: str


def all_checks(folder: Path) -> Iterator[Check]:
    """Yield the findings one after the other, as they come."""
    from outrider.surfaces.cli.check_child import child_check
    from outrider.surfaces.cli.check_model import model_check

    yield _python()
    settings, findings = _configuration(folder)
    yield from findings
    project = project_with(folder, os.environ, settings)
    yield from _agents(project)
    yield model_check(project)
    yield _ripgrep(folder)
    yield from _own_tools(settings)
    yield from _state()
    yield child_check()


def _python() -> Check:
    system = platform.system()
    found = f"Outrider {__version__}, Python {platform.python_version()} on {platform.platform()}"
    if system == "Linux":
        return Check("platform", Status.OK, found)
    if system == "Darwin":
        return Check("platform", Status.OK, f"{found}; children are started cold")
    return Check("platform", Status.WARN, f"{found}; only Linux and macOS are supported")


def _configuration(folder: Path) -> tuple[Settings, list[Check]]:
    try:
        settings = load_settings(folder, os.environ)
    except Refusal as refusal:
        return Settings(), [Check("configuration", Status.FAIL, refusal.message)]
    if settings.warnings:
        return settings, [
            Check("configuration", Status.WARN, warning) for warning in settings.warnings
        ]
    files = [
        str(path)
        for path in (
            places.user_config_file(os.environ),
            places.project_config_file(folder, os.environ),
        )
        if path and path.exists()
    ]
    read = " and ".join(files) or "no file, so the defaults hold"
    return settings, [Check("configuration", Status.OK, read)]


def _agents(project: Project) -> Iterator[Check]:
    discovery = project.discovery
    for note in discovery.diagnostics:
        status = Status.FAIL if note.severity == "error" else Status.WARN
        yield Check("agents", status, str(note))
    names = ", ".join(discovery.agents)
    yield Check("agents", Status.OK, f"{count(len(discovery.agents), 'agent')}: {names}")


def _ripgrep(folder: Path) -> Check:
    from outrider.tools.faults import ToolFault
    from outrider.tools.files.ripgrep import ripgrep

    try:
        program = ripgrep([str(folder)])
        ran = subprocess.run(
            [program, "--version"], capture_output=True, text=True, timeout=10, check=True
        )
    except ToolFault as fault:
        return Check("ripgrep", Status.FAIL, str(fault))
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        return Check("ripgrep", Status.FAIL, f"it is there, but doesn't run: {error}")
    version = next(iter(ran.stdout.splitlines()), "it says nothing of its version")
    return Check("ripgrep", Status.OK, f"{version} ({program})")


def _own_tools(settings: Settings) -> Iterator[Check]:
    from outrider.tools.entry_points import load_tools

    tools, problems = load_tools(settings.config.tools.modules)
    if tools:
        names = ", ".join(sorted(tool.name for tool in tools))
        yield Check("tools of your own", Status.OK, names)
    for problem in problems:
        yield Check("tools of your own", Status.WARN, problem)


def _state() -> Iterator[Check]:
    runs = places.runs_folder(os.environ)
    try:
        runs.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=runs) as file:
            file.write(b"doctor")
            file.flush()
    except OSError as error:
        message = f"{runs} can't be written: {error.strerror}. OUTRIDER_HOME names another place."
        yield Check("state folder", Status.FAIL, message)
        return
    if runs.stat().st_mode & 0o077:
        message = f"{runs} is open to others; close it with: chmod 700 {runs}"
        yield Check("state folder", Status.WARN, message)
    else:
        yield Check("state folder", Status.OK, f"{runs} can be written, and is yours alone")
    yield _disk(runs)


def _disk(folder: Path) -> Check:
    free = shutil.disk_usage(folder).free
    message = f"{free / (1 << 30):,.1f} GiB free for runs"
    if free < TOO_LITTLE_BYTES:
        return Check("disk", Status.FAIL, f"{message}; records would be cut short")
    return Check("disk", Status.WARN if free < SCARCE_BYTES else Status.OK, message)
